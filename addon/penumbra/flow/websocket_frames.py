"""Frames of mitmproxy's WebSockets: changed, dropped, and put in."""

from __future__ import annotations

from mitmproxy import ctx, http, websocket
from mitmproxy.proxy.layers import websocket as layers

_WHOLE = 1 << 40
"""Bytes in one frame of a message that was changed."""


def can_change() -> bool:
    """Whether mitmproxy shows frames, and lets them be changed without breaking their letters."""
    return bool(ctx.options.websocket) and hasattr(layers.Fragmentizer, "FRAGMENT_SIZE")


def keep_letters_whole() -> None:
    """mitmproxy cuts changed messages at any byte, and takes halves of letters for broken ones."""
    layers.Fragmentizer.FRAGMENT_SIZE = _WHOLE


def put(message: websocket.WebSocketMessage, frame: bytes) -> None:
    """What goes on instead of a message; empty: nothing."""
    if not frame and message.content:
        message.drop()
    elif frame != message.content:
        # Of a message that keeps its length, mitmproxy would keep the old cuts.
        message.content = frame + b" " if len(frame) == len(message.content) else frame


def inject(flow: http.HTTPFlow, frame: bytes, *, to_client: bool, is_text: bool = True) -> None:
    """Send a frame of our own."""
    ctx.master.commands.call("inject.websocket", flow, to_client, frame, is_text)
