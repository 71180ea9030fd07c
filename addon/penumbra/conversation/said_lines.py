"""Lines of an output that the request has shown before, here and there: one line says how many there were.

    $ ./watch
    [14 lines said before, but for times]
    step 9 of 12: uploading

What a screen showed a minute ago, or a run that is made again, is mostly known by then; what is new stays.
Only for what programs tell of a run: in states, lists, hits and differences it matters which lines are there
again. For an unknown command, only its last result counts.

Some lines stay in each result (`StayingLines`): failures with the lines around them and the headings above
them, locations, endings, acknowledged changes. A heading stays wherever a line below it stays: hits are never
read under another file's name. In a file, the units around a change stay whole (`EditUnits`), because an edit
mostly quotes the unit that it changes from its first line or to its last one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import repeat

import re2

from penumbra.compress import token_estimate
from penumbra.compress.calls.classify import Call, printing_parts
from penumbra.compress.calls.command_match import family_of
from penumbra.compress.calls.envelope import split_envelope
from penumbra.compress.calls.family_rules import prints
from penumbra.compress.critical_lines import critical_lines
from penumbra.compress.failure_lines import failing
from penumbra.compress.size import counted, encode
from penumbra.compress.stages import search_hits
from penumbra.short_texts import forgettable

_CONTAINER = re.compile(
    r"(?:[\w@(<>\[\]\"',.:-]+[ \t]+){0,6}?(?:class|interface|impl|trait|struct|enum|object"
    r"|record|extension|protocol|namespace|module|mod)\b|(?:describe|suite|context)\b"
)
"""A line at the left border within which the units are indented by one level."""
_LONGEST_CONTAINER = 200
"""Characters of such a line that are looked at."""
_LEAST_MARGIN = 6
_MOST_MARGIN = 30
"""Lines that stand on each side of a change, at least and at most."""


@dataclass(frozen=True, slots=True)
class EditUnits:
    """Units of one file, or of a part of it."""

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
                is_container, level = _CONTAINER.match(line[:_LONGEST_CONTAINER]) is not None, 0
            elif is_container and not level:
                level = indentation
            if is_below_blank and indentation <= level:
                found.append(position)
            is_below_blank = False
        return cls(found)

    def behind(self, change: int) -> int:
        """Position after what stays below a change: `change` is that of the first line below it."""
        at = bisect_left(self.beginnings, change + _LEAST_MARGIN)
        most = change + _MOST_MARGIN
        return min(self.beginnings[at], most) if at < len(self.beginnings) else most

    def before(self, change: int) -> int:
        """Position of the first line that stays above a change, which begins at `change`."""
        at = bisect_right(self.beginnings, change - _LEAST_MARGIN)
        most = change - _MOST_MARGIN
        return max(self.beginnings[at - 1], most) if at else most


@dataclass(slots=True)
class ShownFile:
    """A file, or a part of it, as its reader shows it."""

    text: str
    lines: Sequence[str]
    """Without their numbers."""
    numbers: Sequence[int]
    """Number of each line, 0 for lines that are not the file's; empty where none are shown."""
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


