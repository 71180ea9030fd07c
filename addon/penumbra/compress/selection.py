"""The selection chooses the units of a text that fit into a limit, and writes a mark for each gap.

    src/a.py:
    12:import os
    [41 lines left out]
    90:def total(cart):

The units of a text are its lines, and pieces of long lines. First come the beginning, the end, failures and
differences, each within a share of the limit. Then the units with the most new facts for their size are
added. A unit is shown only together with the units that it needs, such as its heading. A gap is filled if it
is about as short as its mark.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, groupby

from msgspec import Struct

from penumbra.compress import time_budget
from penumbra.compress.facts import TextFacts
from penumbra.compress.failure_lines import FailureLines
from penumbra.compress.size import LEAST_CUT, counted
from penumbra.linear import utf8

LEAST = 240
"""The smallest limit, in bytes, for which units are chosen."""
ASIDE = 120
"""The number of bytes reserved for the marks at both ends."""
_MARK = 34
"""The length in bytes of a usual mark."""
_LINE, _PIECE = 400, 240
"""A line of at most `_LINE` bytes is one unit. A longer line is cut into pieces of at most about `_PIECE`
bytes."""
_LONGEST_ADDRESS = 2_000
"""The length in bytes of the longest URL that is never cut."""
_ADDRESS = re.compile(rb"://[^\s\"'<>`|\\]+")
_SCHEME = re.compile(rb"[a-z][a-z0-9+.-]{0,20}\Z")
_GAP, _FOR_GAPS = 160, 4
"""Gaps in code of at most `_GAP` bytes are filled, within `_FOR_GAPS` per cent of the limit."""
_BASE = 30
"""This number of bytes is added to each unit's size, so that short units have no advantage."""
_MISSES = 40
"""After this number of units that don't fit, no more units are tried."""
_BEFORE, _AFTER = 230, 1_400
"""In a text that is too large, only these numbers of bytes before and after a place are cut into units."""
_MOST = 16
"""The surroundings of at most this number of failures are shown."""
Needs = Mapping[int, Collection[int]]
"""For each unit, the units that must be shown with it."""


