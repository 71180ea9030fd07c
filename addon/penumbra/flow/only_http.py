"""This module allows only HTTP on connections to LLM hosts, except for local services and hosts that the
operator excludes.

If the first bytes of a connection did not look like a request, mitmproxy would forward all bytes unread. For
example, half of a first line does not look like a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mitmproxy import ctx
from mitmproxy.net.tls import starts_like_tls_record
from mitmproxy.proxy import events, layer, layers
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HTTPMode

from penumbra.flow import destination, guarded
from penumbra.flow.mitm import addon

_UNREAD = (layers.TCPLayer, layers.UDPLayer, layers.DNSLayer, layers.RawQuicLayer)
"""The layers that forward bytes without a hook for HTTP."""
_TLS = b"\x16\x03"
_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}")
_LONGEST_LINE = 8_192
"""The length in bytes of the longest first line."""


@dataclass(frozen=True)
class OnlyHttp:
    """An `OnlyHttp` allows only HTTP on connections to hosts whose requests are searched for secrets."""

    _is_llm_host: Callable[[str], bool]
    """A function that returns whether LLM calls to a host are read."""
    _is_searched: Callable[[str], bool]
    """A function that returns whether a host's requests are searched for secrets."""
    _is_provider: Callable[[str], bool]

    def next_layer(self, data: layer.NextLayer) -> None:
        """Replace a layer that would forward bytes unread. mitmproxy itself would choose only after this
        hook."""
        chooser = addon("nextlayer")
        if data.layer is None and chooser is not None:
            chooser.next_layer(data)
        context, chosen = data.context, data.layer
        if not isinstance(chosen, _UNREAD) or destination.mode(context.client) == "reverse":
            return
        names, is_tcp = _names(context), context.client.transport_protocol == "tcp"
        if is_tcp and starts_like_tls_record(data.data_client()):
            return  # The operator excludes these messages but still wants to see them.
        # These options and `ignore_hosts` let the operator exempt connections from all reading. With
        # `ignore_hosts`, the layer has no flow.
        unread = ctx.options.tcp_hosts if is_tcp else ctx.options.udp_hosts
        if getattr(chosen, "flow", chosen) is None or _is_named(names, unread):
            return
        is_searched = any(map(self._is_searched, names))
        # mitmproxy takes less than three bytes of a ClientHello for another protocol.
        may_be_tls = is_tcp and _TLS.startswith(data.data_client()) and any(map(self._is_llm_host, names))
        if not is_searched and not may_be_tls:
            return
        # Local services may speak any protocol.
        is_local = not context.client.tls_established and not any(map(self._is_provider, names))
        is_free = is_local or not is_searched
        if is_tcp:
            context.layers.remove(chosen)
            data.layer = FirstLine(context, chosen if is_free else None)
        elif not is_free:
            guarded.stop(data)

    def failed(self, data: layer.NextLayer) -> None:
        """Close a connection to a searched host if its first bytes could not be read."""
        unread = data.layer is None or isinstance(data.layer, _UNREAD)
        if unread and any(map(self._is_searched, _names(data.context))):
            guarded.stop(data)


class FirstLine(layer.Layer):
    """A layer that delays a client's first bytes until they show the protocol."""

    def __init__(self, context: Context, other: layer.Layer | None) -> None:
        """`other` is the layer for other protocols; None if only HTTP is allowed."""
        super().__init__(context)
        self.child_layer: layer.Layer = layers.HttpLayer(context, HTTPMode.transparent)
        self._other = other
        self._begun: layer.Layer | None = None
        """The layer that takes all events when the protocol is known; None before that."""
        self._first_bytes: bytes | None = b""
        """The first bytes from the client; None when the protocol is known."""

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        yield from guarded.closing(self.context, super().handle_event(event))

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Start):
            return
        chosen = self._begun or self._other or self.child_layer
        if self._first_bytes is not None and getattr(event, "connection", None) == self.context.client:
            is_http: bool | None = self._other is None
            if isinstance(event, events.DataReceived):
                self._first_bytes += event.data
                is_http = _is_http(self._first_bytes, is_free=self._other is not None)
            if is_http is None:
                return
            # Blanks before the first line, which servers accept, are removed.
            read, self._first_bytes = self._first_bytes.lstrip() if is_http else self._first_bytes, None
            if is_http and self._begun is not None and self._begun is self._other:
                # The server spoke first, but may also accept requests, which would pass unread.
                chosen, self._begun = guarded.Closed(self.context), None
            elif self._begun is None and starts_like_tls_record(read):
                chosen = layer.NextLayer(self.context)
            elif is_http:
                chosen = self.child_layer
            first = events.DataReceived(self.context.client, read)
            yield from self._pass_on(chosen, first)
            if isinstance(event, events.DataReceived):
                return
        yield from self._pass_on(chosen, event)

    def _pass_on(self, chosen: layer.Layer, event: events.Event) -> layer.CommandGenerator[None]:
        if self._begun is None:
            self._begun = chosen
            yield from chosen.handle_event(events.Start())
        yield from chosen.handle_event(event)


def _names(context: Context) -> list[str]:
    address = context.server.address
    return [name for name in (str(address[0]) if address else "", context.client.sni) if name]


def _is_named(names: list[str], patterns: Sequence[str]) -> bool:
    return any(re.search(pattern, name, re.IGNORECASE) for pattern in patterns for name in names)


def _is_http(data: bytes, *, is_free: bool) -> bool | None:
    """Return whether the first bytes of a client are read as a request; None if more bytes are needed. With
    `is_free`, the client may use another protocol. Otherwise the result is never False. Servers accept blanks
    before the first line and any blanks in it. Some servers accept a line without a version."""
    line, end, _ = data.lstrip().partition(b"\n")
    words, is_whole = line.split(None, 2), bool(end) or len(line) > _LONGEST_LINE
    if len(data) < 3 and _TLS.startswith(data):
        return None
    if not words or not is_free:
        return True if words else None
    if not _METHOD.fullmatch(words[0]):
        return False
    if len(words) > 1 and (words[1][:1] in (b"/", b"*") or b"://" in words[1]):
        return True
    if not is_whole:
        return None
    return len(words) > 2 and words[-1].split()[-1].upper().startswith(b"HTTP/")
