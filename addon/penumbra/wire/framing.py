"""Which responses arrive piece by piece, and what readers of pieces have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penumbra.wire.request_path import normal

MOST_EVENT_BYTES = 32 * 1024 * 1024
"""One event of a stream: more than the largest images. A stream whose event has no end before that goes on
as it arrives, and nothing more of it is read."""
MOST_BLANK_BYTES = 4_096
"""White space that is waited behind for what tells a stream's framing."""
_STREAMS = ("event-stream", "vnd.amazon.eventstream", "ndjson")
_JSON_ARRAY = ":streamgeneratecontent"


class Piece(Protocol):
    """One event of a stream."""

    @property
    def raw(self) -> bytes:
        """The bytes on the wire."""
        ...

    @property
    def data(self) -> bytes | None:
        """What the event says, JSON; None if it says nothing."""
        ...

    def with_data(self, data: bytes) -> bytes:
        """The event's bytes with other JSON."""
        ...


class Reader(Protocol):
    """Cuts a byte stream into pieces, whose raw bytes are all of the stream."""

    def feed(self, data: bytes) -> Sequence[Piece]:
        """The pieces that these bytes complete."""
        ...

    def close(self) -> Sequence[Piece]:
        """What is left at the end of the stream."""
        ...


def is_stream(content_type: str, path: str) -> bool:
    """Whether a response is to be read as it arrives, by its content type and its request's path.

    Gemini streams an array of JSON documents unless it is asked for server-sent events.
    """
    kind = content_type.lower()
    if any(name in kind for name in _STREAMS):
        return True
    return "json" in kind and normal(path).lower().endswith(_JSON_ARRAY)
