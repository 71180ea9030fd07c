"""The parts of a long text with the most new facts: paths, names, ids and numbers that no earlier text has.

A fact that stands once in a text costs its line; any line shows a frequent one. So lines are
taken one by one, each time the one that tells most for its size of what is not told yet. The beginning and
the end stand in any case, and what failed comes before the rest. A line beside one that is kept costs no
marker.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from penumbra.compress import time_budget, windows
from penumbra.compress.result import Told
from penumbra.compress.size import LEAST_CUT, encode
from penumbra.compress.windows import Span
from penumbra.short_texts import forgettable

LONGEST = 200_000
"""Bytes of a text above which its lines are not compared."""
_FACT = re.compile(rb"[\w$@~\x80-\xff]+(?:[./:\\-]+[\w$@\x80-\xff]+)*|[/~][\w./-]+")
_TELLING = re.compile(rb"[0-9_$./\\:-]|[a-z][A-Z]|[A-Z]{3}")
"""The signs of a word that is more than a word of a language."""
_APART = bytes(
    byte if byte > 0x7F or chr(byte).isalnum() or byte in b"_$@~./:\\-\n" else 0x20 for byte in range(256)
)
"""Translation table: a blank for what stands in no fact, so that each is whole in what is cut at the blanks;
line ends stay."""
_NAME = re.compile(rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]{3,}")
_SHORTEST, _LONG, _LONGEST = 3, 40, 200
"""Characters of a fact; of one that is told less often than others; of the longest one."""
_LINE, _PIECE = 400, 240
"""Bytes of a line that is looked at as a whole; of the pieces that a longer one is cut into."""
_HEAD, _TAIL, _FAILURES, _ODD = 12, 20, 30, 15
"""Per cent of the room for the beginning, the end, what failed, and rows that differ from others."""
_MOST_FAILURES = 64
_MARKER = 34
"""Bytes that a gap costs, roughly."""
_BASE = 30
"""Bytes that are added to those of each line: very short ones are taken for what they tell, too."""
# The weights are chosen by hand: on one half of a set of recorded conversations they kept most of what was
# used later for the same bytes, and on the other half they did as well. `scripts/bench quality` shows what a
# change does.
_WORDS = 5
"""The value of words: so many times the root of a unit's bytes."""
_WEIGHT = 100
"""The weight of a new fact that stands once."""
_SAID = 30
"""Per cent that a fact weighs whose names were all said before."""
_TOLD = 20
"""The weight of a fact that an earlier result shows."""
_MISSES = 40
"""Units that may not fit before no more are tried."""
_RARE = 20
"""Lines in which a name that was said may stand for its lines to be near what is looked for."""


