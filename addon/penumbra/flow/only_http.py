"""What clients say to LLM hosts behind TLS: HTTP, and nothing else.

mitmproxy takes a connection whose first bytes do not look like a request (an empty line, or half of a
first line) for any protocol, and passes its bytes on unread.
"""

from __future__ import annotations

from collections.abc import Callable

from mitmproxy import ctx
from mitmproxy.proxy import layers
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.layers.http import HTTPMode


class OnlyHttp:
    """State: none. It stands in front of those who change HTTP layers."""

    def __init__(self, is_searched: Callable[[str], bool]) -> None:
        """`is_searched`: whether requests to a host are searched for secrets."""
        self._is_searched = is_searched

    def next_layer(self, data: NextLayer) -> None:
        """Scripts run before mitmproxy's own choice of the layer."""
        chooser = ctx.master.addons.get("nextlayer")
        if data.layer is None and chooser is not None:
            chooser.next_layer(data)
        context, chosen = data.context, data.layer
        # What the operator lets pass unread has no flow.
        if type(chosen) is not layers.TCPLayer or chosen.flow is None or ctx.options.tcp_hosts:
            return
        if context.client.tls_established and self._is_searched(_host(context)):
            context.layers.remove(chosen)
            data.layer = layers.HttpLayer(context, HTTPMode.transparent)


def _host(context: Context) -> str:
    address = context.server.address
    return context.client.sni or (str(address[0]) if address else "")
