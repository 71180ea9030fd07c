"""A sample of rows that are too many: JSON tables and lines, and separated values (CSV, TSV).

Rows that tell of errors, rows with a rare value in a column, the first and the last ones are kept, then those
that tell most of what is new; the rest is counted where it stood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from penumbra.compress import failure_lines
from penumbra.compress.size import encode, size
from penumbra.compress.stages import json_table
from penumbra.compress.stages.new_facts import Facts

_ENDS = 3
"""Rows that are kept at each end of a table."""
_LONGEST = 400
"""Characters of a row that are shown in any case; where the rows are few, more of each."""
_NOBODY: Mapping[str, float] = MappingProxyType({})
"""No name that was said before."""
_SHORTEST = 20
"""Characters to which no cell is cut down further."""
_NOTE = 29
"""Bytes of what is said about rows that are left out in front of one."""
_LOOKED_AT = 50
"""Lines whose separators are counted."""


def sample(text: str, room: int, mentioned: Mapping[str, float] = _NOBODY) -> str | None:
    """The JSON within `room` bytes; None if it is not made of rows."""
    lines = _lines(text)
    if len(lines) < 4 * _ENDS:
        return None
    header, rows = lines[: _headers(lines)], lines[_headers(lines) :]
    header = [_short(line, 2 * _LONGEST) for line in header]
    room -= sum(size(line) + 1 for line in header) + 60
    rows = _bounded(rows, room)
    chosen = _choose(rows, room, mentioned)
    return "\n".join([*header, *_written(rows, chosen)]) if chosen else None


def sample_separated(text: str, room: int, mentioned: Mapping[str, float] = _NOBODY) -> str | None:
    """Values between commas, tabs or bars within `room` bytes; None if the text is not that."""
    lines = text.rstrip("\n").split("\n")
    separator = _separator(lines)
    if not separator or len(lines) < 4 * _ENDS:
        return None
    header = _short(lines[0], _LONGEST)
    room -= size(header) + 60
    rows = _bounded(lines[1:], room)
    chosen = _choose(rows, room, mentioned)
    return "\n".join([header, *_written(rows, chosen)]) if chosen else None


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


def _choose(rows: list[str], room: int, mentioned: Mapping[str, float]) -> list[int]:
    """The rows that fit: both ends, errors, rare ones, then those that tell most of what is new."""
    ends = [*range(min(_ENDS, len(rows))), *range(max(0, len(rows) - _ENDS), len(rows))]
    costs = [size(row) + 1 + _NOTE for row in rows]
    chosen: set[int] = set()
    for at in dict.fromkeys([*ends, *failure_lines.ranked(rows), *_rare(rows)]):
        if costs[at] > room:
            return sorted(chosen)
        room -= costs[at]
        chosen.add(at)
    others = [at for at in range(len(rows)) if at not in chosen]
    facts = Facts.of([encode(rows[at]) for at in others], mentioned)
    chosen |= {others[index] for index in facts.fill([costs[at] for at in others], room)}
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
        written.append(rows[at])
        last = at
    if last + 1 < len(rows):
        written.append(f"[{len(rows) - last - 1} rows left out]")
    return written


def _bounded(rows: list[str], room: int) -> list[str]:
    """The rows, none of them longer than its share of the room, or than what is shown in any case."""
    longest = max(_LONGEST, room // max(1, len(rows)) - 2 * _NOTE - 4)
    return [_short(row, longest) for row in rows]


def _short(row: str, longest: int) -> str:
    """A row in about `longest` characters: of its cells the long ones are cut, so that ids and names stay."""
    if len(row) <= longest:
        return row
    cells = row.split("\t")
    lengths = sorted(map(len, cells))
    left, most = longest, 0
    for number, length in enumerate(lengths):
        most = left // (len(lengths) - number)
        if length > most:
            break
        left -= length
    return "\t".join(_cut(cell, max(most, _SHORTEST)) for cell in cells)


def _cut(cell: str, most: int) -> str:
    if len(cell) <= most + _NOTE:
        return cell
    start, end = cell[: most - most // 4], cell[-(most // 4) :]
    return f"{start} [{len(cell) - len(start) - len(end)} characters left out] {end}"