_NONE: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of each unit of a text: its lines, or rows, or pieces of long lines."""

    units: Sequence[Sequence[bytes]]
    weights: Mapping[bytes, int]
    """By fact, how much it is worth to have it told."""
    worth: Sequence[int]
    """By unit, what it is worth besides its facts: how near it is to what was said, and its words."""

    @classmethod
    def of(
        cls,
        texts: Sequence[bytes],
        mentioned: Mapping[str, float],
        asked: Container[str] = (),
        told: Container[bytes] = (),
    ) -> Facts:
        """The facts of units. `mentioned`: the names used in the conversation before, with their weights.
        `asked`: those that the call itself looks for: where they stand is what it was made to tell. `told`:
        the facts that earlier results show."""
        units = _facts_in(texts)
        counts = Counter(fact for unit in units for fact in unit)
        said = {name.encode("utf-8", "surrogatepass"): weight for name, weight in mentioned.items()}
        names = (
            [[name for name in dict.fromkeys(_NAME.findall(text)) if name in said] for text in texts]
            if said
            else []
        )
        lines = Counter(name for unit in names for name in unit)
        worth = [int(len(text) ** 0.5 * _WORDS) for text in texts]
        for unit, near in enumerate(names):
            worth[unit] += _near(near, said, lines) if near else 0
        if asked:
            said = {
                name: weight for name, weight in said.items() if name.decode("utf-8", "replace") not in asked
            }
        weights = {
            fact: _weight(fact, count, said) * (_TOLD if fact in told else 100) // 100
            for fact, count in counts.items()
        }
        return cls(units, weights, worth)

    def value(self, unit: int, stated: Container[bytes]) -> int:
        """The value of a unit without the facts that are stated already."""
        weights = self.weights
        return self.worth[unit] + sum([weights[fact] for fact in self.units[unit] if fact not in stated])

    def fill(self, costs: Sequence[int], room: int) -> set[int]:
        """The units that tell most for what they cost, each of them by itself, within the room."""
        chosen: set[int] = set()
        stated: set[bytes] = set()
        misses = 0
        heap = [(-self.value(unit, stated) / (costs[unit] + _BASE), unit) for unit in range(len(costs))]
        heapq.heapify(heap)
        while heap:
            value, unit = heapq.heappop(heap)
            now = -self.value(unit, stated) / (costs[unit] + _BASE)
            # The unit's facts may have been stated since.
            if now > value and heap and now > heap[0][0]:
                heapq.heappush(heap, (now, unit))
            elif costs[unit] <= room:
                room -= costs[unit]
                chosen.add(unit)
                stated.update(self.units[unit])
            elif (misses := misses + 1) > _MISSES:
                break
        return chosen


@dataclass(frozen=True, slots=True)
class Lines:
    """A text as lines, or pieces of long ones, and what each tells."""

    spans: Sequence[Span]
    facts: Facts
    headings: Mapping[int, int]
    """By unit, the one that says what it is of: the name of the file in which a hit stands."""
    places: Mapping[int, int] = field(default_factory=dict)
    """By such a unit, the one that says where in a file that is."""

    @classmethod
    def of(
        cls,
        data: bytes,
        mentioned: Mapping[str, float],
        headings: Mapping[int, int] = _NONE,
        asked: Container[str] = (),
        told: Container[bytes] = (),
        places: Mapping[int, int] = _NONE,
    ) -> Lines:
        """The lines of a text. `headings`: by number of a line, that of the line it must not be without;
        `places`: by number of such a line, that of one which it must not be without either."""
        spans = list(_units(data))
        facts = Facts.of([data[start:end] for start, end in spans], mentioned, asked, told)
        if not headings:
            return cls(spans, facts, headings)
        first, above = _by_unit(data, spans, headings)
        return cls(spans, facts, above, {first[title]: first[place] for title, place in places.items()})

    def choose(self, room: int, failures: Sequence[Span], odd: Sequence[int] = ()) -> list[Span]:
        """The parts that stay: spans in order that fit into `room` bytes, with a marker for each gap.

        `failures`: where failure lines stand, `odd`: where rows begin that differ from the others, the most
        important ones first.
        """
        chosen = _Chosen(self, room - 2 * windows.MARKER)
        chosen.ends()
        chosen.lines([start for start, _ in failures[:_MOST_FAILURES]], _FAILURES, behind=2)
        chosen.lines(odd, _ODD)
        chosen.fill()
        return chosen.kept_spans()


def _units(data: bytes) -> Iterable[Span]:
    position = 0
    for line in data.split(b"\n"):
        end = min(position + len(line) + 1, len(data))
        while end - position > _LINE:
            cut = max(
                data.rfind(mark, position + _PIECE // 2, position + _PIECE) for mark in (b" ", b",", b";")
            )
            cut = cut + 1 if cut >= 0 else windows.boundary(data, position + _PIECE)
            yield position, cut
            position = cut
        if end > position:
            yield position, end
        position = end


def _by_unit(
    data: bytes, spans: Sequence[Span], headings: Mapping[int, int]
) -> tuple[list[int], dict[int, int]]:
    """The first unit of each line; and what is said of lines, of their units."""
    first: list[int] = []
    above: dict[int, int] = {}
    for unit, (start, _) in enumerate(spans):
        if not start or data[start - 1 : start] == b"\n":
            first.append(unit)
        if (line := headings.get(len(first) - 1)) is not None:
            above[unit] = first[line]
    return first, above


def _facts_in(texts: Iterable[bytes]) -> list[list[bytes]]:
    """The facts of each text, each of them once."""
    units = [text.translate(_APART).split() for text in texts]
    facts = _facts_by_words({words for unit in units for words in unit})
    return [[*dict.fromkeys([fact for words in unit for fact in facts[words]])] for unit in units]


def share_new(text: str, told: Told, is_enough: Callable[[float], bool] = lambda share: share >= 1) -> float:
    """The part of a text, by its characters, in lines with new facts; the first such lines are counted as far
    as needed."""
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    whole = sum(map(len, lines)) or 1
    data = encode("\n".join(lines)).translate(_APART)
    facts_of_words = _facts_by_words(set(data.split()))
    telling = {words for words, facts in facts_of_words.items() if facts}
    is_told = told.facts.__contains__
    untold = {words for words in telling if not all(map(is_told, facts_of_words[words]))}
    new = 0
    for line, line_words in zip(lines, map(bytes.split, data.split(b"\n")), strict=False):
        # A line is looked for last: that takes more than to look for its facts.
        tells_told = untold.isdisjoint(line_words) and not telling.isdisjoint(line_words)
        if not (tells_told or told.is_line(line)):
            new += len(line)
            if is_enough(new / whole):
                break
    return new / whole


def facts_of(text: bytes) -> set[bytes]:
    """The facts that a text tells."""
    return set().union(*_facts_by_words(set(text.translate(_APART).split())).values())


def _facts_by_words(cut: set[bytes]) -> dict[bytes, tuple[bytes, ...]]:
    """The facts in each piece of a text that was cut at its blanks, in order."""
    return {words: _remembered(words) if len(words) <= _LONGEST else _facts_of(words) for words in cut}


def _facts_of(words: bytes) -> tuple[bytes, ...]:
    # A list takes no call for each of them.
    long = [word for word in _FACT.findall(words) if _SHORTEST <= len(word) <= _LONGEST]
    return tuple(filter(_TELLING.search, long))


_remembered = forgettable(16_384)(_facts_of)
"""Equal words recur in line after line, and result after result."""


def _weight(fact: bytes, count: int, said: Mapping[bytes, float]) -> int:
    """More for what the text says often, less for what is long or was said before."""
    weight = _WEIGHT + _WEIGHT // 2 * (min(count, 16).bit_length() - 1)
    if len(fact) > _LONG:
        weight = weight * 7 // 10
    names = _NAME.findall(fact)
    return weight * _SAID // 100 if names and all(name in said for name in names) else weight


def _near(names: Iterable[bytes], said: Mapping[bytes, float], lines: Mapping[bytes, int]) -> int:
    near = sum(
        int(_WEIGHT * said[name]) // lines[name] for name in names if name in said and lines[name] <= _RARE
    )
    return min(2 * _WEIGHT, near)


class _Chosen:
    """The units that are kept so far, and the bytes that are left."""

    def __init__(self, lines: Lines, room: int) -> None:
        self.spans, self.facts, self.headings = lines.spans, lines.facts, lines.headings
        self.places = lines.places
        self.room = room
        self.left = room
        self.kept = bytearray(len(lines.spans))
        self.stated: set[bytes] = set()

    def ends(self) -> None:
        """The beginning and the end: in any case the last line, or piece of one, that half the room holds."""
        head, tail = self.room * _HEAD // 100, self.room * _TAIL // 100
        last = len(self.kept) - 1
        if last >= 0 and (cost := self._size(last)) <= self.room // 2:
            self._keep(last, cost)
            tail -= cost
            last -= 1
        for units, share in ((range(len(self.kept)), head), (range(last, -1, -1), tail)):
            least = self.left - share
            for unit in units:
                if self.kept[unit] or self.left - self._size(unit) < least:
                    break
                self._keep(unit, self._size(unit))

    def lines(self, places: Sequence[int], share: int, behind: int = 0) -> None:
        """Keep the units at these places and some behind each, within a share of the room in per cent."""
        starts = [start for start, _ in self.spans]
        least = self.left - self.room * share // 100
        for place in places:
            first = bisect_right(starts, place) - 1
            for unit in range(first, min(first + 1 + behind, len(self.kept))):
                cost = self._size(unit) + _MARKER // 2
                if not self.kept[unit] and self.left - cost >= least:
                    self._keep(unit, cost)

    def fill(self) -> None:
        """One unit after the other, the one that tells most for its size first, while there is room."""
        heap = [(-self._value(unit), unit) for unit in range(len(self.kept)) if not self.kept[unit]]
        heapq.heapify(heap)
        turns = misses = 0
        while heap:
            turns += 1
            if not turns % time_budget.PIECE:
                time_budget.check()
            value, unit = heapq.heappop(heap)
            if self.kept[unit] or self._is_blank_alone(unit):
                continue
            now = -self._value(unit)
            # The unit's facts may have been stated since.
            if now > value and heap and now > heap[0][0]:
                heapq.heappush(heap, (now, unit))
                continue
            cost = self._cost(unit)
            if cost > self.left:
                misses += 1
                if misses > _MISSES:
                    break
                continue
            self._keep(unit, cost)
            for beside in (unit - 1, unit + 1):
                if 0 <= beside < len(self.kept) and not self.kept[beside]:
                    heapq.heappush(heap, (-self._value(beside), beside))

    def kept_spans(self) -> list[Span]:
        """The spans of what is kept, joined where they touch."""
        spans: list[Span] = []
        for unit, (start, end) in enumerate(self.spans):
            if not self.kept[unit]:
                continue
            if spans and start - spans[-1][1] < LEAST_CUT:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
        return spans

    def _keep(self, unit: int, cost: int) -> None:
        self.left -= cost
        for kept in (unit, *self._missing(unit)):
            self.kept[kept] = 1
            self.stated.update(self.facts.units[kept])

    def _missing(self, unit: int) -> Collection[int]:
        """The units that a unit needs and lacks: its heading and those above that, and the place that the
        heading is about."""
        if unit not in self.headings and unit not in self.places:
            return ()
        # No list: who stands deep has as many above as it has blanks, and each is looked for.
        missing: dict[int, None] = {}
        above: int | None = unit
        while above is not None:
            if above != unit:
                missing[above] = None
            place = self.places.get(above, unit)
            if place != unit and not self.kept[place]:
                missing[place] = None
            above = self.headings.get(above)
            # With what is kept, all that it must not be without is.
            if above is not None and (self.kept[above] or above in missing):
                above = None
        return missing

    def _size(self, unit: int) -> int:
        """Bytes of a unit, and of what is missing that it must not be without."""
        start, end = self.spans[unit]
        return (
            end
            - start
            + sum(self.spans[other][1] - self.spans[other][0] + _MARKER for other in self._missing(unit))
        )

    def _is_blank_alone(self, unit: int) -> bool:
        """True if a line is an empty one among those left out, which would cost markers and say nothing."""
        start, end = self.spans[unit]
        return end - start == 1 and not (self._is_kept(unit - 1) or self._is_kept(unit + 1))

    def _is_kept(self, unit: int) -> bool:
        return 0 <= unit < len(self.kept) and bool(self.kept[unit])

    def _cost(self, unit: int) -> int:
        """Bytes of a unit and of the marker that it makes necessary; less if it closes a gap."""
        before, behind = self._is_kept(unit - 1), self._is_kept(unit + 1)
        return self._size(unit) + (
            _MARKER if not before and not behind else -_MARKER if before and behind else 0
        )

    def _value(self, unit: int) -> float:
        return self.facts.value(unit, self.stated) / max(8, self._cost(unit) + _BASE)
