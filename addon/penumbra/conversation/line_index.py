"""This module has the line index of a conversation. The index finds a line in the conversation's earlier
texts: forwarded results and arguments of calls.

Some lines depend on a legend or heading: values of a pattern, rows of a table, hits below the name of their
file. Such a line would mean something else below another heading, so it does not count as a line of the
output. Lines that Penumbra has written don't count either.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

from cachetools import LRUCache
from msgspec import Struct

from penumbra.compress import facts
from penumbra.compress.result import ShownBefore
from penumbra.compress.stages import line_numbers
from penumbra.compress.text import Text
from penumbra.conversation.call_names import NamedCalls
from penumbra.linear import Linear, lines_with, utf8
from penumbra.short_texts import forgettable

CONVERSATIONS = 32
"""The greatest number of indexes."""
CHARACTERS = 10_000_000
"""The greatest number of characters of all indexed texts. Each index counts as at least its share."""


class TextLines(Struct, frozen=True, dict=True):
    """A `TextLines` has the lines of one text."""

    lines: Sequence[str]
    """The lines without line numbers."""
    output: Sequence[str | None]
    """The lines of the output; None for each line that is not from the output."""
    numbers: Sequence[int]
    """The number of each line in its file; 0 for a line without a number; empty if no line has a number."""
    original: Sequence[str]
    """The lines of the output from which the text was made, without the blanks at their ends."""
    text: Text

    @cached_property
    def bare(self) -> list[str]:
        """The lines of the output without the blanks around them; empty for each other line."""
        return [line.strip() if line else "" for line in self.output]

    @cached_property
    def printed(self) -> range:
        """The positions of the output's lines. Other lines, such as an exit code, are of the envelope."""
        head, _, tail = self.text.envelope
        return range(head.count("\n"), len(self.lines) - tail.count("\n"))

    def numbered_from(self, first: int) -> list[int]:
        """Return the numbers of the lines: 0 for each line of the envelope; the others count from `first`."""
        printed = self.printed
        after = len(self.lines) - printed.stop
        return [*[0] * printed.start, *range(first, first + len(printed)), *[0] * after]


def read(text: str, original: str | None, *, is_numbered: bool) -> TextLines:
    """Return the lines of a text. `original` is the output from which the text was made, if the lines of both
    differ. `is_numbered` is true if the numbers before the lines are line numbers of a file."""
    text = Text.of(text)
    numbers, lines = _numbered(text, is_numbered=is_numbered)
    output: Sequence[str | None] = lines
    originals: Sequence[str] = ()
    if original is not None:
        originals = list(map(str.rstrip, _numbered(Text.of(original), is_numbered=is_numbered)[1]))
        there = set(originals)
        output = [line if line.rstrip() in there else None for line in lines]
    if line_numbers.LEGEND in text[: line_numbers.HEADING]:
        # The other lines need the legend of the numbers, so references must not hide it.
        output = [None if line == line_numbers.LEGEND else line for line in output]
    return TextLines(lines, output, numbers, originals, text)


def _numbered(text: Text, *, is_numbered: bool) -> tuple[Sequence[int], list[str]]:
    if is_numbered:
        numbers, lines = line_numbers.split(text)
        if any(numbers):
            return numbers, lines
    return (), text.lines


def places_in(lines: Sequence[str | None], original: Sequence[str]) -> list[int]:
    """Return, for each line, the number of an equal line in the original, counted from 1. Each number is
    higher than the numbers before; 0 if no equal line is left. The original's lines don't end with blanks."""
    last = dict(zip(original, range(len(original)), strict=True))
    found: list[int] = []
    following = 0
    for line in lines:
        bare = line.rstrip() if line is not None else None
        is_left = bare is not None and last.get(bare, -1) >= following
        following = original.index(bare, following) + 1 if is_left else following
        found.append(following if is_left else 0)
    return found


LEAST_CHARACTERS = 12
"""A line with fewer characters, apart from the blanks around them, is not looked up by itself."""


def is_telling(line: str) -> bool:
    """Return whether a line is long enough to be looked up by itself."""
    return len(line) >= LEAST_CHARACTERS and len(line.strip()) >= LEAST_CHARACTERS


