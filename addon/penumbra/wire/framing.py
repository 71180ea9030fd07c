"""This module splits streamed responses into events, and keeps the exact bytes of each event.

A stream consists of server-sent events, lines of JSON, items of a JSON array, or Amazon's binary events
(`event_stream.py`). The `raw` bytes of all events together equal the stream. If an event exceeds a limit, its
bytes and all later bytes are forwarded as they arrive.

Lines of server-sent events may end with LF, CRLF or CR. If a chunk ends with the CR of a blank line, an LF
may follow. The reader waits for this LF only if the line before ended with CRLF. Otherwise the reader returns
the event at once. If the LF then follows, it becomes an event without data.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from penumbra.wire.request_path import normal

MOST_EVENT_BYTES = 32 * 1024 * 1024
"""Greatest number of bytes in one event."""
MOST_BLANK_BYTES = 4_096
"""Greatest number of white space bytes that are skipped at the beginning of a stream to find its format."""
_STREAMS = ("event-stream", "vnd.amazon.eventstream", "ndjson")
_JSON_ARRAY = ":streamgeneratecontent"


class Piece(Protocol):
    """A `Piece` is one event of a stream."""

    @property
    def raw(self) -> bytes: ...

    @property
    def data(self) -> bytes | None:
        """The JSON of the event; None if the event has no JSON."""
        ...

    def with_data(self, data: bytes) -> bytes:
        """Return the event's bytes with its JSON replaced by `data`."""
        ...


class Reader(Protocol):
    """A `Reader` splits a stream into pieces whose `raw` bytes together equal the stream."""

    def feed(self, data: bytes) -> Sequence[Piece]:
        """Return the pieces that these bytes complete."""
        ...

    def close(self) -> Sequence[Piece]:
        """Return the remaining bytes at the end of the stream as pieces."""
        ...


def is_stream(content_type: str, path: str) -> bool:
    """Return whether a response is a stream. The content type, or the path of the request, shows this. Gemini
    streams a JSON array unless the client asks for server-sent events."""
    kind = content_type.lower()
    if any(name in kind for name in _STREAMS):
        return True
    return "json" in kind and normal(path).lower().endswith(_JSON_ARRAY)


_LINE_END = re.compile(rb"\r\n|\n|\r")
_LINE = re.compile(
    rb"(?P<head>(?:\xef\xbb\xbf)?(?P<name>[^\r\n:]*+)(?:: ?)?)(?P<value>[^\r\n]*+)(?P<end>\r\n|\n|\r|\Z)"
)
"""This pattern matches a line with its field."""
_USUAL = re.compile(rb"(?:event: ?([^\r\n]*)\n)?data: ?([^\r\n]*)\n\n")
"""This pattern matches an event in its usual form."""


class SseEvent(NamedTuple):
    """An `SseEvent` is one server-sent event, or comments and blank lines between two events."""

    raw: bytes
    """The bytes of the event in the stream, with the blank line at its end."""
    name: str
    """The value of the `event` field; empty if the event has none."""
    data: bytes | None
    """The `data` lines joined by LF; None if there are no `data` lines, as in a comment."""

    def with_data(self, data: bytes) -> bytes:
        """Return the event's bytes with other JSON as its data. All other lines stay unchanged."""
        data = data.replace(b"\n", b" ").replace(b"\r", b" ")
        pieces: list[bytes] = []
        written = False
        for line in _LINE.finditer(self.raw):
            if line["name"] != b"data":
                pieces.append(line.group())
            elif not written:
                head = line["head"]
                pieces += (head if b":" in head else head + b": ", data, line["end"])
                written = True
        return b"".join(pieces)


