"""This module finds critical lines: errors, failures, assertions, panics, frames, exit codes and summaries.

The patterns are in rules/failures.yaml. One linear-time pattern finds candidates in a whole text. A set of
patterns then decides for each candidate how severe it is and whether it reports a pass. A line that reports a
pass is not critical, because a passed test may be named "reports an error".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Literal

import re2

from penumbra import rules
from penumbra.linear import NOWHERE, Linear, lines_with, quiet, utf8

_LINE_LIMIT = 4_000
"""At most this number of characters at the beginning of a line is searched."""
_LAST = 2_000
"""The summary of a test run is searched for in this number of bytes at the end."""
_LONGEST_REPORT = 300
"""A report is searched for in this number of characters at the beginning of a line."""
_MEMORY = 1 << 25
"""The greatest size in bytes of a pattern's automaton. If an automaton needs more memory, RE2 searches more
slowly."""
Report = Literal["outcome", "change", "finding"]
"""The kinds of report in a line: how a program ended, what it changed, or a finding at a place in a file."""


class Severity(IntEnum):
    """The severity of a critical line. Lines with lower numbers are more important."""

    FAILURE = 0
    """A failure with a name, such as a failed test's, a crash, or the end of the program."""
    ERROR = 1
    COMPLAINT = 2
    """A message about something that did not work, without the word error."""
    MENTION = 3
    """A warning, a frame of a stack trace, a count of zero, or information that mentions an error."""


class _Mark(IntEnum):
    """A property of a line, with the position of the property's pattern in `_Patterns.marks`."""

    PASSED = 0
    FAILED_TOO = 1
    NOTHING = 2
    NAMES = 3
    CALM = 4
    ENDING = 5
    FAILURE = 6
    ERROR = 7
    COMPLAINT = 8


@dataclass(frozen=True, slots=True)
class _Patterns:
    """The patterns of rules/failures.yaml."""

    critical: Linear
    some_pass: Linear
    """The pattern for a line that reports a pass."""
    marks: Any
    """A set of RE2 patterns that returns the marks of a line."""
    reports: Mapping[Report, Sequence[Linear]]
    """The patterns of each kind of report. A pattern matches whole lines."""
    no_reports: Mapping[Report, Linear]
    """For each kind, a pattern of lines that are no reports although a pattern in `reports` matches."""
    others: Mapping[str, Any]
    """The other patterns, by name."""


@cache
def _patterns() -> _Patterns:
    content = rules.load("failures.yaml")
    parts: dict[str, str] = {}

    def joined(sources: list[str]) -> str:
        return re.sub(r"\{([A-Z_]+)\}", lambda named: parts[named[1]], "|".join(sources))

    for name, source in content["parts"].items():
        parts[name] = joined([source])
    options = quiet(_MEMORY)
    marks = re2.Set.SearchSet(options)
    for mark in _Mark:
        marks.Add(joined(content[mark.name.lower()]).encode())
    marks.Compile()
    stated = joined([f"{content['before']}(?:{joined(content['statement'])})", *content["stated"]])
    names = ("nothing", "names", "opening", "within", "quoted", "warning", "run_passed", "run_failed")
    sources = {"stated": stated} | {name: joined(content[name]) for name in names}
    return _Patterns(
        critical=Linear(f"(?im){joined(content['critical'])}".encode(), options),
        some_pass=Linear(f"(?m){joined(content['passed'])}".encode(), options),
        marks=marks,
        reports={
            # Patterns that begin anywhere get their own automaton, or the other patterns would need many more
            # states.
            kind: [
                Linear(f"(?m)^(?:{joined(group)})[ \t\r]*$".encode(), options)
                for anywhere in (False, True)
                if (group := [one for one in rule["patterns"] if one.startswith(".*") is anywhere])
            ]
            for kind, rule in content["reports"].items()
        },
        no_reports={
            kind: Linear(f"(?m)^(?:{joined(rule['unless'])})[ \t\r]*$".encode(), options)
            for kind, rule in content["reports"].items()
            if "unless" in rule
        },
        others={name: re2.compile(f"(?m){source}".encode(), options) for name, source in sources.items()},
    )


def _is_passing(marks: Sequence[int]) -> bool:
    return _Mark.PASSED in marks and _Mark.FAILED_TOO not in marks


def _marks(line: bytes) -> Sequence[int]:
    marks: Sequence[int] = _patterns().marks.Match(line) or ()
    return marks


def _searched(line: str) -> bytes:
    return line[:_LINE_LIMIT].encode("utf-8", "surrogatepass")


def is_critical(line: str) -> bool:
    """True if a line matches the pattern of critical lines and does not report a pass."""
    data = _searched(line)
    return bool(_patterns().critical.search(data)) and not _is_passing(_marks(data))


def severity_unless_passing(line: bytes) -> Severity | None:
    """Return the severity of a critical line; None if the line reports a pass."""
    marks = _marks(line)
    return None if _is_passing(marks) else severity(line, marks)


