"""JSON documents that arrive line by line: bytes in, lines with their exact bytes out.

A line that does not end is given up at a limit: from there on all bytes are handed on as they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penumbra.wire.framing import MOST_EVENT_BYTES


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line."""

    raw: bytes
    """The bytes on the wire, the line end included."""
    is_whole: bool = True
    """False: a part of a line that is too long to be read."""

    @property
    def data(self) -> bytes | None:
        """The document; None for a blank line."""
        return (self.raw.strip() or None) if self.is_whole else None

    def with_data(self, data: bytes) -> bytes:
        """The line's bytes with another document; its end stays."""
        return data + self.raw[len(self.raw.rstrip(b"\r\n")) :]


@dataclass(slots=True)
class LineReader:
    """Cuts a byte stream into lines. Time grows with the bytes, not with the chunks."""

    limit: int = MOST_EVENT_BYTES
    """Bytes of one line; behind a longer one nothing is cut any more."""
    _passing: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _scanned: int = 0

    def feed(self, data: bytes) -> list[JsonLine]:
        """The lines that these bytes complete."""
        if self._passing:
            return [JsonLine(data, is_whole=False)] if data else []
        self._buffer += data
        lines: list[JsonLine] = []
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._scanned)) + 1) > 0:
            lines.append(JsonLine(bytes(self._buffer[start:end])))
            start = end
            self._scanned = end
        del self._buffer[:start]
        self._scanned = len(self._buffer)
        if self._scanned > self.limit:
            self._passing = True
            lines.append(JsonLine(self._taken(), is_whole=False))
        return lines

    def close(self) -> list[JsonLine]:
        """What is left at the end of the stream."""
        rest = self._taken()
        return [JsonLine(rest)] if rest else []

    def _taken(self) -> bytes:
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._scanned = 0
        return rest