_LONGEST_TIMED = 1_000
"""Times are not looked for in a line with more characters."""
_TIME = re.compile(
    r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    r"|\b[0-9]+(?:\.[0-9]+)? ?(?:ms|s|m|h|us|µs|ns)\b(?: ?[0-9]+(?:\.[0-9]+)? ?(?:ms|s|m)\b)?"
)
"""A time of day (perhaps with a date), or a duration."""
_TIME_SIGN = re.compile("[0-9](?::[0-9]| ?(?:[mnuµ]?s|[mh])\\b)")
"""Each time contains a match of this pattern, which is found faster than a time."""
_SOME_TIME_SIGN = Linear(_TIME_SIGN.pattern.encode())
"""`_TIME_SIGN` for all lines of a text at once. The pattern may also find other lines."""
_MEASURED = re.compile(
    r"(?i)\b(?:median|mean|avg|average|min|max|best|worst|p[0-9]{2}|std(?:dev|ev)?|bench\w*|latency|throughput|real"
    r"|user|sys|elapsed)\b|/(?:op|s|sec|iter)\b"
)
"""A line with such a word, as from a benchmark, keeps its times, because times are its purpose."""


def _timeless(line: str) -> str:
    """Return the line without its times. A line that is about times stays."""
    return _without_times(line) if len(line) <= _LONGEST_TIMED else line


@forgettable(4_096)
def _without_times(line: str) -> str:
    if _TIME_SIGN.search(line) is None or _MEASURED.search(line) is not None:
        return line
    timeless = _TIME.sub("·", line)
    return timeless if len(timeless) >= LEAST_CHARACTERS else line


