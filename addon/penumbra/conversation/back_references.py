"""A result that says again what stands earlier in the request: the repeated parts by reference.

    120→def main():
    [38 lines: same as in result toolu_x, from its line 118]
    159→    return 0

The first and the last line of a repeated part stay, so that its place in the earlier result is
found by reading. Line numbers don't count as a difference. Reversible: `expand` gives the text back
from the same earlier texts. The arguments of a call are such a text as well (`same as in call …`): agents
read what they have written. So is what the same text has said so far:

    [8 lines: same as above, from line 40]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penumbra.compress.stages import line_numbers

_TELLING = 12
"""Characters that a line must have (blanks aside) to be looked up."""
_PLACES = 24
"""Places of one line that are tried."""
_ANCHORS = 12
"""Lines that are tried as the first one of a part."""
_LINES = 3
_CHARACTERS = 100
"""A repeated part must have this many lines and characters to be worth a reference."""
_ABOVE = ""
"""Name of the text itself."""
_HEADING = 2_000
"""Characters in which a thinned text says that it is thinned."""
_MARKER = re.compile(
    r"\[([0-9]+) lines?: same as (?:in ((?:result|call) \S+?)(?:, from its line [0-9]+)?"
    r"|above(?:, from line [0-9]+)?)\]"
)


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier text, as it stands in the request."""

    name: str
    """What it is and the id of its call: `result toolu_x`."""
    numbers: tuple[int, ...]
    """Line number of each line; 0 where it has none."""
    lines: Sequence[str | None]
    """The lines without their numbers; None for one that is itself only referred to, and for one that
    tells of what was left out."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines of the new text that stand in an earlier one."""

    start: int
    length: int
    earlier: Earlier
    place: int


_Places = dict[str, list[tuple[Earlier, int]]]
"""Where each telling line stands."""


@dataclass(slots=True)
class LineIndex:
    """The texts of one request so far, findable by their lines."""

    _places: _Places = field(default_factory=dict)

    def note(self, name: str, text: str, original: str | None = None) -> None:
        """Add a text as it was forwarded: `result` or `call`, and an id that is unique in the request.
        Of a call, each argument is a text. `original`: what the text was made of, if not all of that is
        there; then only its lines can be referred to."""
        numbers, lines = line_numbers.split(text)
        shown: Sequence[str | None] = lines if original is None else _quoted(lines, original)
        _note(self._places, Earlier(name, tuple(numbers), tuple(shown)))

    def with_references(self, text: str) -> str | None:
        """The text with its repeated parts as references; None if there are none worth it."""
        if _MARKER.search(text):
            return None
        numbers, lines = line_numbers.split(text)
        # The legend of the numbers is never said by reference: the lines that stay need it.
        lines = ["\x00" if line == line_numbers.LEGEND else line for line in lines]
        parts = list(_Matcher.of(self._places, numbers, lines).parts())
        return _write(text, numbers, parts) if parts else None


def _quoted(lines: Sequence[str], original: str) -> list[str | None]:
    """The lines that stand in the original too; None for all others."""
    there = {line.rstrip() for line in line_numbers.split(original)[1]}
    return [line if line.rstrip() in there else None for line in lines]


def _note(places: _Places, text: Earlier) -> None:
    for position, line in enumerate(text.lines):
        if line is not None and _is_telling(line):
            found = places.setdefault(line, [])
            if len(found) < _PLACES:
                found.append((text, position))


