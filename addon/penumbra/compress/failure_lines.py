"""If only a part of a text is shown, this module shows or counts the failure lines of the other part.

The stages that cut a text reserve bytes for lost failure lines. Lost failure lines stand below the text, the
most severe first:

    [failures in what is left out:]
    FAILED tests/test_a.py::test_b - assert 1 == 2
    2026-01-02T03:04:05Z ERROR order 4711 refused [41 more like it]
    [7 more lines of 3 kinds]
    [2 lines that stand above, too]

If not every line fits, one line of each kind is written, with the number of the others. Lines of one kind
differ only in times, numbers and ids. If that still does not fit, lines that differ only in numbers within
names also become one kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from msgspec import Struct, structs

from penumbra.compress import time_budget
from penumbra.compress.critical_lines import (
    Severity,
    critical_lines,
    is_quoted,
    is_stated,
    is_warning,
    next_match,
    severity,
    severity_unless_passing,
)
from penumbra.compress.size import LEAST_CUT, counted, head, size, word_end
from penumbra.linear import utf8

Span = tuple[int, int]
HEADING = "[failures in what is left out:]"
_LONGEST = 600
"""A line of at most this number of bytes is one message. A longer line has a message around each failure."""
_SHOWN = 400
"""A longer line is cut to this number of bytes, at the end of a word, if that saves enough."""
_BEFORE = 160
_AFTER = 240
"""In a line longer than `_LONGEST`, a message has at most these numbers of bytes before and after its
failure."""
_NOTE = 26
"""The number of bytes reserved for a note such as ` [41 more like it]`."""
_ELSEWHERE = ", files vary"
_LINES = 400
"""The greatest number of different lines that are written one by one, if they fit."""
_SEARCHES = 1_000
"""With more kinds of lines, the shown text is not searched for them."""
_KINDS = 20_000
"""The greatest number of kinds. Lines of further kinds count as one kind for each severity."""
_VARYING = re.compile(
    rb"0x[0-9a-fA-F]+|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    rb"|\b(?=[a-f]*[0-9])[0-9a-f]{7,64}\b"
    rb"|(?<!\w)[0-9]+(?:[.:,/TZ+-][0-9]+)*(?:Z|[a-zA-Z\xc2\xb5%]{1,3})?(?!\w)"
)
"""Times, numbers and ids that are separate words."""
_NUMBER = re.compile(rb"[0-9]+")
_WORD_WITH_NUMBER = re.compile(rb"(?<!\w)[^\W0-9]*+[0-9]\w*+")
_CODED = re.compile(rb"\b(?:error|warning)[ \[]{1,2}[A-Z]{1,8}-?[0-9]{1,6}\b")
"""The code of an error, such as `error TS2304`. A code names the problem and not the place."""
_PLACE = re.compile(rb"\s*([^\s:(]{1,200}\.\w{1,8})[:(][0-9]")
"""The name of a file at the beginning of a line, with a line number after it."""
_NUMBERED = re.compile(rb"(?m)^ {2,10}[0-9]{1,4}\) \S[^\n]*")
"""A failed test's name in a numbered list, as some test runners write it."""
_VERDICT = re.compile(rb"(?m)^ *--- FAIL: ")
_REASON = re.compile(rb" {2,20}\S{1,200}\.go:[0-9]{1,8}: \S")
"""The message of a failed Go test, which Go prints above the line with `--- FAIL:`."""
_REASONS = 3
_DIGITS = b"0123456789"
_KEYS = {how: how.to_bytes() for how in Severity}


class LineKind(Struct):
    """A group of lines that differ only in numbers, times and ids."""

    severity: Severity
    line: bytes
    """The first line of the kind."""
    likeness: bytes
    """The common text of the lines."""
    count: int = 1
    start: int = 0
    """The offset of the first line in the text."""
    last: bytes = b""
    """The last other line of the kind; empty if there is none."""
    above: bytes = b""
    """The heading above the first line; empty if there is none."""
    last_above: bytes = b""
    """The heading above the last line; empty if there is none."""
    is_spread: bool = False
    """True if the lines are about several files."""
    is_shown: bool = False
    """True if a line of this kind is already shown. The others are then only counted."""

    @property
    def place(self) -> bytes:
        """The file that the heading (or, if there is none, the first line) names; the heading if no file is
        named."""
        found = _PLACE.match(self.above or self.line)
        return found[1] if found else self.above


