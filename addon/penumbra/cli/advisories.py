"""This module finds known vulnerabilities of installed packages (`rules/advisories.yaml`), and the commands
that install newer versions."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from penumbra import rules

_NAME = "penumbra-proxy"
_BROTLI = "brotli>=1.2.1"
"""The first version in which a compressed body can't overwrite memory. mitmproxy before 12.3 forbids this
version."""
_OF_PIPX, _OF_UV = "pipx_metadata.json", "uv-receipt.toml"
"""Files that pipx and uv write into the environments that they make."""


def newer(packages: Sequence[str], prefix: str = sys.prefix) -> str:
    """Return the command that installs newer versions of these packages for this Python."""
    folder = Path(prefix)
    root = folder.parent
    if (root / "scripts" / "venv").is_file() and (root / "addon" / "penumbra").is_dir():
        return f"rm -rf {shlex.quote(str(folder))} && {shlex.quote(str(root / 'scripts' / 'run'))} --version"
    if (folder / _OF_PIPX).exists():
        return f"pipx reinstall {_NAME}"
    if (folder / _OF_UV).exists():
        return f"uv tool upgrade {_NAME}"
    names = " ".join(shlex.quote(name) for name in dict.fromkeys(packages))
    return f"{_pip(folder)} --upgrade {names} && {alone(_BROTLI, prefix)}"


def alone(requirement: str, prefix: str = sys.prefix) -> str:
    """Return the command that installs one package and changes no other packages."""
    return f"{_pip(Path(prefix))} --no-deps {shlex.quote(requirement)}"


def _pip(folder: Path) -> str:
    """Return the command that installs packages for this Python. Environments of uv and pipx have no
    `pip`."""
    if (folder / _OF_PIPX).exists():
        return f"pipx runpip {_NAME} install"
    python = shlex.quote(sys.executable)
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"


FOR_OLD_PYTHON = "use Python 3.12 or later"


@dataclass(frozen=True, slots=True)
class Hole:
    package: str
    version: str
    id: str
    what: str
    remedy: str
    shows_flows: bool
    """True if mitmweb shows the flows of all clients to each client."""


def holes() -> list[Hole]:
    packages = dict.fromkeys(entry["package"] for entry in rules.load("advisories.yaml")["holes"])
    return [hole for package in packages for hole in holes_of(package, version_of(package))]


def holes_of(package: str, version: str) -> list[Hole]:
    """Return the known vulnerabilities of a version. An empty version (not installed) has none."""
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
        if version and entry["package"] == package and parts(version) < parts(entry["fixed"])
    ]


def _usual(package: str, fixed: str) -> str:
    if sys.version_info < (3, 12):
        return FOR_OLD_PYTHON
    return _held_back(package, fixed) or newer(("mitmproxy", package))


def _held_back(package: str, fixed: str) -> str:
    """Return why mitmproxy forbids all fixed versions of a package; empty if it allows a fixed version."""
    try:
        requirements = metadata.requires("mitmproxy") or []
    except metadata.PackageNotFoundError:
        requirements = []
    limit = re.compile(rf"{re.escape(package)}\b[^;]*<=\s*([\d.]+)")
    latest = next((found[1] for each in requirements if (found := limit.match(each))), "")
    if not latest or parts(latest) >= parts(fixed):
        return ""
    return f"none yet: mitmproxy {version_of('mitmproxy')} takes no {package} later than {latest}"


def version_of(package: str) -> str:
    """Return the installed version; empty if the package is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def parts(version: str) -> tuple[int, ...]:
    release = re.match(r"\d{1,9}(?:\.\d{1,9})*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()
