"""Which entries of `NO_PROXY` lead LLM requests past the proxy."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from penumbra import rules
from penumbra.rule_schemas.providers import Providers

_SEPARATOR = re.compile(r"[,\s]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
_WILD = re.compile(r"[*?\[]")


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
    """Whether a host of a glob ends with the domain; some programs don't ask for a dot in front of it."""
    wild = max((match.start() for match in _WILD.finditer(host)), default=-1)
    ends = host[wild + 1 :].endswith(domain)
    return ends or any(fnmatchcase(domain, host[at:]) for at in range(wild + 1))
