"""Which entries of `NO_PROXY` lead LLM requests past the proxy."""

from __future__ import annotations

from functools import cache

from penumbra import rules

_LOOPBACK = ("localhost", "127.", "::1", "[::1]", "0.0.0.0")


def covers_llm_host(entry: str) -> bool:
    """Whether an entry stands for the host of a provider: `*`, a host, or a domain above one."""
    if entry.startswith(_LOOPBACK):
        return False
    domain = entry.lower().lstrip("*").lstrip(".").partition(":")[0]
    return not domain or any(host == domain or host.endswith(f".{domain}") for host in _hosts())


@cache
def _hosts() -> tuple[str, ...]:
    providers = rules.load("providers.yaml")["providers"]
    return tuple(host.removeprefix("*.") for hosts in providers.values() for host in hosts)
