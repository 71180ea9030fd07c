"""Chooses the units of a text that are shown where not all of them fit, and writes marks for the others.

    src/a.py:
    12:import os
    [41 lines left out]
    90:def total(cart):

A text is cut into units: its lines, and pieces of long lines. Each wish (the beginning, the end, failures,
differences) is met within its share of the size; then units are added by the most new facts for their size. A
unit is never shown without the units that name its subject. A unit beside a shown one costs no mark, and
units no larger than a mark are shown.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, groupby

from penumbra.compress import time_budget
from penumbra.compress.facts import Facts
from penumbra.compress.failure_lines import FailureLines
from penumbra.compress.size import LEAST_CUT, counted

LEAST = 240
"""Bytes to fill below which nothing is chosen."""
_ASIDE = 120
"""Bytes that are reserved for marks at both ends."""
_MARK = 34
"""Bytes that a mark costs, roughly."""
_LINE, _PIECE = 400, 240
"""Bytes of a line that is one unit; of the pieces that a longer one is cut into."""
_GAP, _FOR_GAPS = 160, 4
"""Bytes of a gap in code that is closed if possible; per cent of the size reserved for such gaps."""
_BASE = 30
"""Bytes added to the size of each unit, so that very short units are not chosen for their size alone."""
_MISSES = 40
"""Units that may not fit before no more are tried."""
_BEFORE, _AFTER = 230, 1_400
"""Bytes around a place in a text that is too large to be cut as a whole."""
_MOST = 16
"""The most such places."""
Needs = Mapping[int, Collection[int]]
"""Units that are shown with another one, by that unit."""


@dataclass(frozen=True, slots=True)
class Units:
    """A text that is cut into units, without anything between them."""

    data: bytes
    starts: Sequence[int]
    """Where each unit begins, and the text's end."""
    lines: Sequence[int]
    """The first unit of each line."""

    @classmethod
    def of(cls, data: bytes) -> Units:
        """Cut a text into lines, and long ones into pieces."""
        ends = list(accumulate([len(line) + 1 for line in data.split(b"\n")]))
        ends[-1] -= 1
        if len(ends) > 1 and ends[-1] == ends[-2]:
            ends.pop()
        starts, lines = [0], []
        for end in ends:
            lines.append(len(starts) - 1)
            if end - starts[-1] > _LINE:
                starts += _pieces(data, starts[-1], end)
            starts.append(end)
        return cls(data, starts, lines)

    @classmethod
    def near(cls, data: bytes, places: Iterable[int], room: int) -> Units:
        """Cut a text that has too many lines at its ends and around some places; all between is one unit."""
        regions = [(0, room), (len(data) - room, len(data))]
        regions += ((place - _BEFORE, place + _AFTER) for place in places)
        starts = [0]
        for first, behind in sorted(regions):
            # A line that is longer is cut at a blank or where it may be.
            start = max(starts[-1], data.find(b"\n", max(0, first - 1), behind) + 1, boundary(data, first))
            if start > starts[-1]:
                starts.append(start)
            while starts[-1] < min(behind, len(data)):
                end = data.find(b"\n", starts[-1], starts[-1] + _LINE) + 1
                starts.append(end or next(_pieces(data, starts[-1], len(data)), len(data)))
        if starts[-1] < len(data):
            starts.append(len(data))
        return cls(data, starts, ())

    @classmethod
    def joined(cls, lines: Sequence[bytes]) -> Units:
        """Make each line a unit, however long it is."""
        return cls(b"\n".join(lines), [0, *accumulate([len(line) + 1 for line in lines])], range(len(lines)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def at(self, place: int) -> int:
        """Return the unit in which a place of the text lies."""
        return max(0, min(bisect_right(self.starts, place), len(self)) - 1)

    def texts(self) -> list[bytes]:
        """Return the text of each unit."""
        data = self.data
        return [data[start:end] for start, end in zip(self.starts, self.starts[1:], strict=False)]


def boundary(data: bytes, position: int) -> int:
    """Return the nearest character boundary at or before a position."""
    position = max(0, min(position, len(data)))
    while 0 < position < len(data) and data[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _pieces(data: bytes, start: int, end: int) -> Iterator[int]:
    """Yield where the pieces of a line begin, but for the first, as long as the rest is no piece."""
    while end - start > _LINE:
        cut = max(data.rfind(mark, start + _PIECE // 2, start + _PIECE) for mark in (b" ", b",", b";"))
        start = cut + 1 if cut >= 0 else boundary(data, start + _PIECE)
        yield start


@dataclass(slots=True)
class Selection:
    """The units that are shown so far, and the bytes that are left."""

    units: Units
    room: int
    facts: Facts | None = None
    """The facts of each unit; None: units are not compared, and the first come first."""
    needs: Needs = field(default_factory=dict)
    left: int = 0
    shown: bytearray = field(default_factory=bytearray)
    _stated: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.room -= _ASIDE
        self.left = self.room
        self.shown = bytearray(len(self.units))

    def take(self, wish: Iterable[int], share: int, *, is_run: bool = False) -> None:
        """Show the units of a wish in its order, in at most a share of the room in per cent.

        `is_run`: the first unit that does not fit ends it; else the next ones are tried.
        """
        least = max(0, self.left - self.room * share // 100)
        misses = 0
        for unit in wish:
            if self.shown[unit]:
                continue
            cost = self._cost(unit)
            if self.left - cost >= least:
                self._show(unit, cost)
            elif is_run or (misses := misses + 1) > _MISSES:
                break

    def ends(self, head: int, tail: int) -> None:
        """Show the beginning and the end, each in a share of the room; the last unit in any case that half
        of it holds."""
        backwards = range(len(self.units) - 1, -1, -1)
        self.take(range(len(self.units)), head, is_run=True)
        left = self.left
        self.take(backwards[:1], 50)
        taken = (left - self.left) * 100 // max(1, self.room)
        self.take(backwards, tail - taken, is_run=True)

    def fill(self, *, is_code: bool = False) -> None:
        """Show one unit after the other while there is room, the one that tells most for its size first, and
        close short gaps. `is_code`: some room is left for that."""
        for_gaps = self.room * _FOR_GAPS // 100 if is_code else 0
        self.left -= for_gaps
        self._fill()
        self.left += for_gaps
        if is_code:
            self._close_gaps()
            self._fill()

    def _close_gaps(self) -> None:
        """Show what is missing in gaps of a few lines, the shortest first: code can't be read where a line is
        missing in the middle of a statement, and the mark costs nearly as much."""
        starts = self.units.starts
        runs = [(shown, list(run)) for shown, run in groupby(range(len(self.shown)), self.shown.__getitem__)]
        gaps = [(starts[run[-1] + 1] - starts[run[0]], run) for shown, run in runs[1:-1] if not shown]
        for size, run in sorted(gaps):
            needed = {other for unit in run for other in self._missing(unit)} - set(run)
            size += sum([starts[other + 1] - starts[other] + _MARK for other in needed])
            if size <= min(_GAP, self.left + _MARK):
                self.left -= size - _MARK
                for unit in (*run, *needed):
                    self.shown[unit] = 1

    def _fill(self) -> None:
        if self.facts is None:
            self.take(range(len(self.units)), 100, is_run=True)
            return
        heap = [(-self._value(unit), unit) for unit in range(len(self.units)) if not self.shown[unit]]
        heapq.heapify(heap)
        count = len(self.units)
        turns = misses = 0
        while heap:
            turns += 1
            if not turns % time_budget.PIECE:
                time_budget.check()
            value, unit = heapq.heappop(heap)
            if self.shown[unit] or self._is_blank_alone(unit):
                continue
            now = -self._value(unit)
            # Units chosen meanwhile may have shown this unit's facts.
            if now > value and heap and now > heap[0][0]:
                heapq.heappush(heap, (now, unit))
                continue
            cost = self._cost(unit)
            if cost > self.left:
                misses += 1
                if misses > _MISSES:
                    break
                continue
            self._show(unit, cost)
            for beside in (unit - 1, unit + 1):
                if 0 <= beside < count and not self.shown[beside]:
                    heapq.heappush(heap, (-self._value(beside), beside))

    def _value(self, unit: int) -> float:
        """Return the worth of a unit for its bytes, without the facts that are shown already."""
        facts, stated = self.facts, self._stated
        assert facts is not None
        weights = facts.weights
        worth = facts.worth[unit] + sum([weights[fact] for fact in facts.units[unit] if fact not in stated])
        return worth / max(8, self._cost(unit) + _BASE)

    def _cost(self, unit: int) -> int:
        """Return the bytes of a unit, of those that it needs, and of the mark that it adds or saves."""
        starts, shown = self.units.starts, self.shown
        size = starts[unit + 1] - starts[unit]
        if unit in self.needs:
            size += sum([starts[other + 1] - starts[other] + _MARK for other in self._missing(unit)])
        before = unit > 0 and shown[unit - 1]
        after = unit + 1 < len(shown) and shown[unit + 1]
        if before and after:
            return size - _MARK
        return size if before or after else size + _MARK

    def _missing(self, unit: int) -> Collection[int]:
        """Return the units that one needs, and those need in their turn, that are not shown yet."""
        for other in self.needs.get(unit, ()):
            if not self.shown[other]:
                break
        else:
            # A unit that is shown stands with all that it needs.
            return ()
        missing: dict[int, None] = {}
        waiting = [unit]
        while waiting:
            for other in self.needs.get(waiting.pop(), ()):
                if not self.shown[other] and other not in missing and other != unit:
                    missing[other] = None
                    waiting.append(other)
        return missing

    def _show(self, unit: int, cost: int) -> None:
        self.left -= cost
        for one in (unit, *(self._missing(unit) if unit in self.needs else ())):
            self.shown[one] = 1
            if self.facts is not None:
                self._stated.update(self.facts.units[one])

    def _is_blank_alone(self, unit: int) -> bool:
        """Return whether a unit is an empty line among others that are left out: it would cost a mark."""
        starts, shown = self.units.starts, self.shown
        if starts[unit + 1] - starts[unit] > 1:
            return False
        return not ((unit > 0 and shown[unit - 1]) or (unit + 1 < len(shown) and shown[unit + 1]))

    def near(self, places: Iterable[int], share: int, before: int = 0, after: int = 2) -> None:
        """Show the units at places of the text, and some around each, in a share of the room."""
        around = [
            one
            for unit in map(self.units.at, places)
            for one in (*range(unit, unit + 1 + after), *range(unit - before, unit))
        ]
        self.take([unit for unit in around if 0 <= unit < len(self.units)], share)

    def written(self, mark: Callable[[int, int], str] | None = None) -> str:
        """Return the units that are shown, and `mark(first, behind)` on a line of its own for each run of the
        others, in bytes of the text."""
        data, starts, shown = self.units.data, self.units.starts, self.shown
        mark = partial(left_out, data) if mark is None else mark
        parts: list[bytes] = []
        unit = 0
        while unit < len(shown):
            run = unit
            while run < len(shown) and shown[run] == shown[unit]:
                run += 1
            first, behind = starts[unit], min(starts[run], len(data))
            if shown[unit] or (parts and run < len(shown) and behind - first < LEAST_CUT):
                parts.append(data[first:behind])
            else:
                before = b"\n" if parts and not parts[-1].endswith(b"\n") else b""
                after = b"\n" if run < len(shown) else b""
                parts.append(before + mark(first, behind).encode() + after)
            unit = run
        return b"".join(parts).decode("utf-8", "surrogatepass")


def left_out(data: bytes, first: int, behind: int, noun: str = "line") -> str:
    """Return the mark for what is missing between two places: its lines, or bytes if it is no whole line."""
    at_end = behind >= len(data)
    lines = data.count(b"\n", first, behind) + (at_end and not data.endswith(b"\n"))
    if lines and starts_line(data, first) and (at_end or starts_line(data, behind)):
        return f"[{counted(lines, noun)} left out]"
    return f"[{counted(behind - first, 'byte')} left out]"


def starts_line(data: bytes, place: int) -> bool:
    """Return whether a line begins at a place."""
    return place == 0 or data[place - 1 : place] == b"\n"


def ends_in_part(
    data: bytes, room: int, mark: Callable[[int, int], str], failures: FailureLines | None = None
) -> str:
    """Return the ends of a text of any size within `room` bytes, with what stands around its failures."""
    failures = FailureLines.of(data) if failures is None else failures
    places = [start for start, _ in failures.ranked()[:_MOST]]
    selection = Selection(Units.near(data, places, room), room)
    selection.ends(20, 25)
    selection.near(places, 50, before=1, after=6)
    selection.fill()
    return selection.written(mark)
