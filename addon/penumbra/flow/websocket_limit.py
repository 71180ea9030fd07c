"""Compressed messages of WebSockets, bounded: mitmproxy would decode a small one into any size.

mitmproxy makes wsproto's `PerMessageDeflate` for each connection. Ours differs in one thing: a message
that decodes to more than the limit closes its connection, as a broken one does.
"""

from __future__ import annotations

import zlib
from typing import Any

from wsproto import extensions
from wsproto.frame_protocol import FrameDecoder, FrameProtocol, Opcode, RsvBits

from penumbra.wire.content_encoding import MOST_BYTES

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


def install() -> None:
    """For all connections from now on."""
    name = extensions.PerMessageDeflate.__name__
    if name != BoundedDeflate.__name__:
        setattr(extensions, name, BoundedDeflate)
