"""Which entries of `NO_PROXY` lead LLM requests past the proxy."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from penumbra import rules
from penumbra.rule_schemas.providers import Providers

_SEPARATOR = re.compile(r"[,\s]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")


def entries(value: str) -> list[str]:
    """What a variable names; programs read commas and spaces between."""
    return [entry for entry in _SEPARATOR.split(value) if entry]


def covers_llm_host(entry: str, extra: tuple[str, ...] = ()) -> bool:
    """Whether an entry stands for the host of a provider: `*`, a host, or a domain above one.

    `extra`: globs of more hosts. Local hosts don't count: requests to them go without the proxy anyhow.
    """
    domain = _domain(entry)
    providers = rules.load_as("providers.yaml", Providers).providers
    hosts = (*(host for hosts in providers.values() for host in hosts), *extra)
    return not domain or any(_leads_to(domain, host.lower()) for host in hosts)


def _domain(entry: str) -> str:
    """An entry without scheme, path, port, wildcard in front, and dots around."""
    place = re.split(r"[/?#]", _SCHEME.sub("", entry.strip().lower()), maxsplit=1)[0]
    if place.startswith("["):
        place = place[1:].partition("]")[0]
    elif place.count(":") == 1:
        place = place.partition(":")[0]
    return place.lstrip("*").strip(".")


def _leads_to(domain: str, host: str) -> bool:
    """Whether a domain is a host of a glob, or above one: label by label from the right."""
    if fnmatchcase(domain, host):
        return True
    above, labels = domain.split(".")[::-1], host.split(".")[::-1]
    return len(above) < len(labels) and all(map(fnmatchcase, above, labels))