@dataclass(slots=True)
class FailureLines:
    """A `FailureLines` has the failure lines of one text by kind, and the first different lines one by
    one."""

    kinds: dict[bytes, LineKind] = field(default_factory=dict)
    lines: dict[bytes, LineKind] = field(default_factory=dict)
    """The first `_LINES` different lines, each as a separate kind."""
    _keys: dict[bytes, bytes] = field(default_factory=dict)
    """The key in `kinds` of each line in `lines`."""
    _classes: dict[bytes, tuple[Severity, bytes] | None] = field(default_factory=dict)
    """The severity and likeness of each examined line; None for a line without a failure. A text and its
    shown part share this dict."""

    is_escaped: bool = False
    """True if line ends are escaped as in a JSON string."""
    is_stated: bool = False
    """True if a line counts only if it states a failure as programs do (see `critical_lines.is_stated`)."""
    above: Callable[[int], bytes] | None = None
    """A function that returns the heading above an offset in the text."""

    @classmethod
    def of(
        cls,
        data: bytes,
        is_escaped: bool | None = None,
        whole: FailureLines | None = None,
        *,
        is_stated: bool = False,
        above: Callable[[int], bytes] | None = None,
    ) -> FailureLines:
        """Return the failure lines of a text, in linear time. If `is_escaped` is None, the text itself shows
        whether line ends are escaped. If `data` is a part of a text, `whole` has the failure lines of the
        whole text."""
        if is_escaped is None:
            is_escaped = data.count(b"\\n") > data.count(b"\n")
        if is_escaped:
            # Replacements of the same length keep all offsets.
            data = data.replace(b"\\r\\n", b"   \n").replace(b"\\n", b" \n")
        failures = cls(is_escaped=is_escaped, is_stated=is_stated, above=above)
        if whole is not None:
            failures._classes, failures.is_stated = whole._classes, whole.is_stated
        for start, end in _units(data):
            failures._add(data, start, end)
        if b" failing" in data or b"failures:" in data or b"There w" in data:
            for named in _NUMBERED.finditer(data):
                start, end = named.start(), min(named.end(), named.start() + _LONGEST)
                failures._note(data[start:end], start, Severity.FAILURE, _kind(data[start:end]))
        for start, end in _reasons(data):
            if (line := data[start:end]) not in failures.lines:
                failures._note(line, start, Severity.FAILURE, _kind(line))
        return failures

    def _add(self, data: bytes, start: int, end: int) -> None:
        line = data[start:end]
        same = self.lines.get(line)
        if same is not None:
            kind = self.kinds[self._keys[line]]
            same.count += 1
            kind.count += 1
            if self.above is not None and not (same.is_spread and kind.is_spread):
                place = LineKind(same.severity, line, b"", above=self.above(start)).place
                same.is_spread = same.is_spread or place != same.place
                kind.is_spread = kind.is_spread or place != kind.place
            return
        is_part = data[max(0, start - 1) : start] not in (b"", b"\n") or data[end : end + 1] not in (
            b"",
            b"\n",
        )
        classed = self._classes[line] if line in self._classes else self._class(line, is_part)
        if classed is not None:
            self._note(line, start, *classed)

    def _class(self, line: bytes, is_part: bool) -> tuple[Severity, bytes] | None:
        how = severity_unless_passing(line)
        is_bare = self.is_stated or is_quoted(line)
        if how is not None and is_bare and not is_stated(line, is_part):
            how = None
        if len(self._classes) >= _KINDS:
            self._classes.clear()
        classed = self._classes[line] = None if how is None else (how, _kind(line))
        return classed

    def _note(self, line: bytes, start: int, how: Severity, likeness: bytes) -> None:
        key = _KEYS[how] + likeness
        above = self.above(start) if self.above is not None else b""
        if len(self.lines) < _LINES:
            self.lines[line] = LineKind(how, line, likeness, above=above)
            self._keys[line] = key
        kind = self.kinds.get(key)
        if kind is not None:
            kind.count += 1
            kind.last, kind.last_above = line, above
            kind.is_spread = kind.is_spread or LineKind(how, line, b"", above=above).place != kind.place
            return
        if len(self.kinds) >= _KINDS:
            key = _KEYS[how]
            if (kind := self.kinds.get(key)) is not None:
                kind.count += 1
                return
        self.kinds[key] = LineKind(how, line, likeness, above=above, start=start)

    def places(self) -> list[int]:
        """Return the offset of the first line of each kind, by falling severity."""
        return [kind.start for kind in sorted(self.kinds.values(), key=attrgetter("severity", "start"))]

    def without(self, shown: bytes, weakest: Severity) -> Missing:
        """Return the failure lines that `shown` lacks. Lines less severe than `weakest` are left out."""
        wanted = {key: kind for key, kind in self.kinds.items() if kind.severity <= weakest}
        if not wanted:
            return Missing([[]])
        there = FailureLines.of(shown, self.is_escaped, self)
        # With too many kinds, the shown text is not searched, so a line may be written twice.
        seen = b"\n%b\n" % shown if len(wanted) <= _SEARCHES else b""
        hidden = {
            self._keys[spelled]: line
            for spelled, line in reversed(self.lines.items())
            if spelled.strip()[:_SHOWN] not in seen
        }
        kinds = {
            key: _left(kind, there.kinds.get(key), seen, hidden.get(key)) for key, kind in wanted.items()
        }
        kinds = {key: kind for key, kind in kinds.items() if kind.count > 0}
        if len(self.lines) == _LINES:
            return Missing([list(kinds.values())])
        every = (
            _left(line, there.lines.get(spelled), seen)
            for spelled, line in self.lines.items()
            if self._keys[spelled] in kinds
        )
        lines = [line for line in every if line.count > 0]
        # Within a longer line, a shown line is not counted with its kind.
        return Missing([lines, list(kinds.values())] if lines else [[]])


