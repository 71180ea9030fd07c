"""A result that says again what stands earlier in the request: the repeated parts by reference.

    120→def main():
    [38 lines: same as in Read src/a.ts, lines 118 to 155]
    159→    return 0

The earlier text is named by tool and path or command, its lines by the numbers that it shows or its call
tells, else `of its output`; none are named where they are all of that. The latest of equal ones is taken;
where a call of that name was made since, the reference says which is meant (`Read src/a.ts (the 2nd)`, see
`call_names`). The lines before and after a repeated part stay, and those that `staying_lines` names.
Reversible, from the same earlier texts. The arguments of a call are such a text as well (`what Write src/a.ts
was given`): agents read what they have written.

Files are quoted when they are edited: around a change in a file that was read, wide margins stay, so that an
edit there finds all of its text.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from penumbra.compress import facts, token_estimate
from penumbra.compress.calls.classify import Call
from penumbra.compress.calls.envelope import split_envelope
from penumbra.compress.result import Told
from penumbra.compress.size import encode
from penumbra.compress.stages import folding, line_numbers
from penumbra.conversation import earlier_lines, said_lines
from penumbra.conversation.call_names import Name, NamedCalls
from penumbra.conversation.earlier_lines import LinePlaces, is_telling
from penumbra.conversation.said_lines import From, Said, SaidLines, ShownFile, StayingLines

_LEAST = 60
"""Estimated tokens that a reference must stand for."""
_CONVERSATIONS = 32
_CHARACTERS = 10_000_000
"""Characters of all texts that are noted. Their lines take seven bytes of memory for each character; what was
dropped is noted anew, in about 35 milliseconds for each million."""
_NEAR = 9
"""Lines after hidden ones in which a mark may count those."""
_MARKER = re.compile(
    r"\[[0-9]+ lines?: same as (?:in \S|above|lines? [0-9]+(?: to [0-9]+)? above\])|"
    + said_lines.MARKER.pattern
)


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier text, as it stands in the request."""

    key: bytes
    """Key of the text in the request."""
    is_given: bool
    """The text is an argument of a call."""
    numbers: Sequence[int]
    """Line number of each line: in its file, or counted; 0 for what is none."""
    counted: bool
    """The numbers count the lines of the text itself."""
    lines: Sequence[str | None]
    """The lines without their numbers; None for one that is itself only referred to, and for one that
    is no line of the output."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines of the new text that stand in an earlier one."""

    start: int
    length: int
    earlier: Earlier
    place: int

    @property
    def end(self) -> int:
        """Position after the last line."""
        return self.start + self.length

    @property
    def numbers(self) -> tuple[int, int]:
        """Numbers of the first and the last line in the earlier text; 0 if numbers don't count the lines."""
        numbers = self.earlier.numbers
        first, last = numbers[self.place], numbers[self.place + self.length - 1]
        return (first, last) if first and last - first == self.length - 1 else (0, 0)


@dataclass(frozen=True, slots=True)
class Referring:
    """A text that says parts of it by reference."""

    text: str
    keys: frozenset[bytes]
    """Keys of the texts that are referred to."""
    is_lossy: bool
    """Some omitted lines have no reference that locates them."""


_Lines = tuple[Sequence[int], list[str], bool]
"""Numbers of lines, the lines without them, and whether the numbers only count the lines."""
_NO_CALL = Call()