_AROUND = 3
"""Lines of a paragraph on both sides of a failure that belong to it."""
_LEVELS = 3
"""Lines of less indentation above a failure that belong to it."""
_ABOVE = 40
"""Lines in which they are looked for."""
_LONGEST_HEADING = 400
"""Characters of a line that may be a heading or an acknowledgement."""
_PATH = r"(?:[A-Za-z]:)?[^\s:]*[./\\][^\s:]*"
_HEADINGS = tuple(
    re.compile(form)
    for form in (
        r"(?:[=#_*~-]{2,}>?|==>) +\S.*",
        r"(?:File|Path|Source|Dir|Directory|Folder|Document)(?: name| path)?: *\S.*",
        r"<(?:file|document|path|source)\b[^>]*>.*",
        r"diff --git .*|Index: .*|--- \S.*|\+\+\+ \S.*",
        r"@@ -[0-9].*",
    )
)
"""Forms of headings: rules with a title, labels, tags, files of a diff, hunks."""
_FIRST = frozenset("=#_*~-FPSD<dI+@")
"""First characters of headings."""
_OPENING = re.compile(rf"\S.*:|{_PATH}")
"""A title that ends in a colon, or a path: headings of what is listed below them in another form."""
_BELOW = re.compile(r"[ \t]+\S|[ \t]*L?[0-9]+[:\t|→-]|[ \t]*(?:Line )[0-9]+:")
"""Beginnings of lines that are listed below such a heading."""
_DONE = re.compile(
    r"(?i)[^\n]{0,200}\b(?:has|have|was|were) (?:been )?(?:successfully )?"
    r"(?:updated|edited|modified|changed|created|written|overwritten|deleted|removed|renamed|moved|applied|saved"
    r"|replaced|inserted|added|reverted)\b"
    r"|\W*(?:success\b|successfully |done\b|(?:updated|edited|modified|created|wrote|deleted|removed|renamed"
    r"|moved|applied|saved|replaced|inserted|added|reverted|committed|pushed|installed) )"
    r"|(?-i:\W*(?:[A-Z][a-z]+ed|Found|Built|Wrote) (?:[0-9][0-9,]*|no|all) [a-z])"
    r"|\W*[0-9][0-9,]* [a-z]+ (?:[a-z]+ ){0,2}[a-z]+ed\b"
)
"""A line that acknowledges a change, or sums up what was done: `Fixed 3 files`, `2 files left unchanged`."""
_DONE_WORD = re2.compile(
    "(?i)updated|edited|modified|changed|created|written|wrote|deleted|removed|renamed|moved|applied|saved"
    "|replaced|inserted|added|reverted|success|done|committed|pushed|installed"
    "|(?:ed|found|built|wrote) (?:[0-9]|no |all )|[0-9] [a-z]+ (?:[a-z]+ ){0,2}[a-z]+ed"
)
"""Words of which every acknowledging line has one: most texts have none."""
_QUOTING = frozenset({"glob", "list", "web"})
"""Categories of what quotes texts, beside reads and searches."""
_QUOTING_FAMILIES = frozenset(
    {"paths", "listing", "tree", "git-diff", "git-log", "git-stat", "git-lines", "git-blame"}
)


def quotes(call: Call) -> bool:
    """True if a result quotes texts, and nothing else: an error that stands there has not happened."""
    if call.shows_files or search_hits.is_search(call):
        return True
    return call.category in _QUOTING or call.family in _QUOTING_FAMILIES


@dataclass(frozen=True, slots=True)
class StayingLines:
    """Lines of one text that stay, and its headings."""

    positions: Sequence[int] = ()
    """Lines that stay, in order."""
    headings: Sequence[Sequence[int]] = ()
    """Headings of each form, in order."""
    filled: Sequence[int] = ()
    """Lines that are not blank, in order."""
    stated: Sequence[int] = ()
    """Lines that stay even where a reference says in which place the same lines stand: those that state a
    failure or a change, and the ones next to a failure, which say where it is."""

    @classmethod
    def of(cls, lines: Sequence[str], call: Call) -> StayingLines:
        """`lines`: without line numbers of a file."""
        if call.shows_files and call.path:
            return cls()
        headings = _headings(lines)
        stated = set() if call.shows_files else set(_acknowledging(lines))
        staying: set[int] = set()
        if not quotes(call):
            critical = list(critical_lines(lines))
            failures = failing(lines, critical)
            for position in failures:
                staying.update(_belonging(lines, headings, position))
            beside = {position + step for position in failures for step in (-1, 1)}
            stated.update(failures, beside & staying)
            staying.update(critical)
        filled = [n for n, line in enumerate(lines) if line.strip()] if headings else []
        return cls(sorted(staying | stated), headings, filled, sorted(stated))

    def stretches(self, start: int, end: int, *, located: bool = False) -> Iterator[tuple[int, int]]:
        """(start, end) of what lies between the lines that stay, in order. `located`: a reference is to say
        in which place the lines stand."""
        positions = self.stated if located else self.positions
        for position in positions[bisect_left(positions, start) : bisect_left(positions, end)]:
            if start < position:
                yield start, position
            start = position + 1
        if start < end:
            yield start, end

    def heading(self, start: int, end: int) -> int | None:
        """The last heading from `start` to `end` of which not all lines lie there; None if there is none."""
        needed = (self._heading(form, start, end) for form in self.headings)
        return max((position for position in needed if position is not None), default=None)

    def _heading(self, form: Sequence[int], start: int, end: int) -> int | None:
        behind = bisect_left(form, end)
        if not behind or form[behind - 1] < start:
            return None
        rest = bisect_left(self.filled, end)
        if rest == len(self.filled) or (behind < len(form) and form[behind] <= self.filled[rest]):
            return None
        return form[behind - 1]


def _acknowledging(lines: Sequence[str]) -> Iterator[int]:
    """Positions of the lines that acknowledge a change."""
    data = encode("\n".join([line[:_LONGEST_HEADING] for line in lines]))
    position = start = 0
    for word in _DONE_WORD.finditer(data):
        at = word.start()
        if at < start:
            continue
        position += data.count(b"\n", start, at)
        if _DONE.match(lines[position][:_LONGEST_HEADING]):
            yield position
        end = data.find(b"\n", at)
        if end < 0:
            return
        position, start = position + 1, end + 1