def _left(kind: LineKind, there: LineKind | None, shown: bytes, hidden: LineKind | None = None) -> LineKind:
    """Return a kind without its shown lines. `hidden` is a line of the kind that is not shown; None if
    unknown."""
    stands = kind.line.strip()[:_SHOWN] in shown
    count = kind.count - (there.count if there is not None else stands)
    line, above = (kind.last, kind.last_above) if stands and kind.last else (kind.line, kind.above)
    if stands and line.strip()[:_SHOWN] in shown and hidden is not None:
        line, above = hidden.line, hidden.above
    # A long line may be shown in part.
    is_shown = not kind.is_spread and line.strip() == kind.line.strip() and b"\n%b\n" % line in shown
    return LineKind(
        kind.severity, line, kind.likeness, count, above=above, is_spread=kind.is_spread, is_shown=is_shown
    )


@dataclass(slots=True)
class Missing:
    """A `Missing` has the failure lines that are not in the shown part of a text."""

    levels: list[list[LineKind]]
    """The kinds at each level. Each later level merges kinds. At the first level, each line is a kind of its
    own if there are few lines."""

    def __bool__(self) -> bool:
        return bool(self.levels[-1])

    def fitting(self, space: int) -> tuple[Sequence[LineKind], int]:
        """Return the kinds of the first level that fits into `space` bytes, or of the last level if none
        fits, the most severe first. Also return the number of lines whose kind is already shown."""
        chosen: Sequence[LineKind] = ()
        again = 0
        for level in range(_LEVELS):
            if level == len(self.levels):
                self._merge()
            chosen = [kind for kind in self.levels[level] if not kind.is_shown]
            again = sum(kind.count for kind in self.levels[level] if kind.is_shown)
            if sum(map(_needs, chosen)) <= space - _OVERHEAD - _AGAIN * bool(again):
                break
        return sorted(chosen, key=lambda kind: kind.severity), again

    def needs(self, space: int) -> int:
        """Return a number of bytes that is enough for the kinds that `fitting` returns."""
        kinds, again = self.fitting(space)
        return _OVERHEAD + _AGAIN * bool(again) + sum(map(_needs, kinds))

    def _merge(self) -> None:
        """Add the next level: kinds that differ only in numbers within names become one kind."""
        varying = _NUMBER if len(self.levels) < _LEVELS - 1 else _WORD_WITH_NUMBER
        merged: dict[tuple[Severity, bytes, bool], LineKind] = {}
        for kind in self.levels[-1]:
            same = kind.likeness
            if len(same.translate(None, _DIGITS)) < len(same):
                codes = b" ".join(_CODED.findall(same))
                same = varying.sub(b"#", same) + codes
            key = (kind.severity, same, kind.is_shown)
            if (first := merged.get(key)) is not None:
                first.count += kind.count
                first.is_spread = first.is_spread or kind.is_spread or kind.place != first.place
            else:
                merged[key] = structs.replace(kind)
        self.levels.append(list(merged.values()))

    def written(self, space: int) -> str:
        """Return the heading, the lines that fit, and a line with the number of other lines; empty if the
        heading does not fit."""
        kinds, again = self.fitting(space)
        space -= _OVERHEAD + _AGAIN * bool(again)
        if space < 0:
            return ""
        noted: list[str] = []
        for kind in kinds:
            space -= _needs(kind)
            if space < 0:
                break
            noted.append(_noted(kind))
        if len(noted) < len(kinds):
            rest = kinds[len(noted) :]
            count = sum(kind.count for kind in rest)
            noted.append(f"[{counted(count, 'more line')} of {counted(len(rest), 'kind')}]")
        if again:
            noted.append(f"[{counted(again, 'line')} that {'stands' if again == 1 else 'stand'} above, too]")
        return "\n".join([HEADING, *noted])


