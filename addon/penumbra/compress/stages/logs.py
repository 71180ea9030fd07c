"""This stage writes the common pattern of log lines once, and then only the values of each line.

    [patterns; "~A 1 2" is pattern A with 1 and 2 in its gaps]
    ~A 2026-01-02T03:04:{}Z INFO [worker-{}] job {} done
    [end of patterns]
    ~A 05.123 3 1234
    ~A 05.200 1 1235

The text can be restored. Lines that differ only in values (numbers, times, ids, hashes) share a pattern. A
common beginning of all values in a gap becomes part of the pattern. Critical lines stay unchanged. The time
is linear in the size of the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from penumbra.compress.critical_lines import CriticalLines
from penumbra.compress.text import Text

_VALUE = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.,]+)?(?:Z|[+-][0-9:]{2,5})?"  # dates, with times after a T
    r"|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|0x[0-9a-fA-F]+"
    r"|\b[0-9a-f]{8,}\b"
    r"|[0-9]+(?:[.:,/][0-9]+)*)"
)
_VALUE_CHARACTERS = b"0123456789abcdefABCDEFxTZ.:,/+-"
_COUNTS = re.compile(r"\b(?:lines?|times?)\b")
"""A line in brackets with one of these words stays, because it may be a marker of an earlier stage."""
FIRST = '[patterns; "~A 1 2" is pattern A with 1 and 2 in its gaps]'
LAST = "[end of patterns]"
_GAP = "\x00"
_HOLE = "{}"
_LEAST_LINES = 12
_LEAST_CHARACTERS = 2_000
"""A text with fewer characters stays unchanged."""
_LEAST_USES = 4
_LEAST_CONSTANT = 12
"""A pattern has at least this number of characters. Each gap counts as one."""
_MOST_VALUES = 12
_MOST_PATTERNS = 26 * 26
_LONGEST = 1_000
"""The length in characters of the longest log line."""


class _Pattern(Struct, frozen=True):
    name: str
    shown: str
    """The pattern with `{}` for each gap."""
    gaps: tuple[tuple[int, int] | None, ...]
    """For each gap, how many characters of its values the pattern contains at the beginning and at the end;
    None if the pattern contains the whole value."""


def factor(text: str) -> str | None:
    """Return the text with the patterns of its log lines written once; None if too little is saved."""
    lines = Text.of(text).lines
    if (
        len(lines) < _LEAST_LINES
        or len(text) < _LEAST_CHARACTERS
        or "\n~" in text
        or text[0] == "~"
        or _GAP in text
        or text.startswith(FIRST)
    ):
        return None
    if not _may_repeat(text, lines):
        return None
    cut = _cut(lines)
    members: dict[str, list[int]] = {}
    for position, match in enumerate(cut):
        if match is not None:
            members.setdefault(match[0], []).append(position)
    patterns: dict[str, _Pattern] = {}
    covered, critical = 0, CriticalLines()
    for constant, positions in members.items():
        if len(positions) < _LEAST_USES or len(constant) < _LEAST_CONSTANT or len(patterns) == _MOST_PATTERNS:
            continue
        for position in critical.among(lines, positions):
            cut[position] = None
        values = [match[1] for position in positions if (match := cut[position]) is not None]
        covered += len(positions)
        # A pattern with too few lines saves nothing.
        if len(values) >= _LEAST_USES:
            patterns[constant] = _pattern(_name(len(patterns)), constant, values)
    if 2 * covered < len(lines) or not any(_HOLE in pattern.shown for pattern in patterns.values()):
        return None
    legend = [f"~{pattern.name} {pattern.shown}" for pattern in patterns.values()]
    factored = "\n".join([FIRST, *legend, LAST, *_written(lines, cut, patterns)])
    return factored if len(factored) * 4 <= len(text) * 3 else None


def _may_repeat(text: str, lines: Sequence[str]) -> bool:
    """Return whether enough lines are equal without the characters that values may have."""
    remains = text.encode("utf-8", "surrogatepass").translate(None, _VALUE_CHARACTERS).split(b"\n")
    shortest, longest = _LEAST_CONSTANT, _LONGEST
    counts = Counter(
        [
            remaining
            for line, remaining in zip(lines, remains, strict=True)
            if shortest <= len(line) <= longest
        ]
    )
    return 2 * sum([count for count in counts.values() if count >= _LEAST_USES]) >= len(lines)


def _cut(lines: Sequence[str]) -> list[tuple[str, tuple[str, ...]] | None]:
    """Return (line with gaps, values) for each line; None for a line that stays."""
    cut: list[tuple[str, tuple[str, ...]] | None] = []
    for line in lines:
        stays = not _LEAST_CONSTANT <= len(line) <= _LONGEST or _HOLE in line
        stays = stays or (line[0] == "[" and line[-1] == "]" and _COUNTS.search(line) is not None)
        parts = [] if stays else _VALUE.split(line)
        is_cut = 1 < len(parts) <= 2 * _MOST_VALUES + 1
        cut.append((_GAP.join(parts[::2]), tuple(parts[1::2])) if is_cut else None)
    return cut


def _name(number: int) -> str:
    """Return the name of a pattern: A, B, ... Z, AA, AB, ..."""
    last = chr(ord("A") + number % 26)
    return last if number < 26 else chr(ord("A") + number // 26 - 1) + last


def _pattern(name: str, constant: str, values: Sequence[tuple[str, ...]]) -> _Pattern:
    parts = constant.split(_GAP)
    shown = parts[0]
    gaps: list[tuple[int, int] | None] = []
    for column, part in zip(zip(*values, strict=True), parts[1:], strict=True):
        if min(column) == max(column):
            gaps.append(None)
            shown += column[0] + part
            continue
        prefix, suffix = _shared(column)
        gaps.append((prefix, suffix))
        end = column[0][len(column[0]) - suffix :]
        shown += column[0][:prefix] + _HOLE + end + part
    return _Pattern(name, shown, tuple(gaps))


def _shared(column: Sequence[str]) -> tuple[int, int]:
    """Return how many characters the values of a column share at the beginning, up to a sign such as `:`, and
    at the end."""
    low, high = min(column), max(column)
    same = next((at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), 0)
    prefix = max([low.rfind(mark, 0, same) for mark in "T :.-/"]) + 1
    suffix = 1 if low[-1] == "Z" and all(value[-1] == "Z" for value in column) else 0
    return prefix, suffix


def _written(
    lines: list[str], cut: list[tuple[str, tuple[str, ...]] | None], patterns: dict[str, _Pattern]
) -> list[str]:
    written: list[str] = []
    for line, match in zip(lines, cut, strict=True):
        pattern = patterns.get(match[0]) if match else None
        if match is None or pattern is None:
            written.append(line)
            continue
        values = [
            value[gap[0] : len(value) - gap[1]]
            for value, gap in zip(match[1], pattern.gaps, strict=True)
            if gap is not None
        ]
        written.append(" ".join([f"~{pattern.name}", *values]))
    return written
