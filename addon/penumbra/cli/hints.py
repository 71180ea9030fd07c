"""How to point an agent at the proxy that has been started."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from penumbra.cli.certificates import Certificates

_BASES = {
    "api.anthropic.com": ("ANTHROPIC_BASE_URL", ""),
    "api.openai.com": ("OPENAI_BASE_URL", "/v1"),
    "generativelanguage.googleapis.com": ("GOOGLE_GEMINI_BASE_URL", ""),
}
"""Variables that agents read their base URL from, and the path behind it."""
_ALL_TRAFFIC = ("transparent", "wireguard", "tun")


@dataclass(frozen=True, slots=True)
class Server:
    """One mode of the proxy, as it runs."""

    kind: str
    """`regular`, `reverse`, `local` …"""
    data: str = ""
    """What stands behind the colon: a URL, the names of programs."""
    host: str = ""
    """The address it listens on; empty if it listens on none."""
    port: int = 0

    @property
    def place(self) -> str:
        """Host and port as another program on this machine writes them."""
        return f"{_reachable(self.host)}:{self.port}"


def hints(servers: Iterable[Server], certificates: Certificates) -> str:
    """What the user is told, line by line."""
    lines = [f"CA certificate: {certificates.ca}"]
    proxies = [server for server in servers if server.kind in ("regular", "upstream")]
    for server in servers:
        if server in proxies[:1]:
            lines += _proxy(server, certificates)
        elif server in proxies:
            lines.append(f"Another one: export HTTPS_PROXY=http://{server.place}")
        else:
            lines += _other(server)
    return "\n".join(lines)


def _proxy(server: Server, certificates: Certificates) -> list[str]:
    """Lines to be pasted into any shell, so without comments: an interactive zsh takes them for words."""
    ca = shlex.quote(str(certificates.ca))
    lines = [
        "Point an agent at Penumbra, in the shell that starts the agent:",
        f"  export HTTPS_PROXY=http://{server.place}",
        f"  export NODE_EXTRA_CA_CERTS={ca}",
        f"  export CODEX_CA_CERTIFICATE={ca}",
    ]
    if certificates.bundle is not None:
        lines.append(f"  export SSL_CERT_FILE={shlex.quote(str(certificates.bundle))}")
    lines.append("NODE_EXTRA_CA_CERTS is for Claude Code, Gemini CLI and other Node agents,")
    if certificates.bundle is None:
        return [*lines, f"CODEX_CA_CERTIFICATE for Codex; none for Python SDKs: {certificates.problem}"]
    return [*lines, "CODEX_CA_CERTIFICATE for Codex, SSL_CERT_FILE for Python SDKs."]


def _other(server: Server) -> list[str]:
    if server.kind == "reverse":
        return _reverse(server)
    if server.kind == "local":
        programs = server.data or "all programs"
        return [
            f"Captured on this machine: {programs}. They must trust the CA certificate; nothing else to set."
        ]
    if server.kind == "socks5":
        return [
            "Point an agent that speaks SOCKS at Penumbra, and let it trust the CA certificate:",
            f"  export ALL_PROXY=socks5h://{server.place}",
        ]
    if server.kind in _ALL_TRAFFIC:
        where = f" at {server.place}" if server.host else ""
        return [
            f"Mode {server.kind}{where}: lead traffic there, from programs that trust the CA certificate."
        ]
    return [f"Mode {server.kind} at {server.place}."]


def _reverse(server: Server) -> list[str]:
    scheme, _, rest = server.data.rpartition("://")
    host = rest.partition("/")[0].partition(":")[0]
    if scheme not in ("http", "https", ""):
        return [f"{server.place} leads to {server.data}."]
    variable, path = _BASES.get(host, ("", ""))
    if variable:
        return [
            f"Point an agent at Penumbra by its base URL, {host} behind it:",
            f"  export {variable}=http://{server.place}{path}",
        ]
    return [f"Base URL http://{server.place} leads to {server.data}."]


def _reachable(host: str) -> str:
    """The address by which a program on this machine reaches a listener."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if address.is_unspecified:
        return "127.0.0.1"
    return f"[{address}]" if address.version == 6 else str(address)