def _headings(lines: Sequence[str]) -> list[list[int]]:
    """Positions of the headings of each form that occurs."""
    places: list[list[int]] = [[] for _ in range(len(_HEADINGS) + 1)]
    for position, line in enumerate(lines):
        if not line or len(line) > _LONGEST_HEADING or line[0] in " \t":
            continue
        form = None
        if line[0] in _FIRST:
            form = next((n for n, heading in enumerate(_HEADINGS) if heading.fullmatch(line)), None)
        if form is not None:
            places[form].append(position)
        elif position + 1 < len(lines) and _BELOW.match(lines[position + 1]) and _OPENING.fullmatch(line):
            places[-1].append(position)
    return [form for form in places if form]


def _belonging(lines: Sequence[str], headings: Sequence[Sequence[int]], position: int) -> Iterator[int]:
    """The lines of a failure's paragraph next to it, and the headings above it."""
    for step in (-1, 1):
        for distance in range(1, _AROUND + 1):
            beside = position + step * distance
            if not 0 <= beside < len(lines) or not lines[beside].strip():
                break
            yield beside
    for form in headings:
        above = bisect_left(form, position)
        if above:
            yield form[above - 1]
    yield from _enclosing(lines, position)


def _enclosing(lines: Sequence[str], position: int) -> Iterator[int]:
    """The lines above a line that enclose it by their indentation."""
    indentation, levels = _indentation(lines[position]), 0
    for above in range(position - 1, max(-1, position - _ABOVE - 1), -1):
        if not indentation or levels == _LEVELS:
            return
        if lines[above].strip() and _indentation(lines[above]) < indentation:
            indentation = _indentation(lines[above])
            levels += 1
            yield above


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


MARKER = re.compile(r"\[[0-9]+ lines? said before(?:, but for times)?\]")
_TELLING = 12
"""Characters that a line must have (blanks aside) to be known again."""
_LEAST = 40
"""Estimated tokens that a marker must stand for."""
_LONGEST = 1_000
"""Characters of a line in which times are looked for."""
_TIME = re.compile(
    r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    r"|\b[0-9]+(?:\.[0-9]+)? ?(?:ms|s|m|h|us|µs|ns)\b(?: ?[0-9]+(?:\.[0-9]+)? ?(?:ms|s|m)\b)?"
)
"""When something was, and how long it took."""
_SIGN = re.compile("[0-9](?::[0-9]| ?(?:[mnuµ]?s|[mh])\\b)")
"""A part that every such line has and few others: found in a tenth of the time."""
_SOME_SIGN = re2.compile(_SIGN.pattern.encode())
"""A wider form of `_SIGN` for whole texts: most have none."""
_MEASURED = re.compile(
    r"(?i)\b(?:median|mean|avg|average|min|max|best|worst|p[0-9]{2}|std(?:dev|ev)?|bench\w*|latency|throughput|real"
    r"|user|sys|elapsed)\b|/(?:op|s|sec|iter)\b"
)
"""Signs that a time is the very output that was asked for."""
_NO_STATEMENT = re.compile(
    r"[+-](?![+-])|~[A-Z]+ |\[(?:[0-9]+ (?:lines?|bytes|more)\b"
    r"|table [0-9]|patterns;|end of |not every |failures in |what is left out )"
)
"""Beginnings of lines without a meaning of their own: those of a difference, and those that we have made."""
_LEFT_TO_DO = frozenset({"tsc", "eslint", "biome", "prettier", "rustc", "cargo-json", "diagnostics"})
"""Families of what tells what is left to do: there it matters which lines are there again."""


class From(Enum):
    """Where lines must have been shown to be left out of a result."""

    NOWHERE = auto()
    LAST = auto()
    """In what the same call told the last time."""
    ANYWHERE = auto()


def known_from(call: Call) -> From:
    """The results that must have shown the lines of a result: any if programs report a run, the last such
    result if the call is unknown."""
    if not call.shell or call.category != "bash" or quotes(call):
        return From.NOWHERE
    parts = printing_parts(call.parts)
    families = {call.family} if call.family or not parts else {family_of(part.argv) for part in parts}
    if any(family in _LEFT_TO_DO or prints(family) not in ("", "run") for family in families):
        return From.NOWHERE
    return From.LAST if "" in families else From.ANYWHERE


