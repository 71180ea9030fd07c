"""Known holes in what is installed: `rules/advisories.yaml` against the installed versions."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import metadata

from penumbra import rules
from penumbra.cli.installation import alone, newer

FOR_OLD_PYTHON = "use Python 3.12 or later"


@dataclass(frozen=True, slots=True)
class Hole:
    """One that an installed version has."""

    package: str
    version: str
    id: str
    what: str
    remedy: str
    shows_flows: bool
    """mitmweb gives the flows of all clients to each of them."""


def holes() -> list[Hole]:
    """Those of all installed packages that the list names."""
    packages = dict.fromkeys(entry["package"] for entry in rules.load("advisories.yaml")["holes"])
    return [hole for package in packages for hole in holes_of(package, version_of(package))]


def holes_of(package: str, version: str) -> list[Hole]:
    """Those of one version; none if it is not installed (empty)."""
    return [
        Hole(
            package=package,
            version=version,
            id=entry["id"],
            what=entry["what"],
            remedy=alone(entry["alone"]) if "alone" in entry else _usual(package, entry["fixed"]),
            shows_flows=entry.get("shows_flows", False),
        )
        for entry in rules.load("advisories.yaml")["holes"]
        if version and entry["package"] == package and _parts(version) < _parts(entry["fixed"])
    ]


def _usual(package: str, fixed: str) -> str:
    if sys.version_info < (3, 12):
        return FOR_OLD_PYTHON
    return _held_back(package, fixed) or newer(("mitmproxy", package))


def _held_back(package: str, fixed: str) -> str:
    """Why nothing brings the version that mends a hole; empty: something does."""
    latest = next((found[1] for wanted in _wanted() if (found := _most(package, wanted))), "")
    if not latest or _parts(latest) >= _parts(fixed):
        return ""
    return f"none yet: mitmproxy {version_of('mitmproxy')} takes no {package} later than {latest}"


def _wanted() -> list[str]:
    """What the installed mitmproxy asks for."""
    try:
        return metadata.requires("mitmproxy") or []
    except metadata.PackageNotFoundError:
        return []


def _most(package: str, wanted: str) -> re.Match[str] | None:
    return re.match(rf"{re.escape(package)}\b[^;]*<=\s*([\d.]+)", wanted)


def version_of(package: str) -> str:
    """The installed version; empty if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _parts(version: str) -> tuple[int, ...]:
    release = re.match(r"\d{1,9}(?:\.\d{1,9})*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()
