"""Where the units of a file begin that edits take: functions, methods, paragraphs of prose and of settings.

An edit quotes the unit that it changes, mostly from its first line or to its last one. So what stands around
a change is shown from the beginning of its unit to the end of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from penumbra.compress.calls.envelope import split_envelope

_CONTAINER = re.compile(
    r"(?:[\w@(<>\[\]\"',.:-]+[ \t]+){0,6}?(?:class|interface|impl|trait|struct|enum|object"
    r"|record|extension|protocol|namespace|module|mod)\b|(?:describe|suite|context)\b"
)
"""A line at the left border within which the units are indented by one level."""
_LONGEST = 200
"""Characters of such a line that are looked at."""
_LEAST = 6
_MOST = 40
"""Lines that stand on each side of a change, at least and at most."""


@dataclass(frozen=True, slots=True)
class EditUnits:
    """Of one file, or a part of it."""

    beginnings: Sequence[int]
    """Positions of the lines with which units begin, in order."""

    @classmethod
    def of(cls, lines: Sequence[str]) -> EditUnits:
        """`lines`: without line numbers."""
        found: list[int] = []
        level, is_container, is_below_blank = 0, False, True
        for position, line in enumerate(lines):
            bare = line.lstrip()
            if not bare:
                is_below_blank = True
                continue
            indentation = len(line) - len(bare)
            if not indentation:
                is_container, level = _CONTAINER.match(line[:_LONGEST]) is not None, 0
            elif is_container and not level:
                level = indentation
            if is_below_blank and indentation <= level:
                found.append(position)
            is_below_blank = False
        return cls(found)

    def behind(self, change: int) -> int:
        """Position behind what stays below a change: `change` is that of the first line below it."""
        at = bisect_left(self.beginnings, change + _LEAST)
        most = change + _MOST
        return min(self.beginnings[at], most) if at < len(self.beginnings) else most

    def before(self, change: int) -> int:
        """Position of the first line that stays above a change, which begins at `change`."""
        at = bisect_right(self.beginnings, change - _LEAST)
        most = change - _MOST
        return max(self.beginnings[at - 1], most) if at else most


@dataclass(slots=True)
class ShownFile:
    """A file, or a part of it, as its reader shows it."""

    text: str
    lines: Sequence[str]
    """Without their numbers."""
    numbers: Sequence[int]
    """Of the lines, 0 for what is none of the file; empty where they are not shown."""
    path: str
    _units: EditUnits | None = None
    _own: tuple[int, int] = (0, 0)

    def within(self, start: int, end: int) -> tuple[int, int]:
        """(start, end) of what need not stay of lines that were shown before: their borders stay, wide ones
        towards what is new. Where the file's lines begin or end there, nothing of it is."""
        if self._units is None:
            self._units, self._own = EditUnits.of(self.lines), self._own_lines()
        first, behind = self._own
        return (
            first + 1 if start <= first else max(start + 1, self._units.behind(start)),
            behind - 1 if end >= behind else min(end - 1, self._units.before(end)),
        )

    def _own_lines(self) -> tuple[int, int]:
        """(start, end) of the lines that are the file's: those with numbers, or what stands in an envelope
        up to the last line end."""
        if self.numbers:
            numbered = [position for position, number in enumerate(self.numbers) if number]
            return numbered[0], numbered[-1] + 1
        head, _, tail = split_envelope(self.text)
        start, end = head.count("\n"), len(self.lines) - tail.count("\n")
        while end > start and not self.lines[end - 1].strip():
            end -= 1
        return start, end
