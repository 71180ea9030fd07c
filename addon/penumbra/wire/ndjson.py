"""JSON documents that arrive line by line: bytes in, lines with their exact bytes out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line."""

    raw: bytes
    """The bytes on the wire, the line end included."""

    @property
    def data(self) -> bytes | None:
        """The document; None for a blank line."""
        return self.raw.strip() or None

    def with_data(self, data: bytes) -> bytes:
        """The line's bytes with another document; its end stays."""
        return data + self.raw[len(self.raw.rstrip(b"\r\n")) :]


@dataclass(slots=True)
class LineReader:
    """Cuts a byte stream into lines. Time grows with the bytes, not with the chunks."""

    _buffer: bytearray = field(default_factory=bytearray)
    _scanned: int = 0

    def feed(self, data: bytes) -> list[JsonLine]:
        """The lines that these bytes complete."""
        self._buffer += data
        lines: list[JsonLine] = []
        start = 0
        while (end := self._buffer.find(b"\n", max(start, self._scanned)) + 1) > 0:
            lines.append(JsonLine(bytes(self._buffer[start:end])))
            start = end
            self._scanned = end
        del self._buffer[:start]
        self._scanned = len(self._buffer)
        return lines

    def close(self) -> list[JsonLine]:
        """What is left at the end of the stream."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._scanned = 0
        return [JsonLine(rest)] if rest else []
