"""The edits of a text: which bytes become which."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

_PLACE = itemgetter(0, 1)


class Edit(NamedTuple):
    """Bytes `start` to `end` of the document become `data`. Equal start and end: an insertion."""

    start: int
    end: int
    data: bytes


class Edits(list[Edit]):
    """Edits that don't overlap, in the order in which they were made."""

    def __init__(self, edits: Iterable[Edit] = ()) -> None:
        super().__init__(edits)
        self._places: list[tuple[int, int]] = []
        self._noted: Edit | None = None
        """The last edit whose place is in that list."""

    def overlap(self, start: int, end: int) -> bool:
        """Whether something between two offsets is edited."""
        last = self.last_before(end)
        # What begins last before the end also reaches furthest.
        return last is not None and last[1] > start

    def last_before(self, end: int) -> tuple[int, int] | None:
        """The place of the edit that begins last in front of an offset. Whoever edits a lot asks before each
        edit."""
        noted = len(self._places)
        if noted > len(self) or (noted and self[noted - 1] is not self._noted):
            self._places, noted = [], 0
        for edit in self[noted:]:
            insort(self._places, (edit.start, edit.end))
            self._noted = edit
        at = bisect_left(self._places, (end, 0))
        return self._places[at - 1] if at else None


def edited(data: bytes, edits: Iterable[Edit]) -> bytes:
    """A text with edits, in any order. Raises ValueError if some overlap."""
    text, at = memoryview(data), 0
    pieces: list[bytes | memoryview] = []
    for start, end, new in sorted(edits, key=_PLACE):
        if start < at:
            raise ValueError(f"edits overlap at byte {start}")
        pieces += (text[at:start], new)
        at = end
    pieces.append(text[at:])
    return b"".join(pieces)
