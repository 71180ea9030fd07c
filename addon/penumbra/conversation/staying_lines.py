"""This module finds the lines of a repeated text that stay, because later turns need them in this place.

In an output, failures stay with the lines next to them. The outcome of a run, acknowledged changes and
findings of linters also stay. A heading stays if a line below it stays, or a hit would seem to be in another
file. In a file, edits mostly quote lines near a change, so the units next to a change stay, up to a limit
(`FileUnits`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

from penumbra.compress.calls.classify import Call
from penumbra.compress.critical_lines import critical_lines, reports
from penumbra.compress.failure_lines import failing
from penumbra.compress.stages import search_hits

_LONGEST_HEADING = 400
"""A line with more characters is no heading."""
_PATH = r"(?:[A-Za-z]:)?[^\s:./\\]*[./\\][^\s:]*"
_HEADINGS = (
    r"(?:[=#_*~-]{2,}>?|==>) +\S.*",
    r"(?:File|Path|Source|Dir|Directory|Folder|Document)(?: name| path)?: *\S.*",
    r"<(?:file|document|path|source)\b[^>]*>.*",
    r"diff --git .*|Index: .*|--- \S.*|\+\+\+ \S.*",
    r"@@ -[0-9].*",
)
"""The forms of headings: rulers with a title, labels, tags, files of a diff, hunks."""
_HEADING = re.compile("|".join(f"({form})" for form in _HEADINGS))
_FIRST = frozenset("=#_*~-FPSD<dI+@")
"""First characters of headings."""
_BELOW = r"[ \t]+\S|[ \t]*(?:L?[0-9]+[:\t|→-]|Line [0-9]+:)"
_OPENING = re.compile(rf"(?m){_PATH}:$|(?:\S.*:|{_PATH})\n(?:{_BELOW})")
"""A path with a colon; or a path or a title with a colon, above an indented, numbered or located line."""
_QUOTING = frozenset({"glob", "list", "web"})
"""Categories of calls that quote texts, apart from reads and searches."""
_QUOTING_FAMILIES = frozenset(
    {"paths", "listing", "tree", "git-diff", "git-log", "git-stat", "git-lines", "git-blame"}
)


def quotes(call: Call) -> bool:
    """Return whether a result only quotes texts."""
    if call.shows_files or search_hits.is_search(call):
        return True
    return call.category in _QUOTING or call.family in _QUOTING_FAMILIES


class StayingLines(Struct, frozen=True):
    """A `StayingLines` has the lines of one text that stay, and its headings."""

    positions: Sequence[int] = ()
    """The positions of the lines that stay, in order: lines with a failure, a change, an outcome or a
    finding, and lines next to a failure."""
    headings: Sequence[Sequence[int]] = ()
    """The positions of the headings of each form, in order."""
    filled: Sequence[int] = ()
    """The positions of the lines that are not blank, in order."""

    @classmethod
    def of(cls, lines: Sequence[str], call: Call) -> StayingLines:
        """Return the lines of an output that stay. `lines` have no line numbers of a file."""
        if call.shows_files and call.path:
            return cls()
        headings = _headings(lines)
        staying = set() if call.shows_files else set(reports(lines, "change"))
        if not quotes(call):
            failures = failing(lines, critical_lines(lines))
            beside = {position + step for position in failures for step in (-1, 1)}
            staying.update(failures, reports(lines, "outcome", "finding"))
            staying.update([at for at in beside if 0 <= at < len(lines) and lines[at].strip()])
        filled = [n for n, line in enumerate(lines) if line.strip()] if headings else []
        return cls(sorted(staying), headings, filled)

    def stretches(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between the lines that stay."""
        positions = self.positions
        for position in positions[bisect_left(positions, start) : bisect_left(positions, end)]:
            if start < position:
                yield start, position
            start = position + 1
        if start < end:
            yield start, end

    def heading(self, start: int, end: int) -> int | None:
        """Return the last heading from `start` to `end` that has lines after `end`; None if there is none."""
        needed = (self._heading(form, start, end) for form in self.headings)
        return max((position for position in needed if position is not None), default=None)

    def _heading(self, form: Sequence[int], start: int, end: int) -> int | None:
        next_heading = bisect_left(form, end)
        if not next_heading or form[next_heading - 1] < start:
            return None
        next_line = bisect_left(self.filled, end)
        if next_line == len(self.filled) or (
            next_heading < len(form) and form[next_heading] <= self.filled[next_line]
        ):
            return None
        return form[next_heading - 1]


