"""This module writes JSON as rows with shortened cells, and finds rows that differ from most rows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, islice, repeat, zip_longest
from statistics import median

from penumbra.compress.size import cut, size
from penumbra.compress.stages import json_prune, json_table

_LEAST_ROWS = 12
"""The smallest number of rows of a table without a header."""
_LONGEST = 400
"""Rows are cut to at least this number of characters if not all of them fit."""
_FEW = 160
"""If all rows together may have at least this number of bytes each, rows are shortened further, so that all
fit."""
_SHORTEST = 20
"""A cut cell keeps at least this number of characters."""
_NOTE = 29
"""The usual length in bytes of the mark for the missing part of a cell."""
_HEADS = 3
"""The lines above rows get the limit divided by this number together, but at least 800 characters each."""
_LOOKED_AT = 50
"""Separators are counted in this number of lines at the beginning."""
_COLUMNS = 30
"""At most this number of a table's columns is compared."""
_FAR = 20
"""A number is odd if it is this many times further from the median than usual."""
_BLANKS = re.compile(" {2,}")
_LEAST_CELLS = 3
"""The smallest number of cells in a row."""
_WORDS = 8
"""In each line, this number of words at the beginning is compared."""
_NOTHING = re.compile(r"0+(?:\.0+)?%?")
_KINDS = dict.fromkeys("0123456789-", "number") | {sign: sign for sign in ("{", "[", "(", "<", "")}
"""The kind of a value by its first character."""
_TRUTHS = {"null": "null", "true": "truth", "false": "truth"}
_HEADER = re.compile(r"\[(?:table [0-9]+: [0-9]+ objects|[0-9]+ lines of JSON)[;\]]")


