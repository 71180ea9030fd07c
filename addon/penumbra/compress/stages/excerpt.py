"""A bounded account of a long result: what it is, how large it was, and its most useful parts.

    [search result in part; 40093 bytes, 795 lines]
    src/a.py: 2 hits
    12:import os
    [1 more: 40]

Each kind of result has its own limit and its own idea of what is useful. The size of the excerpt
is bounded by the limit, whatever the size of the result. Missing parts are counted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from itertools import accumulate

from penumbra.compress import failure_lines, stated_failures, windows
from penumbra.compress.calls import envelope, log_files
from penumbra.compress.calls.family_rules import excerpt_sizes, grouping, prints
from penumbra.compress.critical_lines import Severity
from penumbra.compress.failure_lines import FailureLines
from penumbra.compress.result import Mode, Policy
from penumbra.compress.size import counted, encode, exceeds, line_count, size
from penumbra.compress.stage import Shape, Source, is_readable
from penumbra.compress.stages import (
    diff_hunks,
    folding,
    json_prune,
    line_numbers,
    names_left_out,
    new_facts,
    row_sample,
    search_hits,
    titles,
    web_hits,
)
from penumbra.compress.stages.outline import outline


class Kind(StrEnum):
    """The kind of excerpt that a result gets."""

    COMMAND = "command output"
    SEARCH = "search result"
    LIST = "list"
    WEB = "web page"
    HITS = "web search result"
    DIFF = "diff"
    JSON = "JSON"
    FILE = "file"
    DATA = "data"
    REPORT = "report"
    OTHER = "output"


_LIMITS = {
    Kind.COMMAND: (4_500, 30),
    Kind.SEARCH: (6_000, 55),
    Kind.LIST: (16_000, 120),
    Kind.WEB: (6_500, 50),
    Kind.HITS: (8_000, 60),
    Kind.DIFF: (5_000, 25),
    Kind.JSON: (7_000, 55),
    Kind.DATA: (8_000, 40),
    Kind.REPORT: (32_000, 0),
    Kind.OTHER: (4_500, 30),
}
"""Bytes of an account, heading included, in standard mode: the least, and what the root of the original's
bytes is multiplied by. A text four times as large may have an excerpt twice as large. Where it is too large
for its lines to be compared, room is taken blindly, so that it falls again."""
_LEAST_NEW = 1_000
"""Bytes of a text below which it is not asked how much of it is new."""
_OF_FILES = (Kind.FILE, Kind.DATA)
_OF_ROWS = (Kind.COMMAND, Kind.LIST, Kind.DATA, Kind.OTHER)
"""Kinds whose lines may be rows of tables."""
_MOST = 24_000
"""Bytes above which no account grows."""
_FILE = 5 / 8
"""Part of the hard limit that a file may have: what is larger is read for a part of it, and the rest can be
asked for."""
_AS_NEW = {Kind.COMMAND: (_LEAST_NEW, 0.15), Kind.OTHER: (_LEAST_NEW, 0.15)}
_AS_NEW_OTHERS = (2 * _LEAST_NEW, 0.4)
"""Bytes that an account may have, and the part of its limit, where nothing of the text is new."""
_WHATEVER_SAID = (Kind.FILE, Kind.REPORT)
"""Kinds of what is told in full."""
_SHARE = 0.75
"""Part of an account that failure lines may have, whatever else there is."""
_SHARE_OF_QUOTED = 0.25
"""The share for texts that may be quoted: lists, and reports of another agent."""
_MORE = 6_000
"""Bytes by which an account may be larger for failure lines that it would leave out."""
_NAMES = re.compile(rb"^(?:\S+|[ld-][rwxsStT-]{9}[^\n]*)$", re.MULTILINE)
"""Names of files, in lines of their own."""
_FRAMES = re.compile(
    rb"^[ \t>]*[0-9]{1,6}(?: +[0-9]{1,6})?(?: ?[|\xe2]|[:-](?: {2}|\t)| ?[+-](?: {2}|\t)| {4,})[^\n]*",
    re.MULTILINE,
)
"""Lines of code with their numbers, as they stand around what failed, too."""
_STRING = rb'"(?:[^"\\\n]++|\\.)*+"?'
_TEXTS = re.compile(rb"(%b)(?:\s*+:\s*+(%b))?+|[^\t\n\"]{200,}+" % (_STRING, _STRING))
"""The texts in JSON, with their keys, or in the cells of a table of it. Short ones are matched, too, and ones
without an end: what a match has passed is not read again."""
_LONG = re.compile(rb'"(?:[^"\\\n]|\\.){200,}+"')
"""Texts that people wrote."""
_KEY = re.compile(rb'"[^"\\\n]{1,60}"')
_RUN = re.compile(rb'[^\t\n"]{200,}+')
_TELLING_KEY = re.compile(rb"(?i)err|fail|exception|trace|stdout|stderr|output|log|reason")
"""Keys of texts that programs wrote."""
_HEADINGS = 8
"""Part of an account, as a divisor, that is set aside for headings where its lines are not compared."""
_WORTH_IT = {Kind.DIFF: 0.5, Kind.OTHER: 0.5, Kind.JSON: 0.6}
_WORTH_IT_OF_OTHERS = 0.85
"""Part of a text that its account is at most: a turn in which the model asks for the rest costs more than the
last of most texts. A lower threshold where any part may be the requested one: changes, records, results of
unknown tools."""
_LEAST = 1_000
"""No wish for a smaller result makes an account smaller than this many bytes."""
_SAID_ONCE = re.compile(rb"^\[(.*) in each of the next [0-9]+ lines?\]$")
"""A line that says columns of others."""
_LONGEST_PATH = 400
"""Characters of a line that may be a path."""
_LOOKED_AT = 20_000
"""Characters that tell what the lines of a text are."""
_BY_CATEGORY = {
    "bash": Kind.COMMAND,
    "grep": Kind.SEARCH,
    "glob": Kind.LIST,
    "list": Kind.LIST,
    "web": Kind.WEB,
    "subagent": Kind.REPORT,
    "plan": Kind.REPORT,
    "read": Kind.FILE,
    "edit": Kind.FILE,
    "write": Kind.FILE,
}


def excerpt(text: str, source: Source) -> str | None:
    """The account of a result that is over its limit; None if it is within."""
    kind, limit = _bounds(text, source)
    if not exceeds(text, limit) or not _is_worth_it(text, kind, limit, source.policy):
        return None
    heading = _heading(kind, source)
    room = limit - size(source.policy.overhead) - size(heading) - 1
    if room < windows.LEAST:
        return None
    data = encode(text)
    found, parts = FailureLines(), _Parts(text, data, kind, source)
    if _tells_failures(kind, text, source):
        found = _failures(data, kind, source, parts.file_above)
    body = partial(_body, text, kind, source=source, found=found, parts=parts)
    weakest, share, more = Severity.ERROR, _SHARE_OF_QUOTED, 0
    if kind is not Kind.REPORT and (kind is not Kind.LIST or source.call.shell):
        weakest, share = Severity.COMPLAINT, _SHARE
        more = min(_MORE, source.policy.max_output_bytes - limit) if source.policy.target_ratio is None else 0
    names = names_left_out.room(room) if kind in (Kind.COMMAND, Kind.OTHER) and is_readable(text) else 0
    written = failure_lines.write(
        found, room - names, body, weakest, least=windows.LEAST, more=more, share=share
    )
    named = names_left_out.line(text, written, names, _told(source)) if names else ""
    return f"{heading}\n{written}{named}"


def is_needed(text: str, source: Source) -> bool:
    """True if this text, which a result was made into, is over its limit."""
    return exceeds(text, _bounds(text, source)[1])


def _bounds(text: str, source: Source) -> tuple[Kind, int]:
    """The kind of a text, and the bytes that it may have here."""
    kind = kind_of(source)
    if kind is Kind.SEARCH and exceeds(text, limit_of(kind, source)) and _is_list(text):
        kind = Kind.LIST
    if kind in (Kind.WEB, Kind.OTHER) and exceeds(text, limit_of(kind, source)) and _lists_hits(text, source):
        kind = Kind.HITS
    return kind, _as_new(limit_of(kind, source), text, kind, source)


def _told(source: Source) -> Container[bytes]:
    """The facts that earlier results show."""
    told = source.told()
    return () if told is None else told.facts


def _as_new(limit: int, text: str, kind: Kind, source: Source) -> int:
    """The limit, smaller where less of the text is new to the conversation."""
    if kind in _WHATEVER_SAID or source.is_error or source.policy.target_ratio is not None:
        return limit
    least, part = _AS_NEW.get(kind, _AS_NEW_OTHERS)
    smallest = min(limit, max(least, int(limit * part)))
    if not exceeds(text, smallest) or not _is_worth_it(text, kind, smallest, source.policy):
        # The excerpt is within any limit, and its text needs no reference.
        return limit
    if not exceeds(text, _LEAST_NEW) or len(text) > new_facts.LONGEST or (told := source.told()) is None:
        return limit

    def at(share: float) -> int:
        return min(limit, max(least, int(limit * (part + (1 - part) * share))))

    whole = size(text)
    # A text within its limit needs no more.
    return at(new_facts.share_new(text, told, lambda share: at(share) >= whole))


def _is_worth_it(text: str, kind: Kind, limit: int, policy: Policy) -> bool:
    """True if a small excerpt saves enough for what it may cost to ask for the rest."""
    if kind is Kind.FILE or policy.target_ratio is not None:
        return True
    part = _WORTH_IT.get(kind, _WORTH_IT_OF_OTHERS)
    return exceeds(text, min(int(limit / part), policy.max_output_bytes))


def _lists_hits(text: str, source: Source) -> bool:
    """True if a text lists what a search found: a call that names an address fetches a page."""
    return "://" not in str(source.arguments) and web_hits.is_hits(text)


def _is_list(text: str) -> bool:
    """True if nearly every line is a path: a search that was asked for names of files."""
    lines = text[:_LOOKED_AT].split("\n")
    paths = sum(
        len(line) <= _LONGEST_PATH and " " not in line.strip() and not search_hits.is_hit(line)
        for line in lines
    )
    return paths * 10 >= 9 * len(lines)


def _tells_failures(kind: Kind, text: str, source: Source) -> bool:
    """True if what looks like a failure in this text may be one: in files that someone edits it is code."""
    if kind in (*_OF_FILES, Kind.SEARCH, Kind.WEB, Kind.HITS):
        return log_files.is_log(source.call.path if kind in _OF_FILES else "", text)
    return kind is not Kind.DIFF and (source.is_error or prints(source.call.family) != "texts")


def _failures(data: bytes, kind: Kind, source: Source, above: Callable[[int], bytes]) -> FailureLines:
    """Return the failure lines of a known command's run but for what it quotes; of all else, what states a
    failure. `above`: what says of what a line is."""
    call = source.call
    runs = kind is Kind.COMMAND and bool(call.family) and prints(call.family) == "run"
    if runs and not source.is_error and not call.mixed and stated_failures.none(data):
        return FailureLines()
    data = _without_quotations(data, kind, source)
    return FailureLines.of(data, is_stated=not (runs or source.is_error), above=above)


def _without_quotations(data: bytes, kind: Kind, source: Source) -> bytes:
    """The text, all places as they are, without what tells of no failure whatever it says."""
    data = _FRAMES.sub(_blank, data)
    if kind is Kind.LIST or prints(source.call.family) == "names":
        data = _NAMES.sub(_blank, data)
    if kind is Kind.JSON and not source.is_error:
        data = _TEXTS.sub(_unless_telling, data)
    return data


def _blank(match: re.Match[bytes]) -> bytes:
    return b"." * len(match[0])


def _unless_telling(match: re.Match[bytes]) -> bytes:
    """Blank a long text, unless its key or its lines say that a program wrote it."""
    key, value = (match[1], match[2]) if match.re is _TEXTS and match[2] else (b"", match[0])
    if value.startswith(b'"'):
        if (whole := _LONG.fullmatch(value)) is None:
            return (
                match[0] if len(value) > 1 and value.endswith(b'"') else _RUN.sub(_unless_telling, match[0])
            )
        if key and not _KEY.fullmatch(key):
            return key + match[0][len(key) : -len(value)] + _unless_telling(whole)
    text = match[0].replace(b"\\n", b"\n").decode("utf-8", "replace")
    is_telling = bool(key and _TELLING_KEY.search(key)) or log_files.is_log("", text)
    return match[0] if is_telling else _blank(match)


def kind_of(source: Source) -> Kind:
    """The kind of a result: the call decides, the shape only tells JSON from text."""
    kind = _BY_CATEGORY.get(source.call.category, Kind.OTHER)
    if kind is Kind.FILE and source.call.shows_data:
        kind = Kind.DATA
    if source.shape is Shape.JSON and kind is not Kind.FILE:
        return Kind.JSON
    if source.shape is Shape.DIFF and kind is Kind.COMMAND:
        return Kind.DIFF
    if kind is Kind.COMMAND and search_hits.is_search(source.call):
        return Kind.SEARCH
    if kind is Kind.COMMAND and prints(source.call.family) == "names":
        return Kind.LIST
    return kind


def limit_of(kind: Kind, source: Source) -> int:
    """Bytes that a result of this kind may have: less in aggressive mode, more for an error."""
    policy = source.policy
    of_file = int(policy.max_output_bytes * _FILE)
    least, growth = _LIMITS.get(kind, (of_file, 0))
    if kind is Kind.COMMAND:
        least = excerpt_sizes().get(source.call.family, least)
    told_of = source.original_bytes
    if told_of > new_facts.LONGEST:
        told_of = new_facts.LONGEST**2 // told_of
    limit = max(least, min(_MOST, int(growth * told_of**0.5)))
    limit = min(limit, of_file) if kind is Kind.DATA else limit
    if kind is not Kind.FILE:
        limit = limit // 2 if policy.mode is Mode.AGGRESSIVE else limit
        limit = limit * 2 if source.is_error else limit
        if policy.target_ratio is not None:
            limit = min(limit, max(_LEAST, int(source.original_bytes * policy.target_ratio)))
    return min(limit, policy.max_output_bytes)


def _heading(kind: Kind, source: Source) -> str:
    facts = [f"{kind} in part", _extent(source.bare(), kind, source)]
    if source.shortened():
        facts.append("counts below are of its shortened form")
    if kind in _OF_FILES and source.call.path:
        facts[0] = f"{kind} {source.call.path} in part"
    if not source.policy.overhead and (artifact := source.artifact()):
        facts.append(f"artifact {artifact}")
    return f"[{'; '.join(facts)}]"


def _extent(text: str, kind: Kind, source: Source) -> str:
    """Return `1234 bytes, 40 lines`; `lines 81 to 120` for a file whose numbers are known, since the text may
    be a page of it. One line is not counted: its text may have many more in escapes."""
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
    """The parts of a text that is of no form with a sample of its own."""

    def __init__(self, text: str, data: bytes, kind: Kind, source: Source) -> None:
        self._text, self._data, self._kind, self._source = text, data, kind, source
        self._is_search = kind is Kind.SEARCH
        self._blind = kind is Kind.DIFF or not is_readable(text)

    @cached_property
    def asked(self) -> frozenset[str]:
        """The names that a search looks for."""
        source = self._source
        return search_hits.asked(source.call, source.arguments) if self._is_search else frozenset()

    @cached_property
    def _headings(self) -> Mapping[int, int]:
        text = self._text
        headings = self._said_once or search_hits.headings(text)
        headings = headings or titles.above(text) | titles.files_above(text)
        opened = {} if self._said_once or self._is_search else titles.opened_above(text)
        return {**headings, **opened, **titles.tables_above(text)}

    @cached_property
    def _said_once(self) -> Mapping[int, int]:
        """Lines of what is grouped, and that of their common beginning."""
        grouped = self._source.call.family in grouping()
        return titles.said_once_above(self._text) if grouped else {}

    @cached_property
    def _named(self) -> tuple[Mapping[int, int], list[int]]:
        """Lines that say only together with another of what they are, and where each line starts."""
        if self._blind:
            return {}, []
        named = self._said_once or titles.files_above(self._text) | titles.located_below(self._text)
        starts = [0, *(found.end() for found in re.finditer(b"\n", self._data))] if named else []
        return named, starts

    def file_above(self, place: int) -> bytes:
        """The heading of the line at a place; empty if the line names its own subject."""
        named, starts = self._named
        line = named.get(bisect_right(starts, place) - 1) if named else None
        if line is None:
            return b""
        end = starts[line + 1] if line + 1 < len(starts) else len(self._data)
        name = self._data[starts[line] : end].strip()[:_LONGEST_PATH].removeprefix(b"--> ")
        return _SAID_ONCE.sub(rb"\1", name).rstrip(b" :|")

    @cached_property
    def _lines(self) -> new_facts.Lines:
        source, headings = self._source, self._headings
        places = titles.places(self._text, headings)
        return new_facts.Lines.of(self._data, source.mentioned(), headings, self.asked, _told(source), places)

    @cached_property
    def _odd(self) -> list[int]:
        """Where rows begin that differ from the others, in bytes."""
        if self._kind not in _OF_ROWS:
            return []
        lines = self._data.split(b"\n")
        starts = [0, *accumulate(len(line) + 1 for line in lines)]
        return [starts[at] for at in row_sample.odd(self._text.split("\n"))]

    def chosen(self, room: int, failures: Sequence[windows.Span]) -> str:
        """The parts that fit into `room` bytes, with the markers of the others."""
        if self._blind:
            spans = windows.choose(self._data, room, failures)
        elif len(self._data) <= new_facts.LONGEST:
            spans = self._lines.choose(room, failures, self._odd)
        else:
            aside = room // _HEADINGS if self._headings else 0
            spans = windows.choose(self._data, max(windows.LEAST, room - aside), failures)
            spans = windows.headed(self._data, spans, self._headings, room)
        return windows.assemble(self._data, folding.supported(self._data, spans), partial(_gap, self._data))


def _body(text: str, kind: Kind, room: int, source: Source, found: FailureLines, parts: _Parts) -> str:
    sample: str | None = None
    if not is_readable(text):
        pass
    elif kind is Kind.FILE:
        return outline(text, room, source.mentioned(), found.ranked(), source.call.first_line)
    elif kind is Kind.HITS:
        return web_hits.sample(text, room)
    elif kind is Kind.SEARCH:
        is_cut = envelope.is_cut(source.original)
        sample = search_hits.sample(text, room, source.mentioned(), parts.asked, is_cut=is_cut)
    elif kind is Kind.JSON:
        sample = row_sample.sample(text, room, source.mentioned()) or json_prune.prune(text, room)
    elif kind is Kind.DIFF:
        sample = diff_hunks.sample(text, room)
    elif kind in (Kind.COMMAND, Kind.OTHER, Kind.DATA):
        sample = row_sample.sample_separated(text, room, source.mentioned())
    return parts.chosen(room, found.ranked()) if sample is None else sample


def _gap(data: bytes, start: int, end: int) -> str:
    is_unended = end == len(data) and not data.endswith(b"\n")
    lines = data.count(10, start, end) + is_unended
    starts_line = start == 0 or data[start - 1 : start] == b"\n"
    if lines and starts_line and (end == len(data) or data[end - 1 : end] == b"\n"):
        return f"[{counted(lines, 'line')} left out]"
    return f"[{counted(end - start, 'byte')} left out]"
