"""A JSON array that arrives piece by piece: bytes in, items with their exact bytes out.

What stands in front of an item (the opening bracket or a comma, white space) belongs to its raw bytes,
so that the concatenation of all of them is the stream. The interface is that of `sse`, also in that an
item that does not end is given up at a limit: from there on all bytes are handed on as they arrive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penumbra.wire.framing import MOST_EVENT_BYTES

_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


@dataclass(frozen=True, slots=True)
class ArrayItem:
    """One item, or the end of the array."""

    raw: bytes
    """The bytes on the wire, with what stands in front of the item."""
    data: bytes | None
    """The item; None for everything behind the last one."""
    is_part: bool = False
    """Bytes of an item that is too long to be read, or behind it."""

    def with_data(self, data: bytes) -> bytes:
        """The item's bytes with other JSON in its place."""
        return self.raw[: len(self.raw) - len(self.data or b"")] + data

    def opening(self) -> bytes:
        """The item as the first of an array."""
        return b"[" + (self.data or b"")

    def following(self) -> bytes:
        """The item behind another one."""
        return b",\n" + (self.data or b"")


@dataclass(slots=True)
class ArrayReader:
    """Cuts a byte stream into the objects of one array. Time grows with the bytes, not the chunks."""

    limit: int = MOST_EVENT_BYTES
    """Bytes of one item; behind a longer one nothing is cut any more."""
    _passing: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _scanned: int = 0
    _depth: int = 0
    """Open brackets and braces, that of the array included."""
    _in_string: bool = False
    _begin: int = 0
    """Offset of the first byte of the item that is being read."""
    _over: bool = False

    def feed(self, data: bytes) -> list[ArrayItem]:
        """The items that these bytes complete."""
        if self._passing:
            return [ArrayItem(data, None, is_part=True)] if data else []
        self._buffer += data
        items: list[ArrayItem] = []
        while (end := self._scan()) is not None:
            raw = bytes(self._buffer[:end])
            items.append(ArrayItem(raw, None if self._over else raw[self._begin :]))
            del self._buffer[:end]
            self._scanned = self._begin = 0
        if len(self._buffer) > self.limit:
            self._passing = True
            items += self.close()
        return items

    def close(self) -> list[ArrayItem]:
        """What is left at the end of the stream."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._scanned = self._begin = 0
        return [ArrayItem(rest, None, is_part=self._passing)] if rest else []

    def _scan(self) -> int | None:
        """Where the next item ends, or the array; None if that is yet to come."""
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
