"""This stage writes consecutive equal lines, or groups of lines, once with a count.

    waiting for the server
    [the line above 41 more times]

The text can be restored from the counts. A text that already contains such a marker stays unchanged, so
that every marker is true.

Another stage (`trim`) removes needless blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby, islice
from operator import eq

from penumbra.compress import time_budget
from penumbra.compress.text import Text

_LONGEST_CYCLE = 8
_BLANK_ENDS = (" ", "\t", " \r", "\t\r")
_COUNT = re.compile(r"\[the (?:line|([0-9]{1,7}) lines) above [0-9]+ more times?\]")
_EMPTY_LINES = re.compile(r"\n(?:\r?\n)+(\r?)\n")


def fold(text: str) -> str | None:
    """Return the text with counts in place of repetitions; None if no count would be shorter, or if the text
    already has counts."""
    lines = Text.of(text).lines
    runs = sorted(_runs(lines)) if len({*lines}) < len(lines) else []
    if not runs or (" more time" in text and any(map(_COUNT.fullmatch, lines))):
        return None
    folded: list[str] = []
    done = 0
    while runs:
        start, period, end = heappop(runs)
        if start < done:
            if done + 2 * period <= end:
                heappush(runs, (done, period, end))
            continue
        repeats = (end - start) // period - 1
        saved = (sum(map(len, lines[start : start + period])) + period) * repeats
        if repeats * period > 1 and saved > len(marker := _marker(period, repeats)) + 1:
            folded += [*lines[done : start + period], marker]
            done = start + period * (repeats + 1)
    folded += lines[done:]
    return "\n".join(folded) if len(folded) < len(lines) else None


def _runs(lines: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield (first line, period, line after the last line) of each run of lines in which a group of `period`
    lines stands at least twice."""
    for period in range(1, _LONGEST_CYCLE + 1):
        if len(lines) > time_budget.PIECE:
            time_budget.check()
        at = 0
        for is_same, run in groupby(map(eq, lines, islice(lines, period, None))):
            length = len([*run])
            if is_same and length >= period:
                yield at, period, at + length + period
            at += length


def _marker(period: int, repeats: int) -> str:
    what = "line" if period == 1 else f"{period} lines"
    return f"[the {what} above {repeats} more {'time' if repeats == 1 else 'times'}]"


def counted_lines(lines: Sequence[str]) -> dict[int, int]:
    """Map the position of each marker to the position of the first line that the marker counts. A line that
    looks like a marker, but would count too many lines or another marker, is text."""
    found = {at: _COUNT.fullmatch(line) for at, line in enumerate(lines) if line.startswith("[the ")}
    periods = {at: int(count[1] or 1) for at, count in found.items() if count is not None}
    return {
        at: max(0, at - period)
        for at, period in periods.items()
        if period <= _LONGEST_CYCLE and periods.keys().isdisjoint(range(at - period, at))
    }


def trim(text: str) -> str | None:
    """Return the text without blanks at line ends, and with one empty line in place of several; None if
    nothing changes. Line breaks stay LF or CRLF."""
    trimmed = text
    # A search for one character is faster than a search for two.
    has_returns = "\r" in text
    if (
        " \n" in text
        or ("\t" in text and "\t\n" in text)
        or (has_returns and (" \r\n" in text or "\t\r\n" in text))
        or text[-1:] in (" ", "\t")
    ):
        trimmed = "\n".join([_trim_end(line) for line in text.split("\n")])
    if "\n\n\n" in trimmed or (has_returns and "\n\r\n\r\n" in trimmed):
        trimmed = _EMPTY_LINES.sub(r"\n\1\n", trimmed)
    return None if trimmed == text else trimmed


def _trim_end(line: str) -> str:
    if not line.endswith(_BLANK_ENDS):
        return line
    ending = "\r" if line.rstrip(" \t").endswith("\r") else ""
    return line.rstrip(" \t\r") + ending
