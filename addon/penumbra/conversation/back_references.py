"""This module puts references in place of lines that earlier texts of the request contain.

    120→def main():
    [38 lines: same as in Read src/a.ts, lines 118 to 155]
    159→    return 0

A reference names the earlier text by tool and path or command (see `call_names`). The lines are named by
their numbers in the file or their positions in the output. Arguments of calls are also earlier texts (`what
Write src/a.ts was given`), because agents read files that they have written. The lines that
`staying_lines` finds stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct, structs

from penumbra.compress import token_estimate
from penumbra.compress.calls.classify import Call
from penumbra.compress.size import counted
from penumbra.compress.stages import folding, line_numbers
from penumbra.compress.text import Text
from penumbra.conversation.call_names import CallName
from penumbra.conversation.line_index import EarlierText, LineIndex, TextLines, is_telling
from penumbra.conversation.staying_lines import FileUnits, StayingLines

STAGE = "back_references"
"""The name of the stage that replaces repeated lines."""
_LEAST_REFERENCE = 60
"""Lines with fewer estimated tokens are not replaced by a reference."""
_MOST_COMPARED = 300_000
"""After this number of comparisons with earlier lines, the text's later lines stay."""
_LONG = 2_000
"""The number of characters at the beginning of a text whose tokens are estimated first."""
_NEAR = 9
"""Marks that may count hidden lines are searched for in this number of lines after a hidden part."""
_MARKER = re.compile(
    r"\[[0-9]+ lines?: same as (?:in \S|above|lines? [0-9]+(?: to [0-9]+)? above\])"
    r"|\[[0-9]+ lines? said before(?:, but for times)?\]"
)
_NO_CALL = Call()


class Referring(Struct, frozen=True):
    """`Referring` is a text in which markers replace repeated lines."""

    text: str
    keys: frozenset[bytes]
    """The keys of the texts to which the markers refer."""


