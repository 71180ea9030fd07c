"""What clients say to LLM hosts: HTTP, and nothing else.

mitmproxy takes a connection whose first bytes do not look like a request (an empty line, or half of a first
line) for any protocol, and passes its bytes on unread.
"""

from __future__ import annotations

from collections.abc import Callable

from mitmproxy import ctx
from mitmproxy.proxy import layers
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.layers.http import HTTPMode

from penumbra.flow import destination, guarded

_UNREAD = (layers.TCPLayer, layers.UDPLayer, layers.DNSLayer, layers.RawQuicLayer)
"""Layers that pass bytes on of which no hook for HTTP gets to know."""
_LONGEST_LINE = 65_536
"""Bytes of a first line that are waited for."""


class OnlyHttp:
    """Lets nothing but HTTP through to hosts that are searched. Asked before HTTP layers are changed."""

    def __init__(self, is_searched: Callable[[str], bool], is_provider: Callable[[str], bool]) -> None:
        """`is_searched` says whether requests to a host are searched for secrets, `is_provider` whether it is
        there for LLM calls alone."""
        self._is_searched = is_searched
        self._is_provider = is_provider

    def next_layer(self, data: NextLayer) -> None:
        """Replace a layer that would pass bytes on unread. Scripts run before mitmproxy's own choice."""
        chooser = ctx.master.addons.get("nextlayer")
        if data.layer is None and chooser is not None:
            chooser.next_layer(data)
        context, chosen = data.context, data.layer
        if not isinstance(chosen, _UNREAD) or ctx.options.tcp_hosts or ctx.options.udp_hosts:
            return
        # What the operator lets pass unread has no flow, or is a mode of its own.
        if getattr(chosen, "flow", chosen) is None or destination.mode(context.client) == "reverse":
            return
        names = _names(context)
        if not any(map(self._is_searched, names)):
            return
        is_http: bool | None = True
        if not context.client.tls_established and not any(map(self._is_provider, names)):
            # What runs locally may be anything.
            is_http = False if data.data_server() else _is_http(data.data_client())
        if is_http is False:
            return
        context.layers.remove(chosen)
        data.layer = None
        if is_http and context.client.transport_protocol == "tcp":
            data.layer = layers.HttpLayer(context, HTTPMode.transparent)
        elif is_http:
            guarded.stop(data)

    def failed(self, data: NextLayer) -> None:
        """Close a connection to a host that is searched, if what was said on it could not be looked at."""
        unread = data.layer is None or isinstance(data.layer, _UNREAD)
        if unread and any(map(self._is_searched, _names(data.context))):
            guarded.stop(data)


def _names(context: Context) -> list[str]:
    """Return the names of the host that a connection leads to, by its address and by its client's TLS."""
    address = context.server.address
    return [name for name in (str(address[0]) if address else "", context.client.sni) if name]


def _is_http(data: bytes) -> bool | None:
    """Return whether the first bytes of a client are those of a request; None if more have to be seen.

    Servers take blanks before the first line, and of any kind within it.
    """
    line, end, _ = data.lstrip().partition(b"\n")
    if end or len(line) > _LONGEST_LINE:
        words = line.split()
        return len(words) > 2 and words[-1].upper().startswith(b"HTTP/")
    return None if all(byte >= 0x20 or byte in b"\t\v\f\r" for byte in line) else False
