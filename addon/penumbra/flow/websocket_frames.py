"""WebSockets of mitmproxy: how one is opened, and frames that are changed, dropped, put in and bounded."""

from __future__ import annotations

import zlib
from typing import Any

from mitmproxy import ctx, http, websocket
from mitmproxy.proxy.layers import websocket as layers
from wsproto import extensions
from wsproto.frame_protocol import FrameDecoder, FrameProtocol, Opcode, RsvBits

from penumbra.flow.state import FlowState
from penumbra.flow.websocket_streams import SearchedSocket, Socket
from penumbra.wire.content_encoding import MOST_BYTES

_WHOLE = 1 << 40
"""Bytes in one frame of a message that was changed."""


def can_change() -> bool:
    """Return whether mitmproxy shows frames, and lets them be changed without breaking their letters."""
    return bool(ctx.options.websocket) and hasattr(layers.Fragmentizer, "FRAGMENT_SIZE")


def keep_letters_whole() -> None:
    """mitmproxy cuts changed messages at any byte, and takes halves of letters for broken ones."""
    layers.Fragmentizer.FRAGMENT_SIZE = _WHOLE


def put(message: websocket.WebSocketMessage, frame: bytes) -> None:
    """Put a frame in the place of a message; empty: the message is dropped."""
    if not frame and message.content:
        message.drop()
    elif frame != message.content:
        # For a message that keeps its length, mitmproxy would keep the old cuts.
        message.content = frame + b" " if len(frame) == len(message.content) else frame


def inject(flow: http.HTTPFlow, frame: bytes, *, to_client: bool, is_text: bool = True) -> None:
    ctx.master.commands.call("inject.websocket", flow, to_client, frame, is_text)


_BEGINS_A_MESSAGE = (Opcode.TEXT, Opcode.BINARY)


class _Bounded:
    """A decompressor that gives one message at most so many bytes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.left = MOST_BYTES

    def decompress(self, data: bytes) -> bytes:
        plain: bytes = self._inner.decompress(data, self.left + 1)
        self.left -= len(plain)
        if self.left < 0:
            raise zlib.error("the message is too large")
        return plain

    def flush(self) -> bytes:
        # Nothing is left behind: what did not fit was an error.
        return b""


class BoundedDeflate(extensions.PerMessageDeflate):
    """See wsproto."""

    def frame_inbound_header(
        self, proto: FrameDecoder | FrameProtocol, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> Any:
        frame = super().frame_inbound_header(proto, opcode, rsv, payload_length)
        inner: Any = self._decompressor
        if inner is not None and not isinstance(inner, _Bounded):
            bounded: Any = _Bounded(inner)
            self._decompressor = bounded
        elif inner is not None and opcode in _BEGINS_A_MESSAGE:
            inner.left = MOST_BYTES
        return frame


def bound_messages() -> None:
    """For all connections from now on."""
    name = extensions.PerMessageDeflate.__name__
    if name != BoundedDeflate.__name__:
        setattr(extensions, name, BoundedDeflate)


def opening_answered(flow: http.HTTPFlow, state: FlowState) -> None:
    """Refuse a change of protocol at a searched host if the messages that follow could not be read."""
    if flow.websocket is not None:
        # The socket may stay open for long. Each request on it has a lease of its own.
        state.lease.end()
    if is_unread(flow, state) and (state.is_searched or is_read(state)):
        flow.websocket, flow.response = None, http.Response.make(502)
    if flow.response is None or flow.response.status_code != 101:
        state.drop(Socket)
        state.drop(SearchedSocket)


def is_unread(flow: http.HTTPFlow, state: FlowState | None) -> bool:
    """Return whether mitmproxy would pass on what follows a response without a hook that reads it. Responses
    decide that, whatever their requests have asked for."""
    if flow.response is None or flow.response.status_code != 101:
        return False
    reads = state is not None and (is_read(state) or state.lease.settings.websocket == "pass")
    return flow.websocket is None or not reads


def is_read(state: FlowState) -> bool:
    """Return whether the frames of a flow are rewritten or searched."""
    return state.get(Socket) is not None or state.get(SearchedSocket) is not None
