"""This stage writes the excerpt of a long result: its kind, its size and its most useful parts.

    [search result in part; 40093 bytes, 795 lines]
    src/a.py:
    12:import os
    [81 lines left out: src/{b.py, c.py}]
    src/d.py:
    7:import re

The kind of a result determines its limit and the order in which parts are chosen. Failure lines may exceed
the limit. Missing parts are counted.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cached_property, partial
from itertools import groupby

from penumbra.compress import critical_lines, facts, failure_lines, selection
from penumbra.compress.calls import log_files
from penumbra.compress.calls.family_rules import families, grouping, prints
from penumbra.compress.critical_lines import Severity
from penumbra.compress.facts import TextFacts
from penumbra.compress.failure_lines import FailureLines
from penumbra.compress.line_flags import LineFlags
from penumbra.compress.result import Mode, Policy
from penumbra.compress.selection import Needs, Selection, Units, left_out
from penumbra.compress.size import counted, exceeds, line_count, size
from penumbra.compress.stage import Shape, Source
from penumbra.compress.stages import headings, json_prune, line_numbers, row_sample, search_hits
from penumbra.compress.stages.headings import Headings
from penumbra.compress.text import Text
from penumbra.linear import utf8


class OutputKind(StrEnum):
    """The kind of excerpt that a result gets."""

    COMMAND = "command output"
    SEARCH = "search result"
    LIST = "list"
    WEB = "web page"
    DIFF = "diff"
    JSON = "JSON"
    FILE = "file"
    DATA = "data"
    REPORT = "report"
    OTHER = "output"


_LIMITS = {
    OutputKind.COMMAND: (4_500, 30),
    OutputKind.SEARCH: (6_000, 55),
    OutputKind.LIST: (16_000, 120),
    OutputKind.WEB: (6_500, 50),
    OutputKind.DIFF: (5_000, 25),
    OutputKind.JSON: (7_000, 55),
    OutputKind.DATA: (8_000, 40),
    OutputKind.REPORT: (32_000, 0),
    OutputKind.OTHER: (4_500, 30),
}
"""The usual limit of each kind of excerpt in standard mode, in bytes with the heading. The first number is
the smallest limit. For a large original, the limit is the second number times the square root of the
original's bytes, up to `_MOST`. Beyond `facts.LONGEST`, the limit falls again."""
_FILE_IN_AGGRESSIVE = (18_000, 80)
"""The limit of a file in aggressive mode, with two numbers as in `_LIMITS`. Other modes use `_FILE`."""
_LEAST_NEW = 1_000
"""New lines are not counted in a text of at most this number of bytes."""
_OF_FILES = (OutputKind.FILE, OutputKind.DATA)
_OF_RUNS = (OutputKind.COMMAND, OutputKind.OTHER)
_MOST = 24_000
"""The limit grows with the size of the original up to this number of bytes."""
_FILE = 5 / 8
"""The limit of a file as a fraction of `max_output_bytes`."""
_AS_NEW_OF_RUNS = (_LEAST_NEW, 0.15)
_AS_NEW = (2 * _LEAST_NEW, 0.4)
"""The limit of a text with nothing new: at least this number of bytes, and this fraction of the usual
limit."""
_NEW_OR_NOT = (OutputKind.FILE, OutputKind.REPORT)
"""The kinds whose limit does not depend on the share of new lines."""
_SHARE = 0.75
"""Failure lines may take this fraction of an excerpt."""
_SHARE_OF_QUOTED = 0.25
"""Failure lines may take this fraction of lists and of agents' reports."""
_MORE = 6_000
"""Failure lines that don't fit may enlarge an excerpt by this number of bytes."""
_NAMES = re.compile(rb"^(?:\S+|[ld-][rwxsStT-]{9}[^\n]*)$", re.MULTILINE)
"""Lines that are names of files."""
_FRAMES = re.compile(
    rb"^[ \t>]*[0-9]{1,6}(?: +[0-9]{1,6})?(?: ?[|\xe2]|[:-](?: {2}|\t)| ?[+-](?: {2}|\t)| {4,})[^\n]*",
    re.MULTILINE,
)
"""Numbered lines of code that a program prints around an error."""
_STRING = rb'"(?:[^"\\\n]++|\\.)*+"?'
_TEXTS = re.compile(rb"(%b)(?:\s*+:\s*+(%b))?+|[^\t\n\"]{200,}+" % (_STRING, _STRING))
"""The strings of JSON with their keys, and the long cells of a table made from JSON. Short and unclosed
strings match, too, so that no character is read twice."""
_PROSE = 200
"""The length in bytes of the longest string that can't be prose."""
_TELLING_KEY = re.compile(rb"(?i)err|fail|exception|trace|stdout|stderr|output|log|reason")
"""A string with such a key is the output of a program."""
_HEAD, _TAIL, _SUMMARIES, _FAILURES, _NEW, _DEFINITIONS, _FIRST, _ODD = 12, 20, 15, 30, 20, 15, 30, 15
"""The percentages of the limit for the beginning, the end, lines about a program's end, failures, new frames
and fields, definitions, headings, and odd rows."""
_ENDS_OF_FILE = 10, 6
"""The percentages of the limit for the beginning and the end of a file."""
_DIFFERING = 75
"""The percentage of the limit for rows of JSON that failed or differ from others."""
_ENDS = 3
"""At each end of a table, this number of rows is preferred."""
_NAMED = 4
"""The names of omitted files take at most the limit divided by this number."""
_MOST_FAILURES = 64
_USED = 84
"""The percentage of the limit for the shown lines of a file."""
_WORTH_IT = {OutputKind.DIFF: 0.5, OutputKind.OTHER: 0.5, OutputKind.JSON: 0.6}
_WORTH_IT_OF_OTHERS = 0.85
"""An excerpt's limit is at most this fraction of the text, by kind. A larger excerpt would save less than it
costs if the model asks for a missing part."""
_LEAST = 1_000
"""The smallest limit in bytes that `target_ratio` can give."""
_COLUMNS_ONCE = re.compile(rb"^\[(.*) in each of the next [0-9]+ lines?\]$")
"""A line that states columns for the lines below it."""
_LONGEST_PATH = 400
"""The length in characters of the longest line that may be a path."""
_LOOKED_AT = 20_000
"""The number of characters at the beginning of a text in which a list of paths is recognised."""
_BY_CATEGORY = {
    "bash": OutputKind.COMMAND,
    "grep": OutputKind.SEARCH,
    "glob": OutputKind.LIST,
    "list": OutputKind.LIST,
    "web": OutputKind.WEB,
    "subagent": OutputKind.REPORT,
    "plan": OutputKind.REPORT,
    "read": OutputKind.FILE,
    "edit": OutputKind.FILE,
    "write": OutputKind.FILE,
}


