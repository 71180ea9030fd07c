"""This stage writes consecutive equal lines, or groups of lines, once with a count.

    waiting for the server
    [the line above 41 more times]

The text can be restored from the counts. A text that already contains such a marker stays unchanged, so
that every marker is true.

Another stage (`trim`) removes needless blanks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

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
    starts = _starts(lines)
    if not starts or (" more time" in text and any(map(_COUNT.fullmatch, lines))):
        return None
    folded: list[str] = []
    done = 0
    for number, position in enumerate(starts):
        if not (number + 1) % time_budget.PIECE:
            time_budget.check()
        if position < done:
            continue
        period, repeats = _cycle(lines, position)
        if repeats:
            folded += lines[done : position + period]
            folded.append(_marker(period, repeats))
            done = position + period * (repeats + 1)
    folded += lines[done:]
    return "\n".join(folded) if len(folded) < len(lines) else None


def _starts(lines: list[str]) -> list[int]:
    """Return the positions at which cycles may begin, in order. In a cycle's first repeat, each line equals a
    line shortly before. Before n consecutive lines of this kind, a cycle begins at most n lines earlier."""
    last: dict[str, int] = {}
    again: list[int] = []
    several = {line for line, times in Counter(lines).items() if times > 1}
    for position in [position for position, line in enumerate(lines) if line in several]:
        line = lines[position]
        if position - last.get(line, -_LONGEST_CYCLE - 1) <= _LONGEST_CYCLE:
            again.append(position)
        last[line] = position
    starts: set[int] = set()
    following = run = 0
    for position in reversed(again):
        run = min(run + 1, _LONGEST_CYCLE) if position + 1 == following else 1
        following = position
        first = max(0, position - run)
        starts.update(start for start in range(first, position) if lines[start] == lines[position])
    return sorted(starts)


def _cycle(lines: list[str], start: int) -> tuple[int, int]:
    """Return (period, further repeats) of the shortest cycle at `start` that is worth a marker, or (1, 0)."""
    first = lines[start]
    for period in range(1, _LONGEST_CYCLE + 1):
        following = start + period
        if following >= len(lines):
            break
        if lines[following] != first or lines[start:following] != lines[following : following + period]:
            continue
        repeats = _repeats(lines, start, period)
        saved = sum(map(len, lines[start:following])) + period
        if saved * repeats > len(_marker(period, repeats)) + 1 and repeats * period > 1:
            return period, repeats
    return 1, 0


def _repeats(lines: list[str], start: int, period: int) -> int:
    position = start + period
    while position < len(lines) and lines[position] == lines[position - period]:
        position += 1
    return (position - start) // period - 1


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