_LEVELS = 4
_OVERHEAD = len(HEADING) + 1 + 40
_AGAIN = 34
"""The number of bytes reserved for the line with the number of lines that are already shown."""


def write(
    failures: FailureLines,
    space: int,
    body: Callable[[int], str],
    weakest: Severity,
    *,
    least: int = 0,
    more: int = 0,
    share: float = 0.75,
) -> str:
    """Return, in `space` bytes, the text from `body` and below it the failure lines that `body` left out.
    `body` gets at least `least` bytes. Failure lines get at most the fraction `share` of `space`, and `more`
    bytes beyond `space`."""
    most = max(0, min(int(space * share), space - least))
    reserved = 0
    for attempt in range(_ATTEMPTS):
        shown = body(space - reserved)
        missing = failures.without(utf8(shown), weakest)
        spare = space + more - size(shown) - 1
        needs = missing.needs(more + most) if missing else 0
        if needs <= spare or reserved >= most:
            break
        reserved = most if attempt + 2 == _ATTEMPTS else min(most, reserved + needs - spare)
    if 0 < 2 * needs <= reserved:
        # The last attempt may reserve far more than the failure lines need.
        wider = body(space - needs)
        left = failures.without(utf8(wider), weakest)
        room = space + more - size(wider) - 1
        if not left or left.needs(more + most) <= room:
            shown, missing, spare = wider, left, room
    note = missing.written(min(spare, more + most)) if missing else ""
    return shown + ("" if not note or shown.endswith("\n") else "\n") + note


_ATTEMPTS = 3
"""The greatest number of times that `body` makes the text with more bytes for failure lines each time."""


def _reasons(data: bytes) -> Iterator[Span]:
    """Yield the offsets of the messages of failed Go tests: up to three lines just above each `--- FAIL:`."""
    for verdict in _VERDICT.finditer(data):
        end = verdict.start() - 1
        for _ in range(_REASONS):
            start = data.rfind(b"\n", 0, max(0, end)) + 1
            if not _REASON.match(data, start, max(0, end)):
                break
            yield start, min(end, start + _LONGEST)
            end = start - 1


def _units(data: bytes) -> Iterator[Span]:
    """Yield the offsets of lines, and of parts of long lines, that may be failure lines."""
    position = number = 0
    while (match := next_match(data, position)) is not None:
        unit = _unit(data, position, *match)
        yield unit
        position = max(unit[1], match[1])
        number += 1
        if not number % time_budget.PIECE:
            time_budget.check()