def excerpt(text: str, source: Source) -> str | None:
    """Return the excerpt of a result; None if it is within its limit, its limit is too small, or little is
    saved."""
    kind, limit = _bounds(text, source)
    if not exceeds(text, limit) or not _is_worth_it(text, kind, limit, source.policy):
        return None
    heading = _heading(kind, source)
    space = limit - size(source.policy.overhead) - size(heading) - 1
    if space < selection.LEAST:
        return None
    parts = _Parts(text, kind, source)
    found = parts.failures()
    if found.kinds and (wider := parts.space_for_new(limit_of(kind, source) - limit)):
        limit, space = limit + wider, space + wider
        if not exceeds(text, limit):
            return None
    weakest, share, more = Severity.ERROR, _SHARE_OF_QUOTED, 0
    if kind is not OutputKind.REPORT and (kind is not OutputKind.LIST or source.call.shell):
        weakest, share = Severity.COMPLAINT, _SHARE
        more = min(_MORE, source.policy.max_output_bytes - limit) if source.policy.target_ratio is None else 0
    written = failure_lines.write(
        found,
        space,
        lambda space: parts.written(space, found),
        weakest,
        least=selection.LEAST,
        more=more,
        share=share,
    )
    return f"{heading}\n{written}"


def is_needed(text: str, source: Source) -> bool:
    """Return whether a text exceeds its limit."""
    return exceeds(text, _bounds(text, source)[1])