@dataclass(slots=True)
class LineIndex:
    """The texts of one request so far, findable by their lines."""

    _places: LinePlaces[Earlier] = field(default_factory=LinePlaces)
    _calls: NamedCalls = field(default_factory=NamedCalls)
    _said: SaidLines = field(default_factory=SaidLines)
    _told: set[bytes] = field(default_factory=set)
    _untold: list[Sequence[str | None]] = field(default_factory=list)
    """Texts whose facts have not been extracted yet."""
    _last: tuple[str, _Lines] | None = None
    """A file's text and its lines: what was just compared is mostly what is noted next."""

    def note(self, key: bytes, name: str, same_as: bytes = b"", *, lasts: bool = True) -> None:
        """A result stands in the request, or what a call was given, by its name; its text follows if it can
        be referred to. `same_as`: key of what it is a duplicate of; `lasts`: it stays as it is once something
        refers to it."""
        self._calls.note(key, name, same_as, lasts=lasts)

    def note_text(
        self,
        key: bytes,
        name: str,
        text: str,
        original: str | None = None,
        *,
        is_numbered: bool = False,
        is_given: bool = False,
        is_lossy: bool = False,
        first: int = 0,
    ) -> None:
        """Add a text of what was noted last, as it was forwarded. `original`: the output that the text was
        made of, if that has other lines; then only its lines can be referred to. `is_lossy`: not all of it is
        there. `is_numbered`: numbers before its lines are a file's reader's; `first`: that of its first
        line, where there are none and the call tells. `is_given`: it is an argument of a call."""
        numbers, lines, counted = self._read(text, is_numbered, first)
        shown: Sequence[str | None] = lines
        if original is not None:
            _, output, _ = _read(original, is_numbered)
            shown = earlier_lines.standing(lines, output)
            numbers = earlier_lines.numbers(shown, output) if counted else numbers
        self._places.note(Earlier(key, is_given, numbers, counted, shown), shown)
        self._said.note(key, shown)
        if not is_given:
            self._untold.append(shown if is_lossy else lines)
        if not counted:
            self._calls.note_lines(name, min(filter(None, numbers)), max(numbers))

    def told(self) -> Told:
        """The facts that the texts so far show."""
        for lines in self._untold:
            self._told.update(facts.facts_of(encode("\n".join(filter(None, lines)))))
        self._untold = []
        return Told(self._told, self._said.is_known)

    def named(self, key: bytes) -> Name | None:
        """The name that references use for the text under this key; None if it can't be named."""
        return self._calls.name(key)

    def with_references(
        self,
        text: str,
        call: Call = _NO_CALL,
        name: str = "",
        original: str | None = None,
        *,
        lossy: bool = False,
    ) -> Referring | None:
        """The text with its repeated parts as references; None if there are none worth it. `call`: what
        printed it; `name`: how references name the call; `original`: as of `note_text`: all other lines stay;
        `lossy`: lines that were said here and there may be left out."""
        # In a tenth of the time it is known of most texts.
        if (": same as " in text or " said before" in text) and _MARKER.search(text):
            return None
        is_file = call.is_quoted
        is_numbered = is_file and line_numbers.count_lines(text, call, original)
        numbers, lines, counted = self._read(text, is_numbered)
        output: Sequence[str | None] = lines
        if original is not None:
            output = earlier_lines.standing(lines, _read(original, is_numbered)[1])
        # The legend of the numbers is never said by reference: the lines that stay need it.
        output = [None if line == line_numbers.LEGEND else line for line in output]
        file = ShownFile(text, lines, () if counted else numbers) if is_file else None
        matcher = _Matcher(self._places, lines, output, call, file)
        named = [(part, self._name(part)) for part in matcher.parts()]
        parts = [(part, meant) for part, meant in named if meant is not None]
        said: list[Said] = []
        if lossy:
            known = ["\x00" if line is None else line for line in output]
            said = list(self._said_of(known, _between(parts, len(lines)), matcher, name))
        if (" more time" in text) and (first := folding.counted_lines(lines)):
            # A mark is shown with the lines that it counts.
            ends = [(part, meant, _end(part.start, part.length, first, lines)) for part, meant in parts]
            parts = [(replace(part, length=end - part.start), meant) for part, meant, end in ends if end]
            said = [replace(one, end=end) for one in said if (end := _end(one.start, len(one), first, lines))]
        if not parts and not said:
            return None
        written = _Writer(text, numbers if is_file else ()).write(
            sorted(
                [(part.start, part.end, _marker(part, meant.name)) for part, meant in parts]
                + [(one.start, one.end, one.marker) for one in said]
            )
        )
        keys = [meant.keys for _, meant in parts] + [one.keys for one in said]
        return Referring(written, frozenset().union(*keys), bool(said))

    def _said_of(
        self, lines: Sequence[str], gaps: Iterable[tuple[int, int]], matcher: _Matcher, name: str
    ) -> Iterator[Said]:
        """The lines in the gaps that were said before."""
        known = said_lines.known_from(matcher.call)
        last = self._calls.last(name) if known is From.LAST else None
        if known is From.ANYWHERE or last is not None:
            yield from self._said.stretches(lines, gaps, matcher.staying, last)

    def _read(self, text: str, is_numbered: bool, first: int = 0) -> _Lines:
        last, self._last = self._last, None
        if is_numbered and last is not None and last[0] == text and not (first and last[1][2]):
            return last[1]
        read = _read(text, is_numbered, first)
        if is_numbered and not first:
            self._last = text, read
        return read

    def _name(self, part: _Part) -> Name | None:
        """The name of the text that contains a part; None if it can't be named."""
        first, last = part.numbers
        if part.earlier.counted or not (first and last):
            return self._calls.name_of_part(part.earlier.key)
        return self._calls.name_of_lines(part.earlier.key, first, last)