@dataclass(frozen=True, slots=True)
class Said:
    """Lines that were shown before."""

    start: int
    end: int
    """Position after the last one."""
    but_for_times: bool
    keys: frozenset[bytes]
    """Keys of the texts that show the lines."""

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def marker(self) -> str:
        """The marker that replaces the lines."""
        times = ", but for times" if self.but_for_times else ""
        return f"[{counted(len(self), 'line')} said before{times}]"


@dataclass(slots=True)
class SaidLines:
    """The lines that the texts of a request have shown so far."""

    _keys: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """The key of the last text that shows a line, and the line in that text, by line without its times."""
    _waiting: list[tuple[bytes, Sequence[str | None]]] = field(default_factory=list)
    """Texts whose lines are not there yet: many requests never ask for them."""

    def note(self, key: bytes, lines: Sequence[str | None]) -> None:
        """A text shows these lines, which are not to be changed; None for what it does not show."""
        self._waiting.append((key, lines))

    def is_known(self, line: str) -> bool:
        """True if a line, without the blanks around it and but for its times, was shown."""
        self._read()
        return len(line) >= _TELLING and _timeless(line) in self._keys

    def _read(self) -> None:
        if not self._waiting:
            return
        for key, lines in self._waiting:
            shown = [bare for line in lines if line is not None and (bare := line.strip())]
            has_times = _SOME_SIGN.search(encode("\n".join(shown))) is not None
            timeless = map(_timeless, shown) if has_times else shown
            self._keys.update(zip(timeless, zip(repeat(key), shown, strict=False), strict=False))
        self._waiting.clear()

    def stretches(
        self,
        lines: Sequence[str],
        gaps: Iterable[tuple[int, int]],
        staying_of: Callable[[], StayingLines],
        key: bytes | None = None,
    ) -> Iterator[Said]:
        """Stretches that were shown before, in order. `gaps`: (start, end) of what may become a marker;
        `staying_of` tells which of its lines stay; `key`: of the only text in which they count as shown."""
        self._read()
        for start, end in gaps:
            for first, behind in self._runs(lines, start, end, key):
                staying = staying_of()
                for one, next_one in staying.stretches(first, behind):
                    yield from self._said(lines, one, next_one, staying)

    def _runs(
        self, lines: Sequence[str], start: int, end: int, key: bytes | None
    ) -> Iterator[tuple[int, int]]:
        """(first, behind) of lines that are all known, from a telling one to a telling one."""
        first = behind = start
        for position in range(start, end + 1):
            bare = lines[position].strip() if position < end else ""
            is_known = position < end and (not bare or self._is_shown(bare, key))
            if is_known and len(bare) >= _TELLING:
                behind = position + 1
            elif not is_known:
                if behind > first + 1:
                    yield first, behind
                first = behind = position + 1
            elif behind <= first:
                first = behind = position + 1

    def _is_shown(self, bare: str, key: bytes | None) -> bool:
        """True if a line was shown. Short ones with a digit are values: 12 is no other 12."""
        if (len(bare) < _TELLING and any(map(str.isdigit, bare))) or _NO_STATEMENT.match(bare):
            return False
        found = self._keys.get(_timeless(bare))
        # In a result of an unknown kind, the times may be the point.
        return found is not None and (key is None or found == (key, bare))

    def _said(self, lines: Sequence[str], start: int, end: int, staying: StayingLines) -> Iterator[Said]:
        """A known stretch without the headings of lines that stay; nothing if it is too short."""
        if end - start < 2:
            return
        hidden = lines[start:end]
        if token_estimate.estimate("\n".join(hidden)) < _LEAST:
            return
        heading = staying.heading(start, end)
        if heading is not None:
            yield from self._said(lines, start, heading, staying)
            yield from self._said(lines, heading + 1, end, staying)
            return
        known = [(bare, self._keys.get(_timeless(bare))) for bare in map(str.strip, hidden)]
        found = [(bare, *entry) for bare, entry in known if entry is not None]
        but_for_times = any(bare != shown for bare, _, shown in found)
        yield Said(start, end, but_for_times, frozenset(key for _, key, _ in found))


def _timeless(line: str) -> str:
    """A line without its times, where they are not what it tells."""
    return _remembered(line) if len(line) <= _LONGEST else line


@forgettable(4_096)
def _remembered(line: str) -> str:
    """Cached part of `_timeless`: each line is looked up when it is new and again when it was shown."""
    if _SIGN.search(line) is None or _MEASURED.search(line) is not None:
        return line
    timeless = _TIME.sub("·", line)
    return timeless if len(timeless) >= _TELLING else line