def _bounds(text: str, source: Source) -> tuple[OutputKind, int]:
    kind = kind_of(source)
    if kind is OutputKind.SEARCH and exceeds(text, limit_of(kind, source)) and _is_list(text):
        kind = OutputKind.LIST
    elif kind in _OF_RUNS and exceeds(text, _LEAST_NEW) and _is_definition(text):
        kind = OutputKind.FILE
    return kind, _as_new(limit_of(kind, source), text, kind, source)


def _as_new(limit: int, text: str, kind: OutputKind, source: Source) -> int:
    """Return the limit of a text. If the conversation already has most of the text, the limit is smaller,
    unless the text shows the state of things."""
    is_new = kind in _NEW_OR_NOT or source.is_error or prints(source.call.family) == "states"
    if is_new or source.policy.target_ratio is not None:
        return limit
    least, part = _AS_NEW_OF_RUNS if kind in _OF_RUNS else _AS_NEW
    smallest = min(limit, max(least, int(limit * part)))
    if not exceeds(text, smallest) or not _is_worth_it(text, kind, smallest, source.policy):
        # Even with the smallest limit, no excerpt would be made.
        return limit
    if not exceeds(text, _LEAST_NEW) or len(text) > facts.LONGEST or (seen := source.shown_before()) is None:
        return limit
    # From this share of new lines on, the limit is at least as large as the text.
    enough = ((size(text) + 1) / limit - part) / (1 - part)
    share = facts.share_new(text, seen, min(1.0, enough))
    return min(limit, max(least, int(limit * (part + (1 - part) * share))))


def _is_worth_it(text: str, kind: OutputKind, limit: int, policy: Policy) -> bool:
    if policy.target_ratio is not None or (kind is OutputKind.FILE and policy.mode is not Mode.AGGRESSIVE):
        return True
    part = _WORTH_IT.get(kind, _WORTH_IT_OF_OTHERS)
    return exceeds(text, min(int(limit / part), policy.max_output_bytes))


def _is_list(text: str) -> bool:
    """Return whether nearly every line at the beginning of a search's result is a path."""
    flags = LineFlags(text[:_LOOKED_AT].split("\n"))
    hits = flags["hit"]
    paths = [
        at
        for at, line in enumerate(flags.lines)
        if len(line) <= _LONGEST_PATH and " " not in line.strip() and at not in hits
    ]
    return len(paths) * 10 >= 9 * len(flags.lines)


def _is_definition(text: str) -> bool:
    """Return whether a text is the code of one definition: below its first line, every line is indented more
    or closes the definition."""
    beginning, _, body = text.strip("\r\n").partition("\n")
    blanks = len(beginning) - len(beginning.lstrip())
    return LineFlags([beginning]).has(0, "definition") and all(
        line[: blanks + 1].isspace() or line.strip(")}; \r") == "" for line in body.split("\n")
    )


def _blank(match: re.Match[bytes]) -> bytes:
    return b"." * len(match[0])


def _unless_telling(match: re.Match[bytes]) -> bytes:
    """Return a short string or a program's output unchanged, and dots in place of any other string with its
    key."""
    key, value = (match[1], match[2]) if match[2] else (b"", match[0])
    if len(value) <= _PROSE or _TELLING_KEY.search(key):
        return match[0]
    text = match[0].replace(b"\\n", b"\n").decode("utf-8", "replace")
    return match[0] if log_files.is_log("", text) else _blank(match)


def kind_of(source: Source) -> OutputKind:
    """Return the kind of a result. The call decides, but JSON and diffs are recognised by their text."""
    kind = _BY_CATEGORY.get(source.call.category, OutputKind.OTHER)
    if kind is OutputKind.FILE and source.call.shows_data:
        kind = OutputKind.DATA
    if source.shape is Shape.JSON and kind is not OutputKind.FILE:
        return OutputKind.JSON
    if source.shape is Shape.DIFF and kind is OutputKind.COMMAND:
        return OutputKind.DIFF
    if kind is OutputKind.COMMAND and search_hits.is_search(source.call):
        return OutputKind.SEARCH
    if kind is OutputKind.COMMAND and prints(source.call.family) == "names":
        return OutputKind.LIST
    return kind


