"""The model's responses as a test writes them, for any API."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Text:
    """Text for the user."""

    text: str
    deltas: tuple[str, ...] = ()
    """The pieces in a stream; if empty, each has `Delivery.delta` characters."""


@dataclass(frozen=True)
class Thinking:
    """A thinking block; the API signs it."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    """The id; if empty, the API numbers its calls."""


Block = Text | Thinking | ToolCall


@dataclass(frozen=True)
class Delivery:
    """A `Delivery` describes how a response is sent. Times are in seconds, and events are counted from 0."""

    first_delay: float = 0.0
    """The delay before the response's head."""
    event_delay: float = 0.0
    hold: Mapping[int, threading.Event] = field(default_factory=dict)
    """Events for which the stream waits before the event of this number, so that tests need no clock."""
    split: int = 0
    """Size in bytes of each piece on the wire; 0 for one event in each piece."""
    delta: int = 24
    """Number of characters in one delta."""
    cut_after: int | None = None
    """Number of events after which the connection (in HTTP/2, the stream) ends."""
    close_code: int | None = None
    """The code with which a WebSocket is closed instead; 0 for a frame without a code."""
    error_after: int | None = None
    """Number of events after which the stream ends with the API's error event."""
    encoding: str = ""
    """Content-Encoding: gzip, br, zstd or deflate."""
    crlf: bool = False


@dataclass(frozen=True)
class Turn:
    """A response with content blocks."""

    blocks: tuple[Block, ...]
    stop: str = ""
    """The stop reason as the API spells it; if empty, it follows from the blocks."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Usage that replaces the computed one, as the API spells it."""
    delivery: Delivery = Delivery()


def turn(
    *blocks: Block | str, stop: str = "", usage: Mapping[str, int] | None = None, **delivery: Any
) -> Turn:
    """Return a Turn; a str is Text, and further keywords are those of Delivery."""
    made = tuple(Text(block) if isinstance(block, str) else block for block in blocks)
    return Turn(made, stop, usage or {}, Delivery(**delivery))


@dataclass(frozen=True)
class Fault:
    """An error response in the API's own shape."""

    status: int
    message: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Raw:
    """A response as exact bytes."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    body: bytes = b"{}"


@dataclass(frozen=True)
class Hangup:
    """A `Hangup` ends the connection before the first byte of the response."""


@dataclass(frozen=True)
class Cut:
    """A turn whose connection ends in the middle, with all its streams."""

    turn: Turn
    before: bytes
    """The bytes before which the connection ends."""
    reset: bool = True
    """True if the connection ends by a reset, not by closing."""


Response = Turn | Fault | Raw | Hangup | Cut