@dataclass(slots=True)
class _Matcher:
    """One text, and where its lines may stand already."""

    earlier: _Places
    own: _Places
    """Places in the text itself."""
    lines: list[str]
    shown: list[str | None]
    """The lines; None for those that have become references."""

    @classmethod
    def of(cls, earlier: _Places, numbers: list[int], lines: list[str]) -> _Matcher:
        shown: list[str | None] = [*lines]
        own: _Places = {}
        _note(own, Earlier(_ABOVE, tuple(numbers), shown))
        return cls(earlier, own, lines, shown)

    def parts(self) -> Iterator[_Part]:
        """The repeated parts, in order."""
        position = covered = 0
        while position < len(self.lines):
            found = self._longest(position, covered)
            if found is None or found.length < _LINES:
                position += 1
                continue
            part = self._anchored(found)
            if part is not None:
                inner = slice(part.start + 1, part.start + part.length - 1)
                self.shown[inner] = [None] * (part.length - 2)
                yield part
            position = covered = found.start + found.length

    def _places(self, line: str) -> Iterable[tuple[Earlier, int]]:
        yield from self.earlier.get(line, ())
        yield from self.own.get(line, ())

    def _longest(self, position: int, covered: int) -> _Part | None:
        """The longest repeated part around a line that reaches back no further than `covered`."""
        best: _Part | None = None
        for earlier, place in self._places(self.lines[position]):
            is_own = earlier.name == _ABOVE
            if is_own and (place >= position or self.shown[place] is None):
                continue
            back = self._common(earlier, place, position, -1, position - covered)
            most = len(self.lines) - position
            if is_own:
                most = min(most, position - back - place)
            ahead = self._common(earlier, place, position, 1, most - 1) + 1
            if ahead <= most and (best is None or back + ahead > best.length):
                best = _Part(position - back, back + ahead, earlier, place - back)
        return best

    def _common(self, earlier: Earlier, place: int, position: int, step: int, most: int) -> int:
        """How many lines before or behind a place are those before or behind the position."""
        count = 0
        while count < most:
            place, position = place + step, position + step
            if not 0 <= place < len(earlier.lines) or earlier.lines[place] != self.lines[position]:
                break
            count += 1
        return count

    def _anchored(self, part: _Part) -> _Part | None:
        """The part between two telling lines that name one place; None if too little is left."""
        lines, start, end = self.lines, part.start, part.start + part.length
        while end > start and not _is_telling(lines[end - 1]):
            end -= 1
        for _ in range(_ANCHORS):
            while start < end and not _is_telling(lines[start]):
                start += 1
            if end - start < _LINES or sum(map(len, lines[start + 1 : end - 1])) < _CHARACTERS:
                return None
            place = part.place + start - part.start
            if self._is_first(lines[start], lines[end - 1], end - start - 1, part.earlier, place):
                return _Part(start, end - start, part.earlier, place)
            start += 1
        return None

    def _is_first(self, first: str, last: str, span: int, earlier: Earlier, place: int) -> bool:
        """Whether the first place under this name where `first` stands `span` lines above `last` is meant."""
        for candidate, start in self._places(first):
            if candidate.name != earlier.name:
                continue
            lines = self.lines if candidate.name == _ABOVE else candidate.lines
            if start + span < len(lines) and lines[start + span] == last:
                return candidate is earlier and start == place
        return False


def _is_telling(line: str) -> bool:
    return len(line.strip()) >= _TELLING


def referenced(text: str) -> frozenset[str]:
    """The names of the texts that a text with references refers to."""
    return frozenset(found[2] for found in _MARKER.finditer(text) if found[2])


def expand(text: str, earlier: Mapping[str, str]) -> str:
    """What `with_references` was given, line numbers aside, from the earlier texts by name."""
    sources = {name: line_numbers.split(source)[1] for name, source in earlier.items()}
    lines: list[str] = []
    shown = line_numbers.split(text)[1]
    for position, line in enumerate(shown):
        found = _MARKER.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        source, count = sources[found[2]] if found[2] else lines, int(found[1])
        place = _place(source, shown[position - 1], count, shown[position + 1])
        lines += source[place + 1 : place + 1 + count]
    return "\n".join(lines)


def _place(source: list[str], first: str, count: int, last: str) -> int:
    """Where `first` stands with `last` after `count` lines: the first such place."""
    for place in range(len(source) - count - 1):
        if source[place] == first and source[place + count + 1] == last:
            return place
    raise LookupError("the referenced lines are not there")


def _write(text: str, numbers: list[int], parts: list[_Part]) -> str:
    """The text with the inner lines of each part replaced."""
    lines = text.split("\n")
    written: list[str] = []
    position = 0
    for part in parts:
        last = part.start + part.length - 1
        written += lines[position : part.start + 1]
        written.append(_marker(part, numbers))
        lines[last] = _numbered(lines[last], numbers[last], text)
        position = last
    written += lines[position:]
    return "\n".join(written)


def _marker(part: _Part, numbers: list[int]) -> str:
    there = part.earlier.numbers[part.place]
    count = part.length - 2
    what = f"{count} {'line' if count == 1 else 'lines'}: same as"
    if part.earlier.name == _ABOVE:
        return f"[{what} above{f', from line {there}' if there else ''}]"
    where = f", from its line {there}" if there and there != numbers[part.start] else ""
    return f"[{what} in {part.earlier.name}{where}]"


def _numbered(line: str, number: int, text: str) -> str:
    """A line of a thinned text with its number."""
    if not number or line_numbers.LEGEND not in text[:_HEADING]:
        return line
    separator = line_numbers.separator_of(text.split("\n", 60)[:60])
    return line if line_numbers.parse(line, separator) else f"{number}{separator}{line}"