class Units(Struct, frozen=True):
    """A `Units` is a text and its units, which together cover the whole text."""

    data: bytes
    starts: Sequence[int]
    """The offset of each unit, followed by the end of the last unit."""
    lines: Sequence[int]
    """The number of the first unit of each line."""

    @classmethod
    def of(cls, data: bytes) -> Units:
        """Cut a text into lines, and long lines into pieces."""
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
    def near(cls, data: bytes, places: Iterable[int], space: int) -> Units:
        """Cut a text with too many lines into units near `places` and within `space` bytes of both ends. The
        text between two of these regions is one unit."""
        regions = [(0, space), (len(data) - space, len(data))]
        regions += ((place - _BEFORE, place + _AFTER) for place in places)
        starts = [0]
        for first, end_of_region in sorted(regions):
            line = data.find(b"\n", max(0, first - 1), end_of_region) + 1
            start = max(starts[-1], line, boundary(data, first))
            if start > starts[-1]:
                starts.append(start)
            while starts[-1] < min(end_of_region, len(data)):
                end = data.find(b"\n", starts[-1], starts[-1] + _LINE) + 1
                starts.append(end or next(_pieces(data, starts[-1], len(data)), len(data)))
        if starts[-1] < len(data):
            starts.append(len(data))
        return cls(data, starts, ())

    @classmethod
    def joined(cls, texts: Sequence[bytes], between: bytes = b"\n") -> Units:
        """Return units that are whole texts of any length. The bytes `between` follow each unit."""
        ends = accumulate([len(text) + len(between) for text in texts])
        return cls(between.join(texts), [0, *ends], range(len(texts)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def at(self, place: int) -> int:
        """Return the unit that contains a place of the text."""
        return max(0, min(bisect_right(self.starts, place), len(self)) - 1)

    def texts(self) -> list[bytes]:
        data = self.data
        return [data[start:end] for start, end in zip(self.starts, self.starts[1:], strict=False)]


def boundary(data: bytes, position: int) -> int:
    """Return the nearest character boundary at or before a position."""
    position = max(0, min(position, len(data)))
    while 0 < position < len(data) and data[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _pieces(data: bytes, start: int, end: int) -> Iterator[int]:
    """Yield the offsets of all pieces of a line but the first. URLs are not cut, because the model would take
    the beginning of a URL for the whole."""
    while end - start > _LINE:
        cut = max(data.rfind(mark, start + _PIECE // 2, start + _PIECE) for mark in (b" ", b",", b";")) + 1
        start = _outside_address(data, start, cut or boundary(data, start + _PIECE), end)
        if start < end:
            yield start


def _outside_address(data: bytes, start: int, cut: int, end: int) -> int:
    """Return `cut`, or, if `cut` is within a URL, the beginning or end of the URL."""
    scheme = data.rfind(b"://", start, cut)
    address = _ADDRESS.match(data, scheme, min(end, scheme + _LONGEST_ADDRESS)) if scheme >= 0 else None
    if address is None or address.end() <= cut:
        return cut
    named = _SCHEME.search(data, max(start, scheme - 20), scheme)
    before = named.start() if named else scheme
    return before if before > start else address.end()


@dataclass(slots=True)
class Selection:
    """A `Selection` has the units of a text that are shown so far, and the bytes left for further units."""

    units: Units
    space: int
    facts: TextFacts | None = None
    """The facts of each unit; None if units are chosen in the order of the text."""
    needs: Needs = field(default_factory=dict)
    mark: int = _MARK
    left: int = 0
    shown: bytearray = field(default_factory=bytearray)
    """1 for each unit that is shown, 0 for each other unit and after the last unit."""
    _weights: dict[bytes, int] = field(default_factory=dict)
    """The worth of each fact; 0 for a fact that is already shown."""
    _missing_needs: dict[tuple[int, ...], tuple[dict[int, None], int]] = field(default_factory=dict)
    """The cached results of `_missing`, by a unit's own needs, until `shown` changes."""

    def __post_init__(self) -> None:
        self.space -= ASIDE
        self.left = self.space
        self.shown = bytearray(len(self.units) + 1)
        self._weights = {} if self.facts is None else {**self.facts.weights}

    def take(self, wish: Iterable[int], share: int, *, is_run: bool = False) -> None:
        """Show these units in their order, within `share` per cent of the limit. With `is_run`, the first
        unit that does not fit ends the run."""
        least = max(0, self.left - self.space * share // 100)
        misses = 0
        for unit in wish:
            for _, _, cost in self._offers((unit,)):
                if self.left - cost >= least:
                    self._show(unit, cost)
                elif is_run or (misses := misses + 1) > _MISSES:
                    return

    def ends(self, head: int, tail: int) -> None:
        """Show the beginning and the end of the text, within `head` and `tail` per cent of the limit. The
        last unit alone may take half of the limit."""
        backwards = range(len(self.units) - 1, -1, -1)
        self.take(range(len(self.units)), head, is_run=True)
        left = self.left
        self.take(backwards[:1], 50)
        taken = (left - self.left) * 100 // max(1, self.space)
        self.take(backwards, tail - taken, is_run=True)

    def fill(self, *, is_code: bool = False) -> None:
        """Show further units up to the limit, those with the most worth for their size first. Without facts,
        the order of the text counts. With `is_code`, a part of the limit is reserved to fill short gaps."""
        for_gaps = self.space * _FOR_GAPS // 100 if is_code else 0
        self.left -= for_gaps
        if self.facts is None:
            self.take(range(len(self.units)), 100, is_run=True)
        else:
            self._take_best()
        self.left += for_gaps
        if is_code:
            self._close_gaps()

    def _take_best(self) -> None:
        heap, starts, shown = self._offers(range(len(self.units))), self.units.starts, self.shown
        heapq.heapify(heap)
        turns = misses = 0
        while heap and misses <= _MISSES:
            turns += 1
            if not turns % time_budget.PIECE:
                time_budget.check()
            value, unit, _ = heapq.heappop(heap)
            if starts[unit + 1] - starts[unit] <= 1 and not (shown[unit - 1] or shown[unit + 1]):
                # An empty line between omitted units would add a mark.
                continue
            for now in self._offers((unit,)):
                # Since this value was computed, units with the same facts may have been shown.
                if heap and value < now[0] > heap[0][0]:
                    heapq.heappush(heap, now)
                elif now[2] > self.left:
                    misses += 1
                else:
                    self._show(unit, now[2])
                    for beside in self._offers(range(max(0, unit - 1), min(unit + 2, len(self.units)))):
                        heapq.heappush(heap, beside)

    def _close_gaps(self) -> None:
        """Show the units in gaps of a few lines, the shortest gap first."""
        starts = self.units.starts
        runs = [(shown, list(run)) for shown, run in groupby(range(len(self.units)), self.shown.__getitem__)]
        gaps = [(starts[run[-1] + 1] - starts[run[0]], run) for shown, run in runs[1:-1] if not shown]
        for size, run in sorted(gaps):
            needed = {other for unit in run for other in self._missing(unit)[0]} - set(run)
            size += sum([starts[other + 1] - starts[other] + self.mark for other in needed])
            if size <= min(_GAP, self.left + self.mark):
                self.left -= size - self.mark
                for unit in (*run, *needed):
                    self.shown[unit] = 1
                self._missing_needs.clear()

    def _offers(self, units: Iterable[int]) -> list[tuple[float, int, int]]:
        """Return (negative worth per byte, unit, cost) of the units that are not shown. The cost is the
        number of bytes that a unit adds, with needed units and marks. Shown facts have no worth."""
        starts, shown, facts, weight = self.units.starts, self.shown, self.facts, self._weights.__getitem__
        offers: list[tuple[float, int, int]] = []
        for unit in units:
            if shown[unit]:
                continue
            cost = starts[unit + 1] - starts[unit] + self.mark * (1 - shown[unit - 1] - shown[unit + 1])
            if unit in self.needs:
                cost += self._missing(unit)[1]
            worth = 0 if facts is None else facts.worth[unit] + sum(map(weight, facts.units[unit]))
            offers.append((-worth / max(8, cost + _BASE), unit, cost))
        return offers

    def _missing(self, unit: int) -> tuple[Collection[int], int]:
        """Return the needed units of a unit that are not shown yet, and the size in bytes of these and their
        marks."""
        if (direct := tuple(self.needs.get(unit, ()))) not in self._missing_needs:
            starts, shown = self.units.starts, self.shown
            missing: dict[int, None] = {}
            waiting = [*direct]
            while waiting:
                # If a unit is shown, the units that it needs are shown, too.
                if not shown[other := waiting.pop()] and other not in missing:
                    missing[other] = None
                    waiting += self.needs.get(other, ())
            size = sum([starts[other + 1] - starts[other] + self.mark for other in missing])
            self._missing_needs[direct] = missing, size
        missing, size = self._missing_needs[direct]
        if unit in missing:
            size -= self.units.starts[unit + 1] - self.units.starts[unit] + self.mark
            return missing.keys() - {unit}, size
        return missing, size

    def _show(self, unit: int, cost: int) -> None:
        self.left -= cost
        for one in (unit, *(self._missing(unit)[0] if unit in self.needs else ())):
            self.shown[one] = 1
            if self.facts is not None:
                self._weights.update(dict.fromkeys(self.facts.units[one], 0))
        self._missing_needs.clear()

    def near(self, places: Iterable[int], share: int, before: int = 0, after: int = 2) -> None:
        """Show the units at places, and a few units around each, within `share` per cent of the limit."""
        around = [
            one
            for unit in map(self.units.at, places)
            for one in (*range(unit, unit + 1 + after), *range(unit - before, unit))
        ]
        self.take([unit for unit in around if 0 <= unit < len(self.units)], share)

    def written(self, mark: Callable[[int, int], str] | None = None) -> str:
        """Return the text of the shown units. The line `mark(first, end)` replaces each run of other units,
        from `first` to `end` in the text, unless the run is very short."""
        data, starts, shown = self.units.data, self.units.starts, self.shown
        mark = partial(left_out, data) if mark is None else mark
        parts: list[bytes] = []
        unit, count = 0, len(self.units)
        while unit < count:
            run = unit
            while run < count and shown[run] == shown[unit]:
                run += 1
            first, end = starts[unit], min(starts[run], len(data))
            if shown[unit] or (parts and run < count and end - first < LEAST_CUT):
                parts.append(data[first:end])
            else:
                before = b"\n" if parts and not parts[-1].endswith(b"\n") else b""
                after = b"\n" if run < count else b""
                parts.append(before + utf8(mark(first, end)) + after)
            unit = run
        return b"".join(parts).decode("utf-8", "surrogatepass")


def left_out(data: bytes, first: int, end: int, noun: str = "line") -> str:
    """Return the mark for the text between two offsets. The mark counts lines if the text consists of whole
    lines, otherwise bytes."""
    at_end = end >= len(data)
    lines = data.count(b"\n", first, end) + (at_end and not data.endswith(b"\n"))
    if lines and starts_line(data, first) and (starts_line(data, end) or (at_end and first)):
        return f"[{counted(lines, noun)} left out]"
    return f"[{counted(end - first, 'byte')} left out]"


def starts_line(data: bytes, place: int) -> bool:
    """Return whether a line begins at a place."""
    return place == 0 or data[place - 1 : place] == b"\n"


def ends_in_part(
    data: bytes, space: int, mark: Callable[[int, int], str], failures: FailureLines | None = None
) -> str:
    """Return parts of a text of any size in about `space` bytes: both ends, and what is around failures."""
    failures = FailureLines.of(data) if failures is None else failures
    places = failures.places()[:_MOST]
    selection = Selection(Units.near(data, places, space), space)
    selection.ends(20, 25)
    selection.near(places, 50, before=1, after=6)
    selection.fill()
    return selection.written(mark)
