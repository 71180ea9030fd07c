"""This module knows the addresses of this process, and keeps connections through the proxy away from
mitmweb's port and the page's port."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

from mitmproxy import ctx, http
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from penumbra.flow.guarded import Guarded, stop
from penumbra.flow.mitm import addon
from penumbra.wire.request_path import is_loopback, is_this_machine

_REFUSAL = "Penumbra lets no client through to mitmweb's own port, which shows the flows of all clients."
_log = logging.getLogger(__name__)


class Listening(Guarded):
    """A `Listening` reports if other machines can reach the proxy. Connections through the proxy to mitmweb
    are refused, because mitmweb would take their clients for clients on this machine. So are connections to
    the ports that `closed` returns, each with the words of its refusal."""

    def __init__(self, closed: Callable[[], dict[int | None, str]]) -> None:
        self._closed = closed

    def running(self) -> None:
        """Report addresses that other machines can reach, once all servers listen."""
        wide = {f"{'*' if is_any(host) else host}:{port}" for host, port in addresses() if is_wide(host)}
        if wide:
            places = ", ".join(sorted(wide))
            _log.warning(
                f"The proxy listens at {places}: everybody who reaches this machine can use it. "
                "--listen-host 127.0.0.1, or --mode …@127.0.0.1:PORT, keeps it to this machine."
            )

    async def server_connect(self, data: ServerConnectionHookData) -> None:
        """Refuse a connection to mitmweb's own port. Names are looked up here, and the connection goes to the
        address that was found. A later lookup could find another address."""
        address = data.server.address
        if address is None or address[1] != _web_port():
            return
        addresses = await _lookup(address[0], address[1])
        if any(is_this_machine(host) for host in addresses):
            data.server.error = _REFUSAL
            _log.warning(f"Penumbra refused a connection to mitmweb's port {address[1]}.")
        elif addresses:
            data.server.sni = data.server.sni or data.client.sni or address[0]
            data.server.address = (addresses[0], address[1])

    async def http_connect(self, flow: http.HTTPFlow) -> None:
        """Refuse a tunnel to one of the ports, even if an upstream proxy would open the connection."""
        port = flow.request.port
        words = {**self._closed(), _web_port(): _REFUSAL}.get(port)
        if words and port and await leads_here(flow.request.host):
            flow.response = http.Response.make(403, f"{words}\n", {"content-type": "text/plain"})
            flow.comment = "Penumbra refused: a port of the proxy itself"

    requestheaders = http_connect

    def failed(self, hook: str, subject: Any, error: BaseException) -> bool:
        """Refuse a connection to one of the ports if the connection's hook raised."""
        address = (
            subject.server.address
            if isinstance(subject, ServerConnectionHookData)
            else ("", subject.request.port)
        )
        if address is not None and address[1] in (_web_port(), *self._closed()):
            stop(subject)
        return False


def addresses() -> list[tuple[str, int]]:
    proxyserver = addon("proxyserver")
    return [(str(address[0]), address[1]) for address in proxyserver.listen_addrs()] if proxyserver else []


def ports() -> frozenset[int]:
    return frozenset(port for _, port in addresses())


def proxy() -> str:
    """Return the host and port of the regular or upstream proxy for programs on this machine, or empty."""
    proxyserver = addon("proxyserver")
    for instance in proxyserver.servers if proxyserver else ():
        if instance.mode.type_name in ("regular", "upstream"):
            for host, port, *_ in instance.listen_addrs:
                if ":" not in host:
                    return f"{'127.0.0.1' if is_any(host) else host}:{port}"
    return ""


def is_wide(host: str) -> bool:
    """Return whether other machines can reach this address."""
    return is_any(host) or not is_loopback(host)


def is_any(host: str) -> bool:
    """Return whether a host means all addresses of this machine."""
    return host in ("", "0.0.0.0", "::")


def _web_port() -> int | None:
    """Return mitmweb's port; None in other programs."""
    return ctx.options.web_port if "web_port" in ctx.options else None


async def leads_here(host: str) -> bool:
    return any(is_this_machine(address) for address in await _lookup(host, 0))


async def _lookup(host: str, port: int) -> list[str]:
    """Return the addresses of a host; none if the lookup fails."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in infos]
