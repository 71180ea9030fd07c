"""Rows that are too many: JSON as rows with cells cut to their share, and rows that differ from others."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from statistics import median

from penumbra.compress.size import cut, size
from penumbra.compress.stages import json_prune, json_table

_ENDS = 3
"""Rows, as a quarter, below which lines are no table."""
_LONGEST = 400
"""Characters of a row that are shown in any case; where the rows are few, more of each."""
_FEW = 160
"""Bytes of room for each row with which the rows are few: all of them stay then, in part."""
_SHORTEST = 20
"""Characters to which no cell is cut down further."""
_NOTE = 29
"""Bytes of what is said about what is cut out of a cell."""
_HEADS = 3
"""Largest part of the size, as a divisor, for the lines above rows."""
_LOOKED_AT = 50
"""Lines whose separators are counted."""
_COLUMNS = 30
"""Columns in which it is looked what differs."""
_FAR = 20
"""Times the usual distance from the middle at which a number is far from all others."""
_HEADER = re.compile(r"\[(?:table [0-9]+: [0-9]+ objects|[0-9]+ lines of JSON)[;\]]")


def rows(text: str, room: int) -> tuple[list[str], list[int]] | None:
    """Return the rows of a JSON text, each of a length at which some fit into `room` bytes, and the number of
    the line that says what the cells of each are (its own where there is none); None if it has no rows."""
    lines = _lines(text)
    starts = [number for number, line in enumerate(lines) if _HEADER.match(line)]
    if len(lines) < 4 * _ENDS and not starts:
        return None
    starts = starts if starts and starts[0] <= 2 else []
    heads = {*starts, *range(starts[0] if starts else 0)}
    above = [
        starts[max(0, bisect_right(starts, number) - 1)] if starts else number for number in range(len(lines))
    ]
    longest = max(2 * _LONGEST, room // _HEADS // max(1, len(heads)))
    shorter = {number: _short(lines[number], longest) for number in heads}
    left = room - sum(size(line) + 1 for line in shorter.values())
    count = max(1, len(lines) - len(heads))
    for cells in (1, 2, 4, 8, 16) if left // count >= _FEW else ():
        longest = left // count - cells * (_NOTE + 3)
        every = [shorter[at] if at in heads else _in_part(line, longest) for at, line in enumerate(lines)]
        if sum(size(line) + 1 for line in every) <= room:
            return every, above
    longest = max(_LONGEST, left // count - 2 * _NOTE - 4)
    return [shorter[at] if at in heads else _in_part(line, longest) for at, line in enumerate(lines)], above


def is_separated(text: str) -> bool:
    """True if the text is values between commas, tabs or bars."""
    return bool(_separator(text.split("\n", _LOOKED_AT)[:_LOOKED_AT]))


def _separator(lines: Sequence[str]) -> str:
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


def odd(lines: Sequence[str]) -> list[int]:
    """Return the positions of lines that differ from others like them in a column, the oddest first.

    Lines are alike that have as many cells between tabs or runs of blanks, or of which nearly all have the
    same word at a place.
    """
    found: Counter[int] = Counter()
    marks = {_TAB, _BLANKS}
    if mark := _separator(lines):
        marks.add(re.compile(re.escape(mark)))
    for pattern in marks:
        found.update(
            _odd_by_width([pattern.split(line.strip()) if len(line) <= _LONGEST else [] for line in lines])
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


def _in_part(row: str, longest: int) -> str:
    """Return a row in about `longest` characters; its cells of JSON keep their form where there is room."""
    short = _short(row, longest)
    if short is row:
        return row
    pairs = zip(row.split("\t"), short.split("\t"), strict=True)
    return "\t".join(
        cell if cell == part else json_prune.prune(cell, size(part), is_cell=True) or part
        for cell, part in pairs
    )