def _unit(data: bytes, position: int, left: int, right: int) -> Span:
    """Return the offsets of the message around a match: its line, or the part of a long line."""
    start = data.rfind(b"\n", position, left) + 1
    is_rest = not start and position > 0
    start = start or position
    end = data.find(b"\n", right, right + _LONGEST)
    if end < 0:
        end = min(len(data), right + _LONGEST)
    if end - start <= _LONGEST and not is_rest:
        return start, end
    begin, end = max(start, left - _BEFORE), min(end, right + _AFTER)
    if begin > start or is_rest:
        # A part of a word would be taken for a name.
        begin = data.find(b" ", begin, left) + 1 or begin
    start = begin
    opening = data.rfind(b"{", start, left)
    start = max(start, data.rfind(b'","', start, left)) if opening < 0 else opening
    closing = data.find(b"}", right, end) if opening >= 0 else -1
    if closing >= 0:
        end = closing + 1
    return _whole_characters(data, start, end)


def _whole_characters(data: bytes, start: int, end: int) -> tuple[int, int]:
    while start < end and data[start] & 0xC0 == 0x80:
        start += 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def _kind(line: bytes) -> bytes:
    """Return the common form of all lines that differ only in times, numbers and ids."""
    # Every time, number or id contains a digit and no blank.
    return b" ".join(
        [
            word if word.isalpha() else b"#" if word.isdigit() else _VARYING.sub(b"#", word)
            for word in line[:_LONGEST].split()
        ]
    )


def _needs(kind: LineKind) -> int:
    above = len(kind.above) + 2 if kind.above else 0
    note = (_NOTE + len(_ELSEWHERE) * kind.is_spread) if kind.count > 1 else 0
    return above + min(len(kind.line.rstrip()), _SHOWN + 40) + 1 + note


def _noted(kind: LineKind) -> str:
    line = kind.line.rstrip()
    noted = line.decode("utf-8", "surrogatepass")
    if len(line) > _SHOWN:
        shown = noted[: word_end(noted, len(head(noted, _SHOWN)))]
        gone = len(line) - size(shown)
        noted = f"{shown} [{counted(gone, 'byte')} left out]" if gone >= LEAST_CUT else noted
    if kind.above:
        noted = f"{kind.above.decode('utf-8', 'surrogatepass')}: {noted.lstrip()}"
    if kind.count == 1:
        return noted
    return f"{noted} [{kind.count - 1} more like it{_ELSEWHERE if kind.is_spread else ''}]"


def failing(lines: Sequence[str], critical: Iterable[int] | None = None) -> list[int]:
    """Return the positions of the critical lines with a failure or an error. `critical` has the positions of
    all critical lines; None if unknown."""
    positions = critical_lines(lines) if critical is None else critical
    return [at for at in positions if severity(utf8(lines[at][:_LONGEST])) <= Severity.ERROR]


def warning(lines: Sequence[str]) -> list[int]:
    return [position for position, line in enumerate(lines) if is_warning(utf8(line[:_LONGEST]))]


def first_of_kinds(lines: Sequence[str]) -> dict[int, str]:
    """Return the first line of each kind, by its position, with the number of its other lines. A long line is
    cut to the text around its failures."""
    kinds: dict[bytes, tuple[int, LineKind]] = {}
    for position, line in enumerate(lines):
        data = utf8(line)
        _, kind = kinds.setdefault(_kind(data), (position, LineKind(Severity.FAILURE, data, b"", 0)))
        kind.count += 1
    return {position: "\n".join(map(_noted, _parts_of(kind))) for position, kind in kinds.values()}


def _parts_of(kind: LineKind) -> list[LineKind]:
    """Return a kind's line, or the parts of a long line around its failures."""
    if len(kind.line) <= _LONGEST:
        return [kind]
    parts = [part.line for part in FailureLines.of(kind.line, is_escaped=False).kinds.values()]
    return [LineKind(kind.severity, part, b"", kind.count) for part in parts] or [kind]


def ranked(lines: Sequence[str]) -> list[int]:
    """Return the positions of the critical lines: first one line of each kind, the most severe first, then
    the others."""
    beginnings = {at: utf8(lines[at][:_LONGEST]) for at in critical_lines(lines)}
    first = {_kind(beginnings[at]): at for at in reversed(beginnings)}
    by_severity = sorted(first.values(), key=lambda at: (severity(beginnings[at]), at))
    return [*dict.fromkeys([*by_severity, *beginnings])]