def _headings(lines: Sequence[str]) -> list[list[int]]:
    """Return the positions of headings, a list for each form that occurs."""
    places: list[list[int]] = [[] for _ in range(len(_HEADINGS) + 1)]
    for position, line in enumerate(lines):
        if not line or len(line) > _LONGEST_HEADING or line[0] in " \t":
            continue
        heading = _HEADING.fullmatch(line) if line[0] in _FIRST else None
        if heading is not None and heading.lastindex is not None:
            places[heading.lastindex - 1].append(position)
        elif _OPENING.match("\n".join(lines[position : position + 2])):
            places[-1].append(position)
    return [form for form in places if form]


_CONTAINER = re.compile(
    r"(?:[\w@(<>\[\]\"',.:-]+[ \t]+){0,6}?(?:class|interface|impl|trait|struct|enum|object"
    r"|record|extension|protocol|namespace|module|mod)\b|(?:describe|suite|context)\b"
)
"""An unindented line above units that are indented by one level, such as `class A:`."""
_LONGEST_CONTAINER = 200
"""The number of characters at the beginning of a line that `_CONTAINER` examines."""
_LEAST_MARGIN = 6
_MOST_MARGIN = 30
"""The smallest and the greatest number of lines that stay on each side of a change."""


class FileUnits(Struct, frozen=True):
    """A `FileUnits` has the functions, methods, classes and other units of a file or of a part of a file."""

    start: int
    """The position of the file's first line in its text."""
    end: int
    """The position after the file's last line."""
    beginnings: Sequence[int]
    """The positions of the first lines of units, in order."""

    @classmethod
    def of(cls, lines: Sequence[str], numbers: Sequence[int], printed: range) -> FileUnits:
        """Return the units in the lines of a text. `numbers` has the number of each line, 0 for a line that
        is not from the file. `printed` are the positions of the output's lines, which are the file's lines if
        `numbers` is empty."""
        of_file = [at for at, number in enumerate(numbers) if number]
        of_file = of_file or [at for at in printed if lines[at].strip()]
        start = of_file[0] if numbers else printed.start
        return cls(start, of_file[-1] + 1 if of_file else start, list(_beginnings(lines)))

    def repeated(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of repeated lines that a reference may hide. The first and the last repeated line
        stay, and next to new text also the unit, up to `_MOST_MARGIN` lines."""
        return (
            self.start + 1 if start <= self.start else max(start + 1, self._end_of_unit(start)),
            self.end - 1 if end >= self.end else min(end - 1, self._start_of_unit(end)),
        )

    def _end_of_unit(self, line: int) -> int:
        at = bisect_left(self.beginnings, line + _LEAST_MARGIN)
        most = line + _MOST_MARGIN
        return min(self.beginnings[at], most) if at < len(self.beginnings) else most

    def _start_of_unit(self, line: int) -> int:
        at = bisect_right(self.beginnings, line - _LEAST_MARGIN)
        most = line - _MOST_MARGIN
        return max(self.beginnings[at - 1], most) if at else most


def _beginnings(lines: Sequence[str]) -> Iterator[int]:
    """Yield the positions of lines that begin a unit: the first line that is not blank, and lines after a
    blank line. Below a container, such a line may be indented by one level, otherwise not at all."""
    level, is_container, is_below_blank = 0, False, True
    for position, line in enumerate(lines):
        bare = line.lstrip()
        if not bare:
            is_below_blank = True
            continue
        indentation = len(line) - len(bare)
        if not indentation:
            is_container, level = _CONTAINER.match(line[:_LONGEST_CONTAINER]) is not None, 0
        elif is_container and not level:
            level = indentation
        if is_below_blank and indentation <= level:
            yield position
        is_below_blank = False