def rows(text: str, space: int) -> tuple[list[str], list[int]] | None:
    """Return the rows of a JSON text, and for each row the number of the line with its columns, or else its
    own number. Long rows are shortened so that more rows fit into `space` bytes. Return None if the text has
    no header and fewer than 12 rows."""
    lines = _lines(text)
    starts = [number for number, line in enumerate(lines) if _HEADER.match(line)]
    if len(lines) < _LEAST_ROWS and not starts:
        return None
    starts = starts if starts and starts[0] <= 2 else []
    heads = {*starts, *range(starts[0] if starts else 0)}
    above = [
        starts[max(0, bisect_right(starts, number) - 1)] if starts else number for number in range(len(lines))
    ]
    longest = max(2 * _LONGEST, space // _HEADS // max(1, len(heads)))
    shorter = {number: _short(lines[number], longest) for number in heads}
    left = space - sum(size(line) + 1 for line in shorter.values())
    count = max(1, len(lines) - len(heads))
    widths = [left // count - cells * (_NOTE + 3) for cells in (1, 2, 4, 8, 16) if left // count >= _FEW]
    every: list[str] = []
    for longest in (*widths, max(_LONGEST, left // count - 2 * _NOTE - 4)):
        every = [
            shorter[at] if at in heads else _in_part(line, lines[at - 1] if at else "", longest)
            for at, line in enumerate(lines)
        ]
        if sum(size(line) + 1 for line in every) <= space:
            break
    return every, above


def is_separated(text: str) -> bool:
    """Return whether a text consists of values between tabs, bars, commas or semicolons."""
    return bool(_separator(text.split("\n", _LOOKED_AT)[:_LOOKED_AT]))


def _separator(lines: Sequence[str]) -> str:
    """Return a mark that nearly all of the first lines contain equally often, at least twice; else empty."""
    first = lines[:_LOOKED_AT]
    for mark in ("\t", "|", "│", ",", ";"):
        count = lines[0].count(mark)
        if count >= 2 and sum(line.count(mark) == count for line in first) * 10 >= 9 * len(first):
            return mark
    return ""


def _lines(text: str) -> list[str]:
    """Return the lines of the tables in a JSON text, or the text's own lines; empty for a single line."""
    if text.startswith("[table 1: ") or "\n[table 1: " in text[:2_000]:
        return text.rstrip("\n").split("\n")
    if (tables := json_table.to_tables(text)) is not None:
        return tables.split("\n")
    lines = text.strip().split("\n")
    return lines if len(lines) > 1 else []


def odd(lines: Sequence[str]) -> list[int]:
    """Return the positions of the lines with an odd value in a column, the oddest first. Cells are compared
    among lines with equally many cells between separators, tabs or runs of blanks. Words are compared among
    lines of which nearly all have the same word at one position."""
    found: Counter[int] = Counter()
    for mark in {"\t", "  ", _separator(lines)} - {""}:
        by_width: dict[int, dict[int, list[str]]] = {}
        for at, line in enumerate(lines):
            if line.count(mark) >= _LEAST_CELLS - 1 and len(line) <= _LONGEST:
                cells = _BLANKS.split(line.strip()) if mark == "  " else line.strip().split(mark)
                if len(cells) >= _LEAST_CELLS:
                    by_width.setdefault(len(cells), {})[at] = cells
        for group in by_width.values():
            found.update(_odd_rows(group))
    words = [line[:_LONGEST].replace("=", " ").split(maxsplit=_WORDS)[:_WORDS] for line in lines]
    by_first: dict[tuple[str, ...], dict[int, list[str]]] = {}
    for at, row in enumerate(words):
        for first in (1, 2) if len(row) > 1 else ():
            by_first.setdefault(tuple(row[:first]), {})[at] = row
    long = {at: row for at, row in enumerate(words) if len(row) > 1}
    for group in (*by_first.values(), long):
        if len(group) >= _LEAST_ROWS:
            found.update(_odd_rows(group, by_words=True))
    return sorted(found, key=lambda at: (-found[at], at))


def _odd_rows(rows: Mapping[int, Sequence[str]], *, by_words: bool = False) -> list[int]:
    """Return the position of each row, once for each odd cell of the row; empty if the rows are no table."""
    if len(rows) < _LEAST_ROWS:
        return []
    widths = sorted(map(len, rows.values()))
    least, most = widths[len(rows) // 20], widths[-len(rows) // 20]
    # If nearly all rows have the same number of cells, more cells in a row are a remark.
    count = _COLUMNS if least == most else least
    columns = islice(zip_longest(*rows.values(), fillvalue=""), min(count, _COLUMNS))
    counted = [(column, Counter(column)) for column in columns]
    if by_words and not any(max(counts.values()) * 10 >= 9 * len(rows) for _, counts in counted):
        return []
    positions = list(rows)
    found: list[int] = []
    for column, counts in counted:
        if values := _odd_values(counts):
            found += [positions[at] for at, value in enumerate(column) if value in values]
    return found


def _odd_values(counts: Mapping[str, int]) -> set[str]:
    """Return the odd values of a column: values of a rare type (such as text, missing or zero), and numbers
    far from the median. If values repeat, rare values are also odd. `counts` has the number of occurrences of
    each value."""
    total, most = sum(counts.values()), max(counts.values())
    kinds = {value: _kind(value) for value in counts}
    of_kinds: Counter[str] = Counter()
    for value, kind in kinds.items():
        of_kinds[kind] += counts[value]
    odd = {value for value, kind in kinds.items() if of_kinds[kind] * 20 <= total}
    if len(counts) * 10 <= total:
        odd.update(value for value, count in counts.items() if count * 50 <= total)
    if most * 10 >= 9 * total:
        odd.update(value for value, count in counts.items() if count < most)
    try:
        numbers = {value: float(value) for value in counts}
    except ValueError:
        return odd
    middle = median([numbers[value] for value, count in counts.items() for _ in range(count)])
    distances = {value: abs(number - middle) for value, number in numbers.items()}
    usual = median([distances[value] for value, count in counts.items() for _ in range(count)])
    return odd | {value for value, distance in distances.items() if usual and distance > _FAR * usual}


def _kind(value: str) -> str:
    return _TRUTHS.get(value) or ("nothing" if _NOTHING.fullmatch(value) else _KINDS.get(value[:1], "text"))


def _short(row: str, longest: int) -> str:
    """Return a row in about `longest` characters. Only long cells are cut, so that ids and names stay."""
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


def _in_part(row: str, above: str, longest: int) -> str:
    """Return a row in about `longest` characters. A cell with JSON stays JSON if it fits without the members
    that the row `above` has, too."""
    short = _short(row, longest)
    if short is row:
        return row
    earlier_cells = chain(above.split("\t"), repeat(""))
    cells = zip(row.split("\t"), short.split("\t"), earlier_cells, strict=False)
    return "\t".join(
        cell if cell == part else json_prune.prune(cell, size(part), above=earlier) or part
        for cell, part, earlier in cells
    )