def limit_of(kind: OutputKind, source: Source) -> int:
    """Return the limit of a kind of result in bytes."""
    policy = source.policy
    of_file = int(policy.max_output_bytes * _FILE)
    is_aggressive = policy.mode is Mode.AGGRESSIVE
    least, growth = _LIMITS.get(kind, _FILE_IN_AGGRESSIVE if is_aggressive else (of_file, 0))
    if kind is OutputKind.COMMAND and (named := families().get(source.call.family)) is not None:
        least = named.rule.excerpt_bytes or least
    whole = source.original_bytes
    compared = whole if whole <= facts.LONGEST else facts.LONGEST**2 // whole
    limit = max(least, min(_MOST, int(growth * compared**0.5)))
    limit = min(limit, of_file) if kind is OutputKind.DATA else limit
    if kind is not OutputKind.FILE:
        limit = limit // 2 if is_aggressive else limit
        limit = limit * 2 if source.is_error else limit
        if policy.target_ratio is not None:
            limit = min(limit, max(_LEAST, int(whole * policy.target_ratio)))
    return min(limit, policy.max_output_bytes)


def _heading(kind: OutputKind, source: Source) -> str:
    facts = [f"{kind} in part", _extent(source.bare(), kind, source)]
    if source.shortened():
        facts.append("counts below are of its shortened form")
    if kind in _OF_FILES and source.call.path:
        facts[0] = f"{kind} {source.call.path} in part"
    if not source.policy.overhead and (artifact := source.artifact()):
        facts.append(f"artifact {artifact}")
    return f"[{'; '.join(facts)}]"


def _extent(text: str, kind: OutputKind, source: Source) -> str:
    """Return the size of a text, such as `1234 bytes, 40 lines`. For a text that may be a page of a file,
    return its line numbers: `1234 bytes, lines 81 to 120`. For a single line, return only the bytes.
    """
    lines = line_count(text)
    extent = counted(size(text), "byte")
    numbers = line_numbers.split(text)[0] if kind in _OF_FILES else ()
    first, last = next(filter(None, numbers), 0), max(numbers, default=0)
    if not first and kind in _OF_FILES and source.call.first_line:
        first, last = source.call.first_line, source.call.first_line + lines - 1
    if first < last:
        return f"{extent}, lines {first} to {last}"
    return f"{extent}, {lines} lines" if lines > 1 else extent


