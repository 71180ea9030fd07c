"""Which lines no stage may drop: errors, failures, assertions, panics, frames, exit codes, summaries.

A line is looked at only when a stage wants to drop it, so the price of the guard grows with what
is dropped. One linear-time pattern over the dropped lines finds candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import re2

from penumbra.text.size import encode

_WORDS = (
    r"(?:errors?|fatal|panic|panicked|fail|failed|failing|fails|failures?|assert|assertion|asserts"
    r"|exceptions?|traceback|abort|aborted|unhandled|uncaught|segfault|denied|refused|timed ?out"
    r"|undefined reference|cannot|can't|could not|not found|no such|unable to|rejected|conflicts?"
    r"|critical|corrupt\w*|killed|oomkilled|crashed|crashloopbackoff)"
)
_PATTERN = re2.compile(
    (
        rf"(?im)(?:\b{_WORDS}\b"
        r"|(?-i:\b[A-Z]\w*(?:Error|Exception|Warning)\b)"
        r"|\b(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode|status code)[ :=]+-?[0-9]+"
        r"|^ *File \"[^\"\n]+\", line [0-9]+"
        r"|^\s+at \S.*[(: ]\S+:[0-9]+"
        r"|\b[0-9]+ (?:passed|failed|errors?|warnings?|skipped|vulnerabilit|tests?|problems?)"
        r"|^ *(?:Tests?|Test Suites|Test Files|Suites|Snapshots|Summary|Total|Result|Ran)\b[^\n]{0,40}[0-9]"
        r"|^test result:"
        r"|^E {2,}\S"
        r"|✗|✘|❌|✖)"
    ).encode()
)
_LOCATION = re2.compile(rb"(?m)^\s*(?:[A-Za-z]:)?[\w./\\@+~-]+\.\w{1,8}[:(][0-9]+(?:[:,][0-9]+)?[:)]? +\S")
_LINE_LIMIT = 4_000
"""Characters of a line that are looked at: a longer line is data, not a message."""
_SEARCHES = 64
"""Lines that are looked for inside other lines before the answer is no: bounds the work."""


def is_critical(line: str) -> bool:
    """Whether this one line carries an error, a failure, a location of one, or a summary."""
    data = encode(line[:_LINE_LIMIT])
    return bool(_PATTERN.search(data))


def critical_lines(lines: Sequence[str]) -> Iterator[int]:
    """Positions of the critical lines, in order: less work than asking for each by itself."""
    data = encode("\n".join([line[:_LINE_LIMIT] for line in lines]))
    position = start = 0
    while (found := _PATTERN.search(data, start)) is not None:
        position += data.count(b"\n", start, found.start())
        # What was found may go over the line's end.
        if is_critical(lines[position]):
            yield position
        end = data.find(b"\n", found.start())
        if end < 0:
            return
        position, start = position + 1, end + 1


def critical_spans(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(start, end) of the critical lines that begin within `data[start:end]`, in order, in bytes.

    The span of a very long line covers the part around what makes it critical.
    """
    position = start
    while position < end:
        found = _PATTERN.search(data, position, end)
        if found is None:
            return
        left, right = found.span()
        line = data.rfind(b"\n", max(position, left - _LINE_LIMIT), left) + 1 or max(position, left - 80)
        stop = data.find(b"\n", right, right + _LINE_LIMIT)
        stop = stop if stop >= 0 else min(end, right + 200)
        yield line, min(stop, end)
        position = max(stop, right) + 1


def normal(line: str) -> str:
    """A line as the guard compares it: runs of blanks become one, the ends are trimmed."""
    return " ".join(line.split())


def keeps_critical(before: str, after: str) -> bool:
    """Whether every critical line of `before` still stands in `after`, as often as it did.

    A line counts as kept when it is a line of `after`, or a part of one, blanks aside.
    """
    wanted = Counter(map(normal, before.split("\n")))
    wanted.subtract(Counter(map(normal, after.split("\n"))))
    critical = [key for key, missing in wanted.items() if missing > 0 and key and is_critical(key)]
    if len(critical) > _SEARCHES:
        return False
    counts = Counter(map(normal, before.split("\n"))) if critical else Counter[str]()
    joined = normal(after) if critical else ""
    return all(joined.count(key) >= counts[key] for key in critical)