def event_bytes(name: str, data: bytes) -> bytes:
    """Return the bytes of a new event. If `name` is empty, the event has only a `data` line."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + data + b"\n\n"


P = TypeVar("P", bound=Piece)


class _Splitter(ABC, Generic[P]):
    """A reader that keeps the bytes of an incomplete piece. The time is linear in the number of bytes."""

    def __init__(self, limit: int = MOST_EVENT_BYTES) -> None:
        """If a piece exceeds `limit` bytes, its bytes and all later bytes are returned as they arrive."""
        self.limit = limit
        self._passing = False
        self._buffer = bytearray()
        self._scanned = 0
        """The offset in the buffer up to which the bytes were searched."""

    def feed(self, data: bytes) -> list[P]:
        if self._passing:
            return [self._rest(data, is_part=True)] if data else []
        self._buffer += data
        pieces = self._complete()
        if len(self._buffer) > self.limit:
            self._passing = True
            pieces.append(self._rest(self._taken(), is_part=True))
        return pieces

    def close(self) -> list[P]:
        """Return the last piece if the stream ended within it."""
        rest = self._taken()
        return [self._rest(rest, is_part=False)] if rest else []

    def _taken(self) -> bytes:
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._scanned = 0
        return rest

    @abstractmethod
    def _complete(self) -> list[P]:
        """Remove the complete pieces from the buffer, and return them."""

    @abstractmethod
    def _rest(self, data: bytes, *, is_part: bool) -> P:
        """Return bytes that are no complete piece as a piece. `is_part` is true after the limit."""


class SseReader(_Splitter[SseEvent]):
    _line = 0
    """Offset in the buffer at which the current line begins."""
    _crlf = False
    """True if the last line ended with CRLF."""

    def feed(self, data: bytes) -> list[SseEvent]:
        if self._passing or (self._buffer and b"\n\n" not in data):
            return super().feed(data)
        data = self._taken() + data if self._buffer else data
        events: list[SseEvent] = []
        at = 0
        while match := _USUAL.match(data, at):
            name, value = match.groups(b"")
            events.append(SseEvent(match.group(), name.decode("utf-8", "replace"), value))
            at, self._crlf = match.end(), False
        return events if at == len(data) else events + super().feed(data[at:])

    def _complete(self) -> list[SseEvent]:
        events: list[SseEvent] = []
        start = 0
        while match := _LINE_END.search(self._buffer, self._scanned):
            blank = match.start() == self._line
            half = match.group() == b"\r" and match.end() == len(self._buffer)
            if half and (self._crlf or not blank):
                self._scanned = match.start()
                break
            self._crlf = match.group() == b"\r\n"
            self._line = self._scanned = match.end()
            if blank:
                events.append(_event(bytes(self._buffer[start : match.end()])))
                start = match.end()
        else:
            self._scanned = len(self._buffer)
        del self._buffer[:start]
        self._line -= start
        self._scanned -= start
        return events

    def _taken(self) -> bytes:
        self._line = 0
        return super()._taken()

    def _rest(self, data: bytes, *, is_part: bool) -> SseEvent:
        return SseEvent(data, "", None) if is_part else _event(data)


def _event(raw: bytes) -> SseEvent:
    name = b""
    data: list[bytes] = []
    for line in _LINE.finditer(raw):
        if line["name"] == b"data":
            data.append(line["value"])
        elif line["name"] == b"event":
            name = line["value"]
    return SseEvent(raw, name.decode("utf-8", "replace"), b"\n".join(data) if data else None)


class JsonLine(Struct, frozen=True):
    raw: bytes
    """The bytes of the line in the stream, with the line break."""
    is_part: bool = False
    """True if the bytes belong to a line that is too long, or come later in the stream."""

    @property
    def data(self) -> bytes | None:
        return None if self.is_part else self.raw.strip() or None

    def with_data(self, data: bytes) -> bytes:
        """Return a line with other JSON and the same line break."""
        return data + self.raw[len(self.raw.rstrip(b"\r\n")) :]


class LineReader(_Splitter[JsonLine]):
    def _complete(self) -> list[JsonLine]:
        lines: list[JsonLine] = []
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._scanned)) + 1) > 0:
            lines.append(JsonLine(bytes(self._buffer[start:end])))
            start = self._scanned = end
        del self._buffer[:start]
        self._scanned = len(self._buffer)
        return lines

    def _rest(self, data: bytes, *, is_part: bool) -> JsonLine:
        return JsonLine(data, is_part)


_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


class ArrayItem(Struct, frozen=True):
    """An `ArrayItem` is one item of a streamed JSON array, or the end of the array."""

    raw: bytes
    """The bytes of the item in the stream, with the bytes before it, such as a comma."""
    data: bytes | None
    """The JSON of the item; None for an incomplete or too long item, and for the end of the array."""
    is_part: bool = False
    """True if the bytes belong to an item that is too long, or come later in the stream."""

    def with_data(self, data: bytes) -> bytes:
        """Return `raw` with other JSON in place of the item."""
        return self.raw[: len(self.raw) - len(self.data or b"")] + data

    def opening(self) -> bytes:
        return b"[" + (self.data or b"")

    def following(self) -> bytes:
        return b",\n" + (self.data or b"")


class ArrayReader(_Splitter[ArrayItem]):
    """A reader of the items of one array."""

    _depth = 0
    """Number of open brackets and braces, including that of the array."""
    _in_string = False
    _begin = 0
    """Offset in the buffer at which the current item begins."""
    _over = False

    def _complete(self) -> list[ArrayItem]:
        items: list[ArrayItem] = []
        while (end := self._scan()) is not None:
            raw = bytes(self._buffer[:end])
            items.append(ArrayItem(raw, None if self._over else raw[self._begin :]))
            del self._buffer[:end]
            self._scanned = self._begin = 0
        return items

    def _rest(self, data: bytes, *, is_part: bool) -> ArrayItem:
        return ArrayItem(data, None, is_part)

    def _scan(self) -> int | None:
        """Return the end of the next item or of the array; None if that end has not arrived yet."""
        while match := (_INSIDE if self._in_string else _OUTSIDE).search(self._buffer, self._scanned):
            sign = match.group()
            if sign == b"\\":
                if match.end() == len(self._buffer):
                    self._scanned = match.start()
                    return None
                self._scanned = match.end() + 1
                continue
            self._scanned = match.end()
            if sign == b'"':
                self._in_string = not self._in_string
            elif sign in b"{[":
                self._depth += 1
                if self._depth == 2:
                    self._begin = match.start()
            else:
                self._depth -= 1
                self._over = self._depth <= 0
                if self._depth <= 1:
                    return match.end()
        self._scanned = len(self._buffer)
        return None