class _Reference(Struct, frozen=True):
    """A `_Reference` replaces consecutive lines that are also consecutive in an earlier text."""

    start: int
    end: int
    """The position after the last line."""
    earlier: EarlierText
    place: int
    """The position of the first line's equal in the earlier text."""
    name: CallName | None = None

    @property
    def count(self) -> int:
        """The number of lines. The empty rest after the last line break of an earlier text is no line."""
        lines = self.earlier.output[self.place : self.place + self.end - self.start]
        return len(lines) - (not lines[-1] and self.place + len(lines) == len(self.earlier.output))

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the first and last line in the earlier text; 0 if a number is missing or skipped."""
        count = self.count
        first, last = self.earlier.numbers[self.place], self.earlier.numbers[self.place + count - 1]
        return (first, last) if first and last - first == count - 1 else (0, 0)

    @property
    def marker(self) -> str:
        """The text that replaces the lines."""
        (first, last), count, name = self.numbers, self.count, self.name.name if self.name else ""
        what = f"{counted(count, 'line')}: same as in {name}"
        is_output = self.earlier.is_counted and not self.earlier.is_argument
        if not first or (is_output and self.end - self.start == len(self.earlier.output) and "[" not in name):
            return f"[{what}]"
        where = f"line {first}" if count == 1 else f"lines {first} to {last}"
        return f"[{what}, {where}{' of its output' if is_output else ''}]"


def with_references(
    index: LineIndex, text: str, call: Call = _NO_CALL, original: str | None = None
) -> Referring | None:
    """Return the text with markers in place of its repeated lines. Return None if no marker saves enough,
    or if the text already has markers.

    `call` printed the text. `original` is the output from which the text was made, if the lines of both
    differ. Lines that are not in the output stay.
    """
    # Most texts have no marker. A search for a marker's words takes a tenth of the pattern's time.
    if (": same as " in text or " said before" in text) and _MARKER.search(text):
        return None
    is_numbered = line_numbers.count_lines(text, call, original)
    lines = index.read(text, original, is_numbered=is_numbered)
    repeated = list(_Search(index, lines, lines.printed, call).references())
    if repeated and " more time" in text and (first := folding.counted_lines(lines.lines)):
        # A mark with a count must directly follow the lines that it counts.
        ends = [(one, _uncounted_end(one.start, one.end, first, lines.lines)) for one in repeated]
        repeated = [structs.replace(one, end=end) for one, end in ends if end]
    if not repeated:
        return None
    written = _written(text, repeated, lines.numbers)
    return Referring(written, frozenset().union(*[one.name.keys for one in repeated if one.name]))


def _uncounted_end(start: int, end: int, first: Mapping[int, int], lines: Sequence[str]) -> int:
    """Return a new end for the hidden lines: at or before `end`, so that no later mark counts a hidden line;
    0 if too few hidden lines remain. `first` is the first counted line of each mark."""
    shorter, before = end, end + 1
    while shorter < before:
        before = shorter
        shorter = min([shorter, *(first[at] for at in range(shorter, shorter + _NEAR) if at in first)])
    return shorter if shorter == end or _is_worth(lines, start, shorter, _LEAST_REFERENCE) else 0


def _is_worth(lines: Sequence[str], start: int, end: int, least: int) -> bool:
    """Return whether the lines from `start` to `end` have at least `least` estimated tokens."""
    after, characters = start, 0
    while after < end and characters <= _LONG:
        characters += len(lines[after]) + 1
        after += 1
    # Mostly the first lines alone have enough tokens, and their estimate is remembered.
    beginning = "\n".join(lines[start:after])[:_LONG]
    return token_estimate.estimate(beginning) >= least or (
        characters > _LONG and token_estimate.estimate("\n".join(lines[start:end])) >= least
    )


@dataclass(slots=True)
class _Search:
    """A `_Search` finds the lines of one text that earlier texts show."""

    index: LineIndex
    read: TextLines
    printed: range
    """The positions of the output's lines."""
    call: Call
    _compared: int = 0
    """The number of lines of earlier texts that were compared so far."""
    _staying: StayingLines | None = None
    _units: FileUnits | None = None

    def references(self) -> Iterator[_Reference]:
        """Yield the parts that references replace, in order."""
        covered, missing = self.printed.start, set[str | None]()
        for position in self.index.found(self.read.bare):
            line = self.read.output[position]
            if not covered <= position < self.printed.stop or line in missing:
                continue
            if self._compared >= _MOST_COMPARED:
                return
            longest = self._longest(position, covered)
            if longest is None:
                missing.add(line)
                continue
            covered = longest.end
            if self._worthwhile(longest.start, longest.end) is None:
                # No piece of the part has more tokens than the whole part.
                continue
            for part in self._within(longest):
                if (name := self._name(part)) is not None:
                    yield structs.replace(part, name=name)

    def _longest(self, position: int, covered: int) -> _Reference | None:
        """Return the longest repeated part around the line at `position`. The part begins at `covered` or
        later. Return None if no usable earlier text has the line with the same indentation."""
        best: _Reference | None = None
        line = self.read.output[position]
        for earlier, place in self.index.places(line or ""):
            if not earlier.numbers[place] and earlier.is_argument and self.call.category == "read":
                # A later edit of the file needs to know where its lines are.
                continue
            back, ahead = self._common(earlier.output, place, position, covered)
            self._compared += 1 + back + ahead
            if best is None or back + ahead > best.end - best.start:
                best = _Reference(position - back, position + ahead, earlier, place - back)
        return best

    def _common(
        self, earlier: Sequence[str | None], place: int, position: int, covered: int
    ) -> tuple[int, int]:
        """Return how many lines before `position`, and how many from `position` on, equal the lines around
        `place` in an earlier text."""
        output, back, ahead = self.read.output, 0, 1
        most = min(position - covered, place)
        while back < most and output[position - back - 1] == earlier[place - back - 1] is not None:
            back += 1
        most = min(self.printed.stop - position, len(earlier) - place)
        while ahead < most and output[position + ahead] == earlier[place + ahead] is not None:
            ahead += 1
        # An empty line in the middle of an output is not the empty rest of an earlier text.
        is_rest = place + ahead == len(earlier) and not earlier[-1] and position + ahead < self.printed.stop
        return back, ahead - is_rest

    def _name(self, part: _Reference) -> CallName | None:
        """Return the name of the earlier text of a part; None if the text can't be named."""
        numbers = None if part.earlier.is_counted or not any(part.numbers) else part.numbers
        return self.index.calls.name(part.earlier.key, lines=numbers)

    def staying(self) -> StayingLines:
        if self._staying is None:
            self._staying = StayingLines.of(self.read.lines, self.call)
        return self._staying

    def _within(self, part: _Reference) -> Iterator[_Reference]:
        """Yield the pieces of a repeated part that become references, in order.

        The lines at the borders stay if an edit may quote the text or the reference can't give line numbers.
        In a file, the units next to new lines also stay. In an output, the line that introduces new lines
        stays. The last line of an output also stays, unless the whole output is repeated and reports nothing.
        """
        start, end, hidden = part.start, part.end, self._worthwhile
        if self.call.is_quoted or not any(part.numbers):
            start, end, hidden = start + 1, end - 1, self._between_telling
        elif end < self.printed.stop:
            end = self._before_title(start, end)
        elif start > self.printed.start or self.staying().positions:
            # The last line of an output often states the outcome.
            end = max([at for at in range(start, end) if is_telling(self.read.lines[at])], default=start)
        if self.call.is_quoted and self.call.category == "read":
            if self._units is None:
                self._units = FileUnits.of(self.read.lines, self.read.numbers, self.printed)
            start, end = self._units.repeated(part.start, part.end)
        for first, after in self.staying().stretches(start, end):
            for begin, stop in self._without_headings(first, after, hidden):
                yield _Reference(begin, stop, part.earlier, part.place + begin - part.start)

    def _before_title(self, start: int, end: int) -> int:
        """Return the position of the line that introduces the lines after `end`: it ends with a colon or is
        alone between empty lines. Return `end` if there is no such line."""
        lines = self.read.lines
        last = max([at for at in range(start, end) if lines[at].strip()], default=start)
        is_alone = last > 0 and not lines[last - 1].strip() and not lines[last + 1].strip()
        return last if is_alone or lines[last].rstrip().endswith(":") else end

    def _worthwhile(self, start: int, end: int) -> tuple[int, int] | None:
        """Return `start` and `end` if the lines between them are worth a reference, else None."""
        return (start, end) if _is_worth(self.read.lines, start, end, _LEAST_REFERENCE) else None

    def _between_telling(self, start: int, end: int) -> tuple[int, int] | None:
        """Shrink a range until the line before it and the line after it tell a reader where the reference
        stands. Return the range; None if it is not worth a reference."""
        while start < end and not is_telling(self.read.lines[start - 1]):
            start += 1
        while end > start and not is_telling(self.read.lines[end]):
            end -= 1
        return self._worthwhile(start, end)

    def _without_headings(
        self, start: int, end: int, hidden: Callable[[int, int], tuple[int, int] | None]
    ) -> Iterator[tuple[int, int]]:
        """Yield the ranges of hidden lines from `start` to `end`, in order. `hidden` returns the range that
        is worth a reference, or None. If a range contains the heading of a line that stays, the range is
        split at the heading."""
        waiting = [(start, end)]
        while waiting:
            if (part := hidden(*waiting.pop())) is None:
                continue
            heading = self.staying().heading(*part)
            if heading is None:
                yield part
            else:
                waiting += [(heading + 1, part[1]), (part[0], heading)]


def _written(text: str, repeated: Iterable[_Reference], numbers: Sequence[int]) -> str:
    """Return the text with a marker in place of each repeated part. `numbers` are the line numbers of the
    file; empty if the text has none. A reader can't count across a marker. If only some lines have numbers,
    the lines next to a marker therefore get their numbers back."""
    lines, head = [*Text.of(text).lines], text[: line_numbers.HEADING]
    is_thinned = bool(numbers) and line_numbers.LEGEND in head
    separator = line_numbers.separator_of(lines[:60]) if is_thinned else ""

    def number(position: int) -> None:
        line = lines[position]
        if is_thinned and numbers[position] and line_numbers.number_of(line, separator) is None:
            lines[position] = line_numbers.prefix(numbers[position], separator) + line

    written: list[str] = []
    position = 0
    for part in repeated:
        if part.start > position:
            number(part.start - 1)
        written += [*lines[position : part.start], part.marker]
        position = part.end
        if position < len(lines):
            number(position)
    return "\n".join([*written, *lines[position:]])
