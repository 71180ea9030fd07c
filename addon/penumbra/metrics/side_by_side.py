"""Two texts line by line, one beside the other."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

_MOST_LINES = 2_000
"""Of each text: comparing takes time that grows with the square."""
_LONGEST = 2_000
"""Characters of a line."""
_NO_LETTERS = re.compile(r"[\W\d_]")
_LEAST_LETTERS = 4
"""Letters of a line that is looked for at the ends of longer ones."""
_MOST_COMPARED = 200_000
"""Pairs of different lines that are compared by their ends."""
_AROUND = 3
"""Equal lines that stay in sight on either side of a difference."""
Row = list[Any]
"""Kind, number and text on the left, number and text on the right; `gap` has a count of rows instead."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`kind` of a row: `same`, `changed`, `removed`, `added` or `gap`."""

    rows: list[Row]
    is_cut: bool
    """There is more than is shown."""


def compare(before: str, after: str) -> Comparison:
    """The rows of both texts."""
    left, right = before.split("\n"), after.split("\n")
    is_cut = max(len(left), len(right)) > _MOST_LINES
    left, right = left[:_MOST_LINES], right[:_MOST_LINES]
    rows: list[Row] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, left, right).get_opcodes():
        if kind == "equal":
            rows += _equal(left, a, b, c, first=a == 0, last=b == len(left))
            continue
        for old, new in _pairs(left[a:b], right[c:d]):
            name = "removed" if new is None else "added" if old is None else "changed"
            old, new = old and old + a, new and new + c
            rows.append([name, *_side(left, old), *_side(right, new)])
    return Comparison(rows, is_cut)


def _pairs(left: list[str], right: list[str]) -> Iterator[tuple[int | None, int | None]]:
    """Pair different lines, by 1-based number: a line of the right with one that ends in the same letters.
    Other lines of the right, such as a mark of what is left out, begin beside the first line they replace."""
    before, after = ([_NO_LETTERS.sub("", line) for line in lines] for lines in (left, right))
    endings = dict.fromkeys(before)
    if len(endings) * len(set(after)) <= _MOST_COMPARED:
        whole = {key: next((each for each in endings if each.endswith(key)), key) for key in set(after)}
        after = [whole[key] if len(key) >= _LEAST_LETTERS else key for key in after]
    for _, a, b, c, d in difflib.SequenceMatcher(None, before, after).get_opcodes():
        yield from zip_longest(range(a + 1, b + 1), range(c + 1, d + 1))


def _equal(left: list[str], a: int, b: int, c: int, *, first: bool, last: bool) -> list[Row]:
    rows: list[Row] = [["same", n + 1, _line(left[n]), n - a + c + 1, _line(left[n])] for n in range(a, b)]
    head, tail = (0 if first else _AROUND), (0 if last else _AROUND)
    hidden = len(rows) - head - tail
    if hidden <= 1:
        return rows
    return [*rows[:head], ["gap", hidden], *(rows[-tail:] if tail else [])]


def _side(lines: list[str], index: int | None) -> Row:
    return [None, None] if index is None else [index, _line(lines[index - 1])]


def _line(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
