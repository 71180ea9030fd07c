"""The model's answers as a test writes them, in terms that hold for every API."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Text:
    """Text for the user."""

    text: str
    deltas: tuple[str, ...] = ()
    """The pieces of a stream; empty: `Delivery.delta` characters each."""


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
    """Empty: the API chooses the id, by order."""
    fragments: tuple[str, ...] = ()
    """The pieces in which a stream sends the arguments' JSON; empty: `Delivery.delta` characters each."""


Block = Text | Thinking | RedactedThinking | ToolCall


@dataclass(frozen=True)
class Delivery:
    """A `Delivery` says how an answer is sent. Times are seconds; events are counted from 0."""

    first_delay: float = 0.0
    """The delay before the response's head."""
    event_delay: float = 0.0
    hold: Mapping[int, threading.Event] = field(default_factory=dict)
    """An event to wait for before the stream's event of this number: a test paces the stream without a
    clock."""
    split: int = 0
    """Bytes in one piece on the wire, whatever they cut; 0: one event in each piece."""
    delta: int = 24
    """Characters in one delta."""
    cut_after: int | None = None
    """The connection (HTTP/2: the stream) dies after so many events."""
    close_code: int | None = None
    """The code with which a WebSocket is closed instead; 0: without one."""
    error_after: int | None = None
    """The API's error event comes after so many events, and nothing else."""
    encoding: str = ""
    """Content-Encoding: gzip, br, zstd, deflate, or `accept`: the first one that the client accepts."""
    crlf: bool = False
    pings: int = 0
    """Keep-alives before the first content."""


@dataclass(frozen=True)
class Turn:
    """An answer with contents."""

    blocks: tuple[Block, ...]
    stop: str = ""
    """The stop reason in the API's own words; empty: the one that follows from the blocks."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Figures that replace the computed ones, in the API's own words."""
    delivery: Delivery = Delivery()


def turn(
    *blocks: Block | str, stop: str = "", usage: Mapping[str, int] | None = None, **delivery: Any
) -> Turn:
    """Return a Turn; a str is Text, and further keywords are those of Delivery."""
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
    """A turn whose connection dies in the middle, whatever else is under way on it."""

    turn: Turn
    before: bytes
    """The connection dies before the first of these bytes."""
    reset: bool = True
    """The connection dies by a reset; else it is closed."""


Response = Turn | Fault | Raw | Hangup | Cut
