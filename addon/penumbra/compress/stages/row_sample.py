"""A sample of rows that are too many: JSON tables and lines, and separated values (CSV, TSV).

Each table has rows of its own in it. Rows that differ come first (those that tell of errors, then those with
a value of another type, a rare one or one far from all others in their column), then the first and the last
ones, then those that tell most of what is new; the rest is counted where it stood.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from statistics import median
from types import MappingProxyType

from penumbra.compress import failure_lines
from penumbra.compress.size import counted, cut, encode, size
from penumbra.compress.stages import json_prune, json_table
from penumbra.compress.stages.new_facts import Facts

_ENDS = 3
"""Rows that are kept at each end of a table."""
_LONGEST = 400
"""Characters of a row that are shown in any case; where the rows are few, more of each."""
_FEW = 160
"""Bytes of room for each row with which the rows are few: all of them stay then, in part."""
_MOST_BYTES = 4
"""Bytes that a character may have."""
_NOBODY: Mapping[str, float] = MappingProxyType({})
"""No name that was said before."""
_SHORTEST = 20
"""Characters to which no cell is cut down further."""
_NOTE = 29
"""Bytes of what is said about rows that are left out in front of one."""
_LOOKED_AT = 50
"""Lines whose separators are counted."""
_COLUMNS = 30
"""Columns in which it is looked what differs."""
_APART = 0.25
"""Part of a text that may be no rows."""
_DIFFERING = 0.75
"""Part of the room that rows may have because they differ."""
_FAR = 20
"""Times the usual distance from the middle at which a number is far from all others."""
_HEADER = re.compile(r"\[(?:table [0-9]+: [0-9]+ objects|[0-9]+ lines of JSON)[;\]]")


@dataclass(slots=True)
class _Table:
    """Rows of one table, and which of them are shown."""

    header: list[str]
    rows: list[str]
    apart: Sequence[int] = ()
    """Lines among them that are no rows, each run with the row in front of it; the last ones first."""
    whole: list[str] = field(default_factory=list)
    """The rows before long ones were cut."""
    chosen: set[int] = field(default_factory=set)
    notes: int = 0
    """The number of counts of remarks about others."""

    def head(self, longest: int) -> list[str]:
        """The text before the rows, in lines of about so many characters."""
        return [_short(line, longest) for line in self.header]

    def cost(self, at: int) -> int:
        """Bytes of a row, and of what is said about those in front of it."""
        is_beside = at - 1 in self.chosen or at + 1 in self.chosen
        return size(self.rows[at]) + 1 + (0 if is_beside else _NOTE)

    def spared(self) -> int:
        """Bytes that were counted for what is said about others and are not needed."""
        return _NOTE * (self.notes - sum(at - 1 not in self.chosen for at in self.chosen))

    def take(self, at: int, room: int) -> int:
        """Show a row if it fits into so many bytes; the bytes that are left."""
        if not 0 <= at < len(self.rows) or at in self.chosen or (cost := self.cost(at)) > room:
            return room
        self.notes += cost > size(self.rows[at]) + 1
        self.chosen.add(at)
        return room - cost

    def fill(self, room: int, mentioned: Mapping[str, float]) -> int:
        """Show the rows that tell most of what is new; the bytes that are left."""
        others = [at for at in range(len(self.rows)) if at not in self.chosen]
        facts = Facts.of([encode(self.rows[at]) for at in others], mentioned)
        costs = [size(self.rows[at]) + 1 + _NOTE for at in others]
        found = facts.fill(costs, room)
        self.chosen.update(others[index] for index in found)
        self.notes += len(found)
        return room - sum(costs[index] for index in found)


def sample(text: str, room: int, mentioned: Mapping[str, float] = _NOBODY) -> str | None:
    """The JSON within `room` bytes; None if it is not made of rows."""
    lines = _lines(text)
    tables = _tables(lines)
    if len(lines) < 4 * _ENDS and not any(table.header for table in tables):
        return None
    return _sampled(tables, room, mentioned)


def sample_separated(text: str, room: int, mentioned: Mapping[str, float] = _NOBODY) -> str | None:
    """Values between commas, tabs or bars within `room` bytes; None if the text is not that."""
    lines = text.rstrip("\n").split("\n")
    mark = _separator(lines)
    if not mark or len(lines) < 4 * _ENDS:
        return None
    rows = lines[1:]
    others = [at for at, line in enumerate(rows) if mark not in line]
    if len(others) > len(rows) * _APART:
        return None
    # A program's words among its rows are about the row before: a warning, the way in which the run broke
    # off.
    apart = sorted({*others, *(at - 1 for at in others if at)}, reverse=True)
    return _sampled([_Table([lines[0]], rows, apart)], room, mentioned)


def is_separated(text: str) -> bool:
    """True if the text is values between commas, tabs or bars."""
    return bool(_separator(text.split("\n", _LOOKED_AT)[:_LOOKED_AT]))


def _separator(lines: list[str]) -> str:
    """The mark between the cells: nearly all of the first lines have it equally often."""
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


def _tables(lines: list[str]) -> list[_Table]:
    """The lines by table; what stands in front of the first one belongs to it."""
    starts = [at for at, line in enumerate(lines) if _HEADER.match(line)]
    if not starts or starts[0] > 2:
        return [_Table([], lines)]
    begins = [0, *starts[1:]]
    return [
        _Table(lines[begin : start + 1], lines[start + 1 : end])
        for begin, start, end in zip(begins, starts, [*starts[1:], len(lines)], strict=True)
    ]


def _sampled(tables: Sequence[_Table], room: int, mentioned: Mapping[str, float]) -> str | None:
    """The tables within `room` bytes; None if there is no room for any row."""
    longest = 2 * _LONGEST
    left = room - sum(size(line) + 1 for table in tables for line in table.head(longest))
    rows = _every_row(tables, left) or _some_rows(tables, left - len(tables) * (_NOTE + 1), mentioned)
    if rows is None:
        return None
    # The space that the rows leave is for the text before them.
    left -= sum(size(line) + 1 for inside in rows for line in inside)
    long = sum(len(line) > longest for table in tables for line in table.header)
    for part in (long, _MOST_BYTES * long) if long else ():
        wider = _written_out(tables, rows, longest + max(0, left // part - _NOTE))
        if size(wider) <= room:
            return wider
    return _written_out(tables, rows, longest)


def _written_out(tables: Sequence[_Table], rows: Sequence[Sequence[str]], longest: int) -> str:
    """The tables with these lines below what stands in front of them."""
    parts = ((*table.head(longest), *inside) for table, inside in zip(tables, rows, strict=True))
    return "\n".join(chain.from_iterable(parts))


def _every_row(tables: Sequence[_Table], room: int) -> list[list[str]] | None:
    """All rows by table, cells cut; None if they are too many, or have too many cells."""
    each = room // max(1, sum(len(table.rows) for table in tables))
    for cells in (1, 2, 4, 8, 16) if each >= _FEW else ():
        longest = each - cells * (_NOTE + 3)
        rows = [[_in_part(row, _short(row, longest)) for row in table.rows] for table in tables]
        if sum(size(row) + 1 for inside in rows for row in inside) <= room:
            return rows
    return None


def _some_rows(tables: Sequence[_Table], room: int, mentioned: Mapping[str, float]) -> list[list[str]] | None:
    """The lines of each table with the rows that are chosen; None if there are none."""
    longest = _longest(sum(len(table.rows) for table in tables), room)
    for table in tables:
        table.whole, table.rows = table.rows, [_short(row, longest) for row in table.rows]
    differing = (
        [table.apart for table in tables],
        [failure_lines.ranked(table.rows) for table in tables],
        [_odd_rows(table.rows) for table in tables],
    )
    ends = [[*range(_ENDS), *range(len(table.rows) - _ENDS, len(table.rows))] for table in tables]
    spared = room - int(room * _DIFFERING)
    room = spared + _take(tables, differing, room - spared)
    room = _take(tables, (ends, *differing), room)
    for number, table in enumerate(tables):
        share = room // (len(tables) - number)
        room -= share - table.fill(share, mentioned)
    if not any(table.chosen for table in tables):
        return None
    # Where rows that are shown stand side by side, nothing is said about others between them.
    room += sum(table.spared() for table in tables)
    _take(tables, [[range(len(table.rows)) for table in tables]], room)
    return [list(_written(table)) for table in tables]


def _take(tables: Sequence[_Table], wishes: Iterable[Sequence[Iterable[int]]], room: int) -> int:
    """Show rows as long as there is room, wish after wish, the tables taking turns. The bytes left."""
    for wish in wishes:
        for turn in zip_longest(*wish):
            for table, at in zip(tables, turn, strict=True):
                room = table.take(at, room) if at is not None else room
    return room


def _odd_rows(rows: Sequence[str]) -> list[int]:
    """The positions of the rows of a table that differ from others in a column, in order."""
    marks = ("\t", "|", "│", ",")
    cells = [row.split(next((mark for mark in marks if mark in row), None)) for row in rows]
    return sorted(set(_odd_by_width(cells)))


def odd(lines: Sequence[str]) -> list[int]:
    """Return the positions of lines that differ from others like them in a column, the oddest first.

    Lines are alike that have as many cells between tabs or runs of blanks, or of which nearly all have the
    same word at a place.
    """
    found: Counter[int] = Counter()
    for mark in (_TAB, _BLANKS):
        found.update(
            _odd_by_width([mark.split(line.strip()) if len(line) <= _LONGEST else [] for line in lines])
        )
    words = [line[:_LONGEST].split(maxsplit=_WORDS)[:_WORDS] for line in lines]
    by_first: dict[tuple[str, ...], list[int]] = {}
    for at, row in enumerate(words):
        for first in (1, 2) if len(row) > 1 else ():
            by_first.setdefault(tuple(row[:first]), []).append(at)
    long = [at for at, row in enumerate(words) if len(row) >= _LEAST_CELLS]
    for group in (*by_first.values(), long):
        found.update(_odd_of(group, [words[at] for at in group], by_words=True))
    return sorted(found, key=lambda at: (-found[at], at))


def _odd_by_width(cells: Sequence[Sequence[str]]) -> Iterator[int]:
    """The positions of rows that differ from those with as many cells, as often as they do."""
    by_width: dict[int, list[int]] = {}
    for at, row in enumerate(cells):
        if len(row) >= _LEAST_CELLS:
            by_width.setdefault(len(row), []).append(at)
    for group in by_width.values():
        yield from _odd_of(group, [cells[at] for at in group])


def _odd_of(group: Sequence[int], rows: Sequence[Sequence[str]], *, by_words: bool = False) -> list[int]:
    """The positions of odd rows in a group, each as often as it has odd cells; none if they are no table."""
    if len(group) < 4 * _ENDS:
        return []
    width = Counter(map(len, rows)).most_common(1)[0]
    # Where nearly all rows end at the same cell, what another has beyond it is a remark.
    are_even = width[1] * 10 >= 9 * len(rows)
    columns = list(zip_longest(*rows, fillvalue="") if are_even else zip(*rows, strict=False))[:_COLUMNS]
    if by_words and not any(Counter(column).most_common(1)[0][1] * 10 >= 9 * len(rows) for column in columns):
        return []
    return [group[at] for column in columns for at in _odd_in(column)]


def _odd_in(values: Sequence[str]) -> set[int]:
    """The positions of values of another type, rare ones among few, and numbers far from all others."""
    counts = Counter(values)
    odd = {*_of_other_type(values), *_far(values)}
    if len(counts) * 10 <= len(values):
        odd.update(at for at, value in enumerate(values) if counts[value] * 50 <= len(values))
    if counts.most_common(1)[0][1] * 10 >= 9 * len(values):
        usual = counts.most_common(1)[0][0]
        odd.update(at for at, value in enumerate(values) if value != usual)
    return odd


_TAB, _BLANKS = re.compile("\t"), re.compile(" {2,}")
_LEAST_CELLS = 3
"""Cells of a line that is a row."""
_WORDS = 8
"""Words at the beginning of a line that are compared."""
_NOTHING = re.compile(r"0+(?:\.0+)?%?")
_KINDS = {
    **dict.fromkeys("0123456789-", "number"),
    "": "",
    "{": "object",
    "[": "array",
    "(": "remark",
    "<": "name",
}
_TRUTHS = {"null": "null", "true": "truth", "false": "truth"}


def _kind(value: str) -> str:
    return _TRUTHS.get(value) or ("nothing" if _NOTHING.fullmatch(value) else _KINDS.get(value[:1], "text"))


def _of_other_type(values: Sequence[str]) -> Iterator[int]:
    """Values that are null, nothing, missing or of another type where nearly all others are not."""
    kinds = list(map(_kind, values))
    counts = Counter(kinds)
    return (at for at, kind in enumerate(kinds) if counts[kind] * 20 <= len(values))


def _far(values: Sequence[str]) -> Iterator[int]:
    """Numbers that are far from all others of their column."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return
    middle = median(numbers)
    usual = median(abs(number - middle) for number in numbers)
    for at, number in enumerate(numbers):
        if usual and abs(number - middle) > _FAR * usual:
            yield at


def _written(table: _Table) -> Iterator[str]:
    last = -1
    for at in (*sorted(table.chosen), len(table.rows)):
        if at > last + 1:
            yield f"[{counted(at - last - 1, 'line' if table.apart else 'row')} left out]"
        if at < len(table.rows):
            yield _in_part(table.whole[at], table.rows[at])
        last = at


def _longest(rows: int, room: int) -> int:
    """Characters of a row: its share of the room, or what is shown in any case."""
    return max(_LONGEST, room // max(1, rows) - 2 * _NOTE - 4)


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
    most = max(most, _SHORTEST)
    return "\t".join(cut(cell, most - most // 4, most // 4) if len(cell) > most else cell for cell in cells)


def _in_part(row: str, short: str) -> str:
    """Return a row that was cut to `short`; its cells of JSON keep their form where there is room for it."""
    if short == row:
        return row
    pairs = zip(row.split("\t"), short.split("\t"), strict=True)
    return "\t".join(
        cell if cell == part else json_prune.prune(cell, size(part), is_cell=True) or part
        for cell, part in pairs
    )