def _read(text: str, is_numbered: bool, first: int = 0) -> tuple[Sequence[int], list[str], bool]:
    """The numbers of the lines, as far as they show them or the first one is known, the lines without them,
    and whether the numbers only count the lines."""
    if is_numbered:
        numbers, lines = line_numbers.split(text)
        if any(numbers):
            return numbers, lines, False
    else:
        lines = text.split("\n")
    if not first:
        return range(1, len(lines) + 1), lines, True
    head, _, tail = split_envelope(text)
    before, behind = head.count("\n"), tail.count("\n")
    shown = range(first, first + len(lines) - before - behind)
    return [*[0] * before, *shown, *[0] * behind], lines, not shown


def _between(parts: Sequence[tuple[_Part, Name]], count: int) -> Iterator[tuple[int, int]]:
    """(start, end) of the lines between the parts, of `count` lines."""
    position = 0
    for part, _ in parts:
        yield position, part.start
        position = part.start + part.length
    yield position, count


def _end(start: int, length: int, first: Mapping[int, int], lines: Sequence[str]) -> int:
    """Return the position after hidden lines once none of them is counted by a mark that is shown; 0 if too
    little is left to be hidden. `first`: by mark, the first line that it counts."""
    end = start + length
    while (least := min([first[at] for at in range(end, end + _NEAR) if at in first], default=end)) < end:
        end = least
    hidden = "\n".join(lines[start : max(start, end)])
    return end if end == start + length or token_estimate.estimate(hidden) >= _LEAST else 0


