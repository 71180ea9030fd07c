"""A sample of rows that are too many: JSON tables and lines, and separated values (CSV, TSV).

Rows that tell of errors, rows with a rare value in a column, the first and the last ones are kept;
the rest is counted where it stood.
"""

from __future__ import annotations

from collections import Counter

from penumbra.compress import failure_lines
from penumbra.compress.size import encode, head, size, tail
from penumbra.compress.stages import json_table

_ENDS = 3
"""Rows that are kept at each end of a table."""
_LONGEST = 400
"""Characters of a row that are shown."""
_LOOKED_AT = 50
"""Lines whose separators are counted."""


def sample(text: str, room: int) -> str | None:
    """The JSON within `room` bytes; None if it is not made of rows."""
    lines = _lines(text)
    if len(lines) < 4 * _ENDS:
        return None
    header, rows = lines[: _headers(lines)], lines[_headers(lines) :]
    room -= sum(min(size(line), 2 * _LONGEST) + 40 for line in header) + 60
    chosen = _choose(rows, room)
    if not chosen:
        return None
    return "\n".join([*map(_short, header), *_written(rows, chosen)])


def sample_separated(text: str, room: int) -> str | None:
    """Values between commas, tabs or bars within `room` bytes; None if the text is not that."""
    lines = text.rstrip("\n").split("\n")
    separator = _separator(lines)
    if not separator or len(lines) < 4 * _ENDS:
        return None
    chosen = _choose(lines[1:], room - size(_short(lines[0])) - 60)
    return "\n".join([_short(lines[0]), *_written(lines[1:], chosen)]) if chosen else None


def is_separated(text: str) -> bool:
    """Whether the text is values between commas, tabs or bars."""
    return bool(_separator(text.split("\n", _LOOKED_AT)[:_LOOKED_AT]))


def _separator(lines: list[str]) -> str:
    """What parts the cells: the mark that nearly all of the first lines have equally often."""
    head_lines = lines[:_LOOKED_AT]
    for mark in ("\t", "|", "│", ",", ";"):
        count = lines[0].count(mark)
        if count < 2:
            continue
        lines_with = sum(line.count(mark) == count for line in head_lines)
        if lines_with * 10 >= 9 * len(head_lines):
            return mark
    return ""


def _lines(text: str) -> list[str]:
    """One line for each row."""
    if text.startswith("[table 1: ") or "\n[table 1: " in text[:2_000]:
        return text.rstrip("\n").split("\n")
    tables = json_table.to_tables(text)
    if tables is not None:
        return tables.split("\n")
    lines = text.strip().split("\n")
    if len(lines) > 1:
        return lines
    return []


def _headers(lines: list[str]) -> int:
    """How many lines stand in front of the first row."""
    return next((at + 1 for at, line in enumerate(lines[:3]) if line.startswith("[table 1: ")), 0)


def _choose(rows: list[str], room: int) -> list[int]:
    """The rows that fit: both ends, errors, rare ones, then from the beginning on."""
    ends = [*range(min(_ENDS, len(rows))), *range(max(0, len(rows) - _ENDS), len(rows))]
    errors = failure_lines.ranked(rows)
    order = dict.fromkeys([*ends, *errors, *_rare(rows), *range(len(rows))])
    chosen: list[int] = []
    for at in order:
        room -= min(size(rows[at]), 2 * _LONGEST) + 30
        if room < 0:
            break
        chosen.append(at)
    return sorted(chosen)


def _rare(rows: list[str]) -> list[int]:
    """Rows with a value that few rows have, in a column of few values."""
    cells = [row.split("\t" if "\t" in row else ",") for row in rows]
    width = min(map(len, cells))
    rare: set[int] = set()
    for column in range(min(width, 30)):
        counts = Counter(row[column] for row in cells)
        if len(counts) * 10 <= len(rows):
            rare.update(at for at, row in enumerate(cells) if counts[row[column]] * 50 <= len(rows))
    return sorted(rare)


def _written(rows: list[str], chosen: list[int]) -> list[str]:
    written: list[str] = []
    last = -1
    for at in chosen:
        if at > last + 1:
            written.append(f"[{at - last - 1} rows left out]")
        written.append(_short(rows[at]))
        last = at
    if last + 1 < len(rows):
        written.append(f"[{len(rows) - last - 1} rows left out]")
    return written


def _short(row: str) -> str:
    if len(row) <= _LONGEST:
        return row
    start, end = head(row[: _LONGEST - 80], 2 * _LONGEST - 160), tail(row[-80:], 160)
    return f"{start} [{len(encode(row)) - size(start) - size(end)} bytes left out] {end}"