def severity(line: bytes, marks: Sequence[int] | None = None) -> Severity:
    """Return the severity of a critical line. `marks` are the line's marks, if they are known."""
    patterns = _patterns()
    marks = _marks(line) if marks is None else marks
    if _Mark.NOTHING in marks or (_Mark.NAMES in marks and not patterns.others["opening"].match(line)):
        # The replacement looks like the name of a file, but has no word such as "error".
        plain = patterns.others["nothing"].sub(b"", patterns.others["names"].sub(b"./x.x", line))
        if not patterns.critical.search(plain):
            return Severity.MENTION
        marks = _marks(plain)
    if _Mark.CALM in marks:
        return Severity.FAILURE if _Mark.ENDING in marks else Severity.MENTION
    if _Mark.FAILURE in marks:
        return Severity.FAILURE
    if _Mark.ERROR in marks:
        return Severity.ERROR
    return Severity.COMPLAINT if _Mark.COMPLAINT in marks else Severity.MENTION


def says_as_much(line: str, other: str) -> bool:
    """True if `other`, a new form of the critical line `line`, is critical and at least as severe."""
    data = _searched(other)
    how = severity_unless_passing(data) if _patterns().critical.search(data) else None
    return how is not None and how <= severity(_searched(line))


def is_stated(line: bytes, is_part: bool = False) -> bool:
    """Return whether a line states a failure as programs do, and not only mentions one. In a part of a very
    long line (`is_part`), the statement may be anywhere.

            src/a.c:120:9: error: expected ';'                     states a failure
            We still can't tell conflicts from failed merges.      only mentions failures
    """
    patterns = _patterns()
    return bool(
        patterns.others["stated"].search(line) or (is_part and patterns.others["within"].search(line))
    )


def is_quoted(line: bytes) -> bool:
    """True if a line quotes code or a document, as test runners do around a failure."""
    return bool(_patterns().others["quoted"].match(line))


def is_warning(line: bytes) -> bool:
    return bool(_patterns().others["warning"].search(line))


def all_passed(data: bytes) -> bool:
    """True if the end of a test run's output has a summary of a pass, and the whole output reports no failed
    run."""
    patterns = _patterns()
    return bool(patterns.others["run_passed"].search(data[-_LAST:])) and not patterns.others[
        "run_failed"
    ].search(data)


def reports(lines: Sequence[str], *kinds: Report) -> list[int]:
    """Return the positions of the lines with a report of one of these kinds, in order."""
    data, patterns = utf8("\n".join([line[:_LONGEST_REPORT] for line in lines])), _patterns()
    found: set[int] = set()
    for kind in kinds:
        of_kind = {at for pattern in patterns.reports[kind] for at in lines_with(pattern, data)}
        if of_kind and kind in patterns.no_reports:
            of_kind.difference_update(lines_with(patterns.no_reports[kind], data))
        found |= of_kind
    return sorted(found)


def next_match(data: bytes, start: int) -> tuple[int, int] | None:
    """Return the offsets (start, end) of the next critical words after `start`; None if there are none. All
    the words are in one line, which may report a pass."""
    match = _patterns().critical.search(data, start)
    if match is None:
        return None
    left, right = match.span()
    return max(left, data.rfind(b"\n", left, right - 1) + 1), right


def critical_lines(lines: Sequence[str]) -> list[int]:
    """Return the positions of the critical lines, in order."""
    data = utf8("\n".join([line[:_LINE_LIMIT] for line in lines]))
    critical, some_pass = _patterns().critical, _patterns().some_pass
    found: list[int] = []
    position = start = 0
    may_pass: bool | None = None
    while (span := critical.place(data, start, len(data))) != NOWHERE:
        left, right = span
        position += data.count(b"\n", start, left)
        end = data.find(b"\n", left)
        if may_pass is None:
            may_pass = some_pass.search(data, data.rfind(b"\n", 0, left) + 1) is not None
        if 0 <= end < right:
            # The match continues in the next line, so this line alone may have no match.
            if is_critical(lines[position]):
                found.append(position)
        elif not may_pass or not _is_passing(_marks(_searched(lines[position]))):
            found.append(position)
        if end < 0:
            break
        position, start = position + 1, end + 1
    return found


def normal(line: str) -> str:
    """Return a line without blanks at its ends, and with one blank for each run of blanks."""
    return " ".join(line.split())


class CriticalLines:
    """`CriticalLines` caches which lines of one text are critical."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def among(self, lines: Sequence[str], positions: Iterable[int]) -> set[int]:
        """Return the positions whose lines are critical."""
        places, known = [*positions], self._known
        new = [line for line in dict.fromkeys([lines[at] for at in places]) if line not in known]
        known.update(dict.fromkeys(new, False))
        known.update(dict.fromkeys([new[at] for at in critical_lines(new)], True))
        return {at for at in places if known[lines[at]]}
