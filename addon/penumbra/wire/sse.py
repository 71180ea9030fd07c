"""Server-sent events, read as they arrive: bytes in, events with their exact bytes out.

An event is everything up to and with its blank line. Its `raw` bytes are what came over the wire, so
that the concatenation of all of them is the stream: whoever changes nothing forwards every byte as it
was. Lines may end in LF, CRLF or CR, whatever the cut between two chunks.

A blank line that ends in CR at the end of a chunk may be half of a CRLF. It is waited for only where
the stream has used CRLF before; otherwise the event goes out at once, and a LF that follows all the
same becomes an event of its own, without data.

An event that does not end is given up at a limit: from there on all bytes are handed on as they arrive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penumbra.wire.framing import MOST_EVENT_BYTES

_LINE_END = re.compile(rb"\r\n|\n|\r")
_USUAL = re.compile(rb"(?:event: ?([^\r\n]*)\n)?data: ?([^\r\n]*)\n\n")
"""A whole event as nearly all are written."""
_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event, or the comments and blank lines between two."""

    raw: bytes
    """The bytes on the wire, the blank line at the end included."""
    name: str
    """Value of the `event` field; empty if there is none."""
    data: bytes | None
    """The `data` lines joined by LF; None if there are none: a comment, or an empty event."""

    def with_data(self, data: bytes) -> bytes:
        """The event's bytes with other JSON as its data; all other lines stay as they are."""
        data = data.replace(b"\n", b" ").replace(b"\r", b" ")
        pieces: list[bytes] = []
        written = False
        for line, end in _lines(self.raw):
            field_name, _ = _field(line)
            if field_name != b"data":
                pieces += (line, end)
            elif not written:
                pieces += (_data_prefix(line), data, end)
                written = True
        return b"".join(pieces)


class EventReader(Protocol):
    """What cuts the bytes of a response into events."""

    def feed(self, data: bytes) -> Sequence[SseEvent]:
        """The events that these bytes complete."""
        ...

    def close(self) -> Sequence[SseEvent]:
        """What is left at the end."""
        ...


def event_bytes(name: str, data: bytes) -> bytes:
    """A new event; without a name only the data line."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + data + b"\n\n"


@dataclass(slots=True)
class SseReader:
    """Cuts a byte stream into events. Time and memory grow with the bytes, not with the chunks."""

    limit: int = MOST_EVENT_BYTES
    """Bytes of one event; behind a longer one nothing is cut any more."""
    _passing: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _line: int = 0
    """Offset of the line that is being read."""
    _scanned: int = 0
    """No line ends before this offset that would not have been dealt with."""
    _crlf: bool = False
    """The last line that ended did so with CRLF."""

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that these bytes complete."""
        if self._passing:
            return [SseEvent(data, "", None)] if data else []
        events: list[SseEvent] = []
        if not self._buffer:
            at = 0
            while match := _USUAL.match(data, at):
                name, said = match.groups(b"")
                events.append(SseEvent(match.group(), name.decode("utf-8", "replace"), said))
                at, self._crlf = match.end(), False
            if at == len(data):
                return events
            data = data[at:]
        self._buffer += data
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
        if len(self._buffer) > self.limit:
            self._passing = True
            events.append(SseEvent(self._taken(), "", None))
        return events

    def close(self) -> list[SseEvent]:
        """What is left at the end of the stream: an event whose blank line never came, or nothing."""
        rest = self._taken()
        return [_event(rest)] if rest else []

    def _taken(self) -> bytes:
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._line = self._scanned = 0
        return rest


def _lines(raw: bytes) -> list[tuple[bytes, bytes]]:
    lines: list[tuple[bytes, bytes]] = []
    at = 0
    for match in _LINE_END.finditer(raw):
        lines.append((raw[at : match.start()], match.group()))
        at = match.end()
    if at < len(raw):
        lines.append((raw[at:], b""))
    return lines


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.removeprefix(_BOM).partition(b":")
    return name, value[1:] if value[:1] == b" " else value


def _data_prefix(line: bytes) -> bytes:
    at = line.index(b"data") + 4
    rest = line[at : at + 2]
    if rest == b": ":
        at += 2
    elif rest[:1] == b":":
        at += 1
    else:
        return line[:at] + b": "
    return line[:at]


def _event(raw: bytes) -> SseEvent:
    name = b""
    data: list[bytes] = []
    for line, _ in _lines(raw):
        key, value = _field(line)
        if key == b"data":
            data.append(value)
        elif key == b"event":
            name = value
    return SseEvent(raw, name.decode("utf-8", "replace"), b"\n".join(data) if data else None)