class _Parts:
    """A `_Parts` finds the parts of one text that its excerpt may show."""

    def __init__(self, text: str, kind: OutputKind, source: Source) -> None:
        self._text, self._data, self._kind, self._source = text, Text.of(text).data, kind, source
        self._is_readable = Text.of(text).is_readable
        self._flags = Text.of(text).flags if self._is_readable else LineFlags([])
        self._lines = self._flags.lines
        self._space_for_names = 0
        self._new: Sequence[int] = ()

    @cached_property
    def _headings(self) -> Headings:
        return Headings.of(
            self._flags,
            is_search=self._kind is OutputKind.SEARCH,
            is_page=self._kind is OutputKind.WEB,
            is_diff=self._kind is OutputKind.DIFF,
            is_grouped=self._source.call.family in grouping(),
        )

    @cached_property
    def _starts(self) -> list[int]:
        """The offset of each line, in bytes."""
        return [0, *[found.end() for found in re.finditer(b"\n", self._data)]]

    def failures(self) -> FailureLines:
        """Return the failure lines of the text; none for a test run that passed. In source files, lines that
        look like failures are code, unless a command's output stands beside the files. In errors and in
        outputs of commands that run something, every line that looks like a failure counts. In other texts, a
        line must state a failure."""
        kind, source, call = self._kind, self._source, self._source.call
        if kind is OutputKind.FILE:
            # A text that a program prints like one definition may also be the report of a run.
            kind = kind_of(source)
        if kind in (*_OF_FILES, OutputKind.SEARCH, OutputKind.WEB) and not call.is_beside_files:
            may_fail = log_files.is_log(call.path if kind in _OF_FILES else "", self._text)
        else:
            may_fail = kind is not OutputKind.DIFF and (source.is_error or prints(call.family) != "texts")
        runs = kind is OutputKind.COMMAND and bool(call.family) and prints(call.family) == "run"
        passed = runs and not source.is_error and not call.mixed and critical_lines.all_passed(self._data)
        if not may_fail or passed:
            return FailureLines()
        # Dots of the same length replace numbered code, names of files in lists, and prose in JSON.
        data = _FRAMES.sub(_blank, self._data)
        if kind is OutputKind.LIST or prints(call.family) == "names":
            data = _NAMES.sub(_blank, data)
        if kind is OutputKind.JSON and not source.is_error:
            data = _TEXTS.sub(_unless_telling, data)
        return FailureLines.of(data, is_stated=not (runs or source.is_error), above=self._file_above)

    def _file_above(self, place: int) -> bytes:
        """Return the heading of the line at an offset, such as the name of its file; empty without a
        heading."""
        named = self._headings.named if self._is_readable else {}
        line = named.get(bisect_right(self._starts, place) - 1) if named else None
        if line is None:
            return b""
        name = utf8(self._lines[line]).strip()[:_LONGEST_PATH].removeprefix(b"--> ")
        return _COLUMNS_ONCE.sub(rb"\1", name).rstrip(b" :|")

    @cached_property
    def _units(self) -> Units:
        return Units.of(self._data)

    @cached_property
    def _needs(self) -> Needs:
        """The headings of each unit. A piece of a line has the headings of its line."""
        lines = [*self._units.lines, len(self._units)]
        return {
            unit: [lines[heading] for heading in headings]
            for line, headings in self._headings.needs.items()
            if line < len(self._units.lines)
            for unit in range(lines[line], lines[line + 1])
        }

    @cached_property
    def _facts(self) -> TextFacts | None:
        """The facts of the units; None if there are too many units to compare."""
        return self._facts_of(self._units) if len(self._data) <= facts.LONGEST else None

    def _facts_of(self, units: Units) -> TextFacts:
        source = self._source
        asked = search_hits.asked(source.call, source.arguments) if self._kind is OutputKind.SEARCH else ()
        seen = source.shown_before()
        return TextFacts.of(units.texts(), source.mentioned(), asked, () if seen is None else seen.facts)

    @cached_property
    def _numbered(self) -> tuple[Sequence[int], list[str], str]:
        """The numbers of lines, the lines without their numbers, and a text: ` of this output` if the numbers
        may differ from the file's, otherwise empty."""
        numbers, contents = line_numbers.split(self._text)
        if line_numbers.separator_of(self._lines):
            return numbers, contents, ""
        begins, original = self._source.call.first_line, self._source.original
        first = begins or original.count("\n", 0, max(0, original.find(self._source.bare()))) + 1
        return range(first, first + len(self._lines)), contents, "" if begins else " of this output"

    def written(self, space: int, failures: FailureLines) -> str:
        """Return the chosen parts and the marks for gaps, for a limit of `space` bytes."""
        if not self._is_readable:
            return selection.ends_in_part(self._data, space, partial(left_out, self._data), failures)
        if self._kind is OutputKind.JSON and (
            sample := self._rows(space) or json_prune.prune(self._text, space, self._facts_of)
        ):
            return sample
        return self._file(space, failures) if self._kind is OutputKind.FILE else self._parts(space, failures)

    def _file(self, space: int, failures: FailureLines) -> str:
        """Return the beginning, the end and the definitions of a file, and passages with names from the
        conversation."""
        _, contents, _ = self._numbered
        chosen = Selection(self._units, space * _USED // 100)
        chosen.ends(*_ENDS_OF_FILE)
        chosen.near(failures.places()[:_MOST_FAILURES], _FAILURES)
        self._take(chosen, headings.definitions(LineFlags(contents)), _DEFINITIONS)
        self._take(chosen, facts.passages(contents, self._source.mentioned()), 100)
        chosen.fill(is_code=True)
        return chosen.written(self._numbers_left_out)

    def _parts(self, space: int, failures: FailureLines) -> str:
        first = self._headings.first
        self._space_for_names = min(space // _NAMED, sum(size(self._lines[at]) + 2 for at in first))
        chosen = Selection(self._units, space - self._space_for_names, self._facts, self._needs)
        chosen.ends(_HEAD, _TAIL)
        places = failures.places()[:_MOST_FAILURES]
        if self._kind in _OF_RUNS:
            outcomes = critical_lines.reports(self._lines, "outcome")
            chosen.near([self._starts[at] for at in reversed(outcomes)], _SUMMARIES, after=0)
            if not places:
                places = [self._starts[at] for at in critical_lines.reports(self._lines, "finding")]
        chosen.near(places, _FAILURES)
        self._take(chosen, self._new, _NEW)
        self._take(chosen, first, _FIRST)
        if self._facts is not None:
            self._take(chosen, row_sample.odd(self._lines), _ODD)
        chosen.fill(is_code=self._kind is OutputKind.DIFF)
        return chosen.written(self._names_left_out)

    def space_for_new(self, most: int) -> int:
        """Return the size in bytes, at most `most`, of the stack frames and failed cases' fields that the
        conversation has not shown. From then on, these lines are preferred."""
        seen = self._source.shown_before()
        if most <= 0 or seen is None or self._kind not in _OF_RUNS:
            return 0
        found = sorted({*self._flags["frame"], *self._flags["case field"]})
        self._new = [at for at in found if not seen.is_line(self._lines[at].strip())]
        # A frame's code is in the line below.
        return min(most, sum(size(line) + 1 for at in self._new for line in self._lines[at : at + 2]))

    def _take(self, chosen: Selection, lines: Iterable[int], share: int) -> None:
        units = self._units.lines
        chosen.take([units[line] for line in lines if line < len(units)], share)

    def _lines_between(self, first: int, end: int) -> range:
        """Return the lines that begin between two offsets."""
        last = min(bisect_left(self._starts, end), len(self._lines))
        return range(bisect_left(self._starts, first), last)

    def _numbers_left_out(self, first: int, end: int) -> str:
        """Return the mark for missing lines of a file, with the numbers of these lines."""
        lines, (numbers, _, where) = self._lines_between(first, end), self._numbered
        is_whole = selection.starts_line(self._data, first) and selection.starts_line(self._data, end)
        if not is_whole or not lines or not 0 < numbers[lines[0]] < numbers[lines[-1]]:
            return left_out(self._data, first, end)
        return f"[lines {numbers[lines[0]]} to {numbers[lines[-1]]}{where} left out]"

    def _names_left_out(self, first: int, end: int) -> str:
        """Return the mark for missing lines, with the names of the missing files."""
        lines, heads = self._lines_between(first, end), self._headings.first
        missing = heads[bisect_left(heads, lines.start) : bisect_left(heads, lines.stop)]
        return f"{left_out(self._data, first, end)[:-1]}{self._names(missing)}]"

    def _names(self, heads: Sequence[int]) -> str:
        """Return the names of files in these headings, grouped by folder, as many as fit."""
        folders: dict[str, list[str]] = {}
        for line in heads:
            name = self._lines[line].removeprefix("+++ ").removeprefix("b/").split("\t")[0].rstrip(": ")
            folder = name[: name.rfind("/") + 1]
            self._space_for_names -= size(name) + 2 - (size(folder) if folder in folders else -2)
            if self._space_for_names < 0:
                break
            folders.setdefault(folder, []).append(name[len(folder) :])
        count = sum(map(len, folders.values()))
        more = f" and {len(heads) - count} more" if count and count < len(heads) else ""
        named = [
            f"{folder}{{{', '.join(names)}}}" if len(names) > 1 else folder + names[0]
            for folder, names in folders.items()
        ]
        return f": {', '.join(named)}{more}" if named else ""

    def _rows(self, space: int) -> str | None:
        """Return the chosen rows of JSON; None if the JSON has no rows or no row fits."""
        found = row_sample.rows(self._text, space)
        if found is None:
            return None
        rows, heads = found
        if size(every := "\n".join(rows)) <= space:
            return every
        units = Units.joined([utf8(row) for row in rows])
        needs = {at: [head] for at, head in enumerate(heads) if head != at}
        chosen = Selection(units, space, self._facts_of(units), needs)
        chosen.take(sorted(set(heads)) if needs else (), 100)
        tables = [list(rows_of) for _, rows_of in groupby(range(len(heads)), key=heads.__getitem__)]
        chosen.take([*failure_lines.ranked(rows), *row_sample.odd(rows)], _DIFFERING)
        chosen.take([at for of in tables for at in (*of[:_ENDS], *of[-_ENDS:])], 100)
        if not any(chosen.shown):
            return None
        chosen.fill()
        return chosen.written(partial(left_out, units.data, noun="row"))