@dataclass(slots=True)
class _Matcher:
    """One text, and where its lines may stand already."""

    earlier: LinePlaces[Earlier]
    lines: list[str]
    output: Sequence[str | None]
    """The lines; None for those that are no lines of the output."""
    call: Call
    """The call that printed the text."""
    file: ShownFile | None
    """The file that the text is of; None if it is of none."""
    _staying: StayingLines | None = None

    def parts(self) -> Iterator[_Part]:
        """The repeated parts that become references, without the lines around them that stay, in order."""
        covered = 0
        earlier = self.earlier.first
        for position in [n for n, line in enumerate(self.output) if line in earlier]:
            if position >= covered:
                part = self._longest(position, covered)
                yield from [part] if self._is_whole(part) else self._within(part)
                covered = part.end

    def _longest(self, position: int, covered: int) -> _Part:
        """The longest repeated part around a line that reaches back no further than `covered`."""
        best: _Part | None = None
        for earlier, place in self.earlier.latest_first(self.output[position]):
            back = self._common(earlier, place, position, -1, position - covered)
            ahead = self._common(earlier, place, position, 1, len(self.lines) - position - 1) + 1
            if best is None or back + ahead > best.length:
                best = _Part(position - back, back + ahead, earlier, place - back)
        assert best is not None
        return best

    def _common(self, earlier: Earlier, place: int, position: int, step: int, most: int) -> int:
        """The number of equal lines before or after the place and the position."""
        count = 0
        while count < most:
            place, position = place + step, position + step
            line = self.output[position]
            if line is None or not 0 <= place < len(earlier.lines) or earlier.lines[place] != line:
                break
            count += 1
        return count

    def staying(self) -> StayingLines:
        """The lines that stay."""
        if self._staying is None:
            self._staying = StayingLines.of(self.lines, self.call)
        return self._staying

    def _is_whole(self, part: _Part) -> bool:
        """True if nothing stays of a text that stands in an earlier one as a whole."""
        if self.file is not None or part.length < len(self.lines) or self.staying().stated:
            return False
        return token_estimate.estimate("\n".join(self.lines)) >= _LEAST

    def _within(self, part: _Part) -> Iterator[_Part]:
        """The pieces of a repeated part that become references, in order.

        The lines at its borders stay, those of a file that was read by wide margins towards what is new.
        """
        start, end = part.start + 1, part.end - 1
        if self.file is not None and self.call.category == "read":
            start, end = self.file.within(part.start, part.end)
        staying = self.staying()
        for first, behind in staying.stretches(start, end, located=True):
            for begin, stop in self._hidden(staying, first, behind):
                yield _Part(begin, stop - begin, part.earlier, part.place + begin - part.start)

    def _hidden(self, staying: StayingLines, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(start, end) of what is worth a reference between two places."""
        while start < end and not is_telling(self.lines[start - 1]):
            start += 1
        while end > start and not is_telling(self.lines[end]):
            end -= 1
        hidden = self.lines[start : max(start, end)]
        if sum(map(len, hidden)) < _LEAST or token_estimate.estimate("\n".join(hidden)) < _LEAST:
            return
        heading = staying.heading(start, end)
        if heading is None:
            yield start, end
            return
        yield from self._hidden(staying, start, heading)
        yield from self._hidden(staying, heading + 1, end)


@dataclass(frozen=True, slots=True)
class _Writer:
    """A text that gets references."""

    text: str
    numbers: Sequence[int]
    """Numbers of the file's lines; empty if they have none."""

    def write(self, parts: Sequence[tuple[int, int, str]]) -> str:
        """The text with the lines of each part replaced: (start, position after it, what stands for it)."""
        lines = self.text.split("\n")
        written: list[str] = []
        position = 0
        for start, end, marker in parts:
            if start > position:
                # The lines before a reference count up to it.
                lines[start - 1] = self._numbered(lines[start - 1], start - 1)
            written += lines[position:start]
            written.append(marker)
            position = end
            if position < len(lines):
                lines[position] = self._numbered(lines[position], position)
        written += lines[position:]
        return "\n".join(written)

    def _numbered(self, line: str, position: int) -> str:
        """A line of a thinned text with its number."""
        if not self.numbers or line_numbers.LEGEND not in self.text[: line_numbers.HEADING]:
            return line
        number = self.numbers[position]
        separator = line_numbers.separator_of(self.text.split("\n", 60)[:60])
        return (
            line
            if not number or line_numbers.parse(line, separator)
            else line_numbers.prefix(number, separator) + line
        )


def _marker(part: _Part, name: str) -> str:
    first, last = part.numbers
    what = f"{part.length} {'line' if part.length == 1 else 'lines'}: same as in {name}"
    counted = part.earlier.counted and not part.earlier.is_given
    if not (first and last) or (counted and part.length == len(part.earlier.lines) and "[" not in name):
        return f"[{what}]"
    where = f"line {first}" if part.length == 1 else f"lines {first} to {last}"
    return f"[{what}, {where}{' of its output' if counted else ''}]"


class LineIndexes:
    """Libraries by who is asking and the sequence of texts that they have noted. Each is lent to one
    request at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._libraries: OrderedDict[bytes, tuple[LineIndex, int]] = OrderedDict()

    def take(self, beginnings: Sequence[bytes]) -> tuple[LineIndex, int]:
        """The library that has noted most of the first of some texts, and how many; it is then gone from here
        until it is given back. `beginnings`: of these texts, see `Beginnings`."""
        with self._lock:
            for count in range(len(beginnings), 0, -1):
                index = self._libraries.pop(beginnings[count - 1], None)
                if index is not None:
                    return index[0], count
        return LineIndex(), 0

    def give(self, beginning: bytes, line_index: LineIndex, characters: int) -> None:
        """Keep a library that has noted exactly the texts of a beginning, `characters` in all."""
        if characters > _CHARACTERS:
            return
        with self._lock:
            self._libraries[beginning] = (line_index, characters)
            total = sum(size for _, size in self._libraries.values())
            while len(self._libraries) > _CONVERSATIONS or total > _CHARACTERS:
                _, (_, size) = self._libraries.popitem(last=False)
                total -= size


class Beginnings:
    """A hash of each beginning of a sequence of texts, and its characters in all."""

    def __init__(self, scope: bytes) -> None:
        """`scope`: whose texts they are."""
        self._state = hashlib.blake2b(key=scope[:64], digest_size=16)
        self.hashes: list[bytes] = []
        self.characters: list[int] = []

    def take_in(self, mark: bytes, characters: int) -> None:
        """The next text. `mark`: a hash of what it says."""
        self._state.update(len(mark).to_bytes(4, "big") + mark)
        self.hashes.append(self._state.digest())
        self.characters.append(characters + (self.characters[-1] if self.characters else 0))

    def copy(self) -> Beginnings:
        """An independent copy; later additions don't touch the original."""
        copied = Beginnings(b"")
        copied._state = self._state.copy()
        copied.hashes, copied.characters = self.hashes.copy(), self.characters.copy()
        return copied