class EarlierText(Struct, frozen=True, dict=True):
    """An `EarlierText` is an earlier text in the form that the request contains."""

    key: bytes
    """The key of the text in the request."""
    is_argument: bool
    output: Sequence[str | None]
    """The lines without their numbers; None for a line that is not from the output."""
    numbers: Sequence[int]
    """The number of each line in its file or in the output; 0 for a line without a number."""
    is_counted: bool
    """True if the numbers are positions in the output and not in a file."""
    before: Mapping[str, int]
    """For each line that earlier texts have, without blanks around it, the index of the latest such text."""

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The positions of each line without blanks around it, the last first."""
        places: dict[str, list[int]] = defaultdict(list)
        for position in range(len(self.output) - 1, -1, -1):
            places[(self.output[position] or "").strip()].append(position)
        return places


_MOST_PLACES = 24
"""At most this number of places of a line is returned, beginning with the latest."""
_MOST_STEPS = 96
"""At most this number of places of a line is examined. At some, the blanks around the line differ."""


@dataclass(slots=True)
class LineIndex:
    """A `LineIndex` finds the lines of the texts of one request so far, and names their calls."""

    calls: NamedCalls = field(default_factory=NamedCalls)
    _texts: list[EarlierText] = field(default_factory=list)
    _latest: dict[str, int] = field(default_factory=dict)
    """For each line, without blanks around it, the index of the latest text that has the line."""
    _timed: set[str] = field(default_factory=set)
    """The lines with times, without the times."""
    _facts: set[bytes] = field(default_factory=set)
    _words: set[bytes] = field(default_factory=set)
    """The words of the texts whose facts are in `_facts`."""
    _unread: list[tuple[Sequence[str], Sequence[str | None]]] = field(default_factory=list)
    """For each text that has not been read for times and facts, the lines with times and those with facts."""
    _last: tuple[str, str | None, bool, TextLines] | None = None
    """The text that was read last, with its lines."""

    def read(self, text: str, original: str | None, *, is_numbered: bool) -> TextLines:
        """Return the lines of a text, as the function `read` does."""
        last, self._last = self._last, None
        if last is not None and last[:3] == (text, original, is_numbered):
            return last[3]
        lines = read(text, original, is_numbered=is_numbered)
        self._last = text, original, is_numbered, lines
        return lines

    def note(
        self,
        key: bytes,
        name: str,
        text: str,
        original: str | None = None,
        *,
        is_numbered: bool = False,
        is_argument: bool = False,
        is_lossy: bool = False,
        first: int = 0,
        has_numbers: bool = True,
    ) -> None:
        """Add a text of the last call in `calls`. `original` and `is_numbered` are as in `read`. `is_lossy`
        is true if the text lacks a part of the result. `first` is the number of the first line in its file,
        if the call names it; otherwise 0."""
        read = self.read(text, original, is_numbered=is_numbered)
        lines, output, numbers = read.lines, read.output, read.numbers
        self._unread.append((read.bare, () if is_argument else output if is_lossy else lines))
        if not numbers and first:
            numbers = read.numbered_from(first)
        if is_counted := has_numbers and not any(numbers):
            # Lines of an envelope, such as an exit code, are not lines of the output.
            numbers = range(1, len(lines) + 1) if is_argument else read.numbered_from(1)
            if original is not None:
                numbers = places_in(output, read.original)
        elif not has_numbers:
            numbers = [0] * len(lines)
        else:
            self.calls.note_lines(name, min(filter(None, numbers)), max(numbers))
        latest, found = self._latest, set(read.bare)
        found.discard("")
        before = {line: latest[line] for line in latest.keys() & found}
        latest.update(dict.fromkeys(found, len(self._texts)))
        self._texts.append(EarlierText(key, is_argument, output, numbers, is_counted, before))

    def found(self, bare: Sequence[str]) -> list[int]:
        """Return the positions of lines that are long enough and that an earlier text has. `bare` are the
        lines without the blanks around them."""
        shared = {line for line in self._latest.keys() & set(bare) if len(line) >= LEAST_CHARACTERS}
        return [at for at, line in enumerate(bare) if line in shared] if shared else []

    def places(self, line: str) -> list[tuple[EarlierText, int]]:
        """Return places of a line, the latest first. A place is a text and a position in it."""
        bare, steps = line.strip(), 0
        places: list[tuple[EarlierText, int]] = []
        latest = self._latest.get(bare)
        while latest is not None:
            text = self._texts[latest]
            for position in text.places[bare]:
                if steps == _MOST_STEPS or len(places) == _MOST_PLACES:
                    return places
                steps += 1
                if text.output[position] == line:
                    places.append((text, position))
            latest = text.before.get(bare)
        return places

    def shown_before(self) -> ShownBefore:
        """Return the facts and lines that the texts so far show."""
        for bare, lines in self._unread:
            self._facts |= facts.facts_of(utf8("\n".join(filter(None, lines))), self._words)
            timed = [bare[place] for place in lines_with(_SOME_TIME_SIGN, utf8("\n".join(bare)))]
            self._timed.update([timeless for line in timed if (timeless := _timeless(line)) != line])
        self._unread = []
        return ShownBefore(self._facts, self._is_shown)

    def _is_shown(self, bare: str) -> bool:
        """Return whether an earlier text has the stripped line `bare`. Times in the line may differ."""
        if len(bare) < LEAST_CHARACTERS:
            return False
        return bare in self._latest or (bool(self._timed) and _timeless(bare) in self._timed)


class LineIndexes:
    """A `LineIndexes` keeps the line indexes of active conversations. Two requests never use an index at
    once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._indexes: LRUCache[bytes, tuple[LineIndex, int]] = LRUCache(
            CHARACTERS, lambda kept: max(kept[1], CHARACTERS // CONVERSATIONS)
        )

    def take(self, hashes: Sequence[bytes]) -> tuple[LineIndex, int]:
        """Remove and return the index that has the longest beginning of a request's texts, and the number of
        its texts. Return a new index if there is none. Each hash is about a text and all earlier texts."""
        with self._lock:
            for count in range(len(hashes), 0, -1):
                index = self._indexes.pop(hashes[count - 1], None)
                if index is not None:
                    return index[0], count
        return LineIndex(), 0

    def keep(self, text_hash: bytes, index: LineIndex, characters: int) -> None:
        """Keep an index by the hash of its texts, unless their `characters` alone exceed the limit."""
        if characters <= CHARACTERS:
            with self._lock:
                self._indexes[text_hash] = (index, characters)
