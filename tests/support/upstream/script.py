"""What the model answers, said by a test, in terms that hold for every API."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Text:
    """Words for the user."""

    text: str
    deltas: tuple[str, ...] = ()
    """How a stream cuts them; empty: `Delivery.delta` characters each."""


@dataclass(frozen=True)
class Thinking:
    """A thinking block; the API signs it."""

    text: str
    deltas: tuple[str, ...] = ()


@dataclass(frozen=True)
class RedactedThinking:
    """A thinking block whose text is hidden; the API makes its data."""

    text: str = "hidden"


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    """Empty: the API gives one, by order."""
    fragments: tuple[str, ...] = ()
    """How a stream cuts the JSON text of the arguments; empty: `Delivery.delta` characters each."""


Block = Text | Thinking | RedactedThinking | ToolCall


@dataclass(frozen=True)
class Delivery:
    """How an answer travels. Times are seconds; events are counted from 0."""

    first_delay: float = 0.0
    """Before the response's head."""
    event_delay: float = 0.0
    hold: Mapping[int, threading.Event] = field(default_factory=dict)
    """Event number -> wait for this before sending it: lets a test pace the stream without a clock."""
    split: int = 0
    """Bytes in one piece on the wire, events or characters cut wherever it falls; 0: an event each."""
    delta: int = 24
    """Characters in one delta."""
    cut_after: int | None = None
    """The connection (HTTP/2: the stream) dies after so many events."""
    close_code: int | None = None
    """Of a WebSocket: it is closed with this code instead; 0: with none."""
    error_after: int | None = None
    """After so many events comes the API's error event, and nothing else."""
    encoding: str = ""
    """Content-Encoding: gzip, br, zstd, deflate, or `accept`: the first that the client accepts."""
    crlf: bool = False
    pings: int = 0
    """Keep-alives before the first content."""


@dataclass(frozen=True)
class Turn:
    """An answer with contents."""

    blocks: tuple[Block, ...]
    stop: str = ""
    """Stop reason in the API's own words; empty: what follows from the blocks."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Figures that replace the computed ones, in the API's own words."""
    delivery: Delivery = Delivery()


def turn(
    *blocks: Block | str, stop: str = "", usage: Mapping[str, int] | None = None, **delivery: Any
) -> Turn:
    """A Turn; a str is Text; other keywords are Delivery's."""
    made = tuple(Text(block) if isinstance(block, str) else block for block in blocks)
    return Turn(made, stop, usage or {}, Delivery(**delivery))


@dataclass(frozen=True)
class Fault:
    """An error answer in the API's own shape."""

    status: int
    message: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0


@dataclass(frozen=True)
class Raw:
    """An answer given byte by byte."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    body: bytes = b"{}"


@dataclass(frozen=True)
class Hangup:
    """The connection dies before a byte of the answer."""


@dataclass(frozen=True)
class Cut:
    """A turn whose connection dies in mid-answer, whatever else is under way on it."""

    turn: Turn
    before: bytes
    """It dies in front of the first of these bytes that would go out."""
    reset: bool = True
    """By a reset; else it is closed."""


Response = Turn | Fault | Raw | Hangup | Cut
