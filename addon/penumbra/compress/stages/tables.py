"""Pipe tables (Markdown, psql, mysql, box drawing) without the blanks that only align them.

A table is a run of rows with the same number of bars, among them a rule (`|---|---|`,
`----+----`, `├──┼──┤`). Without a rule it may be code or a shell pipeline, and is left alone.
"""

from __future__ import annotations

import re

import re2

from penumbra.compress.size import encode
from penumbra.linear import LinearText

_ASCII = r"^[ \t]*(?:[|+]?[ \t]*:?-{2,}[-+|: \t=]*|\+[-=+]{2,}\+[ \t]*)$"
_ASCII_RULE = LinearText(_ASCII)
_BOX_RULE = LinearText(r"^[ \t]*[├┌└╞╔╚╠┼─═╪┬┴┤┐┘╡╗╝╣╬╦╩+]{3,}[ \t]*$")
_RULE = re2.compile(f"(?m){_ASCII}".encode())
"""Finds a rule in a text: without one there is no table."""
_ASCII_MARKS = frozenset("|+:-")
_BOX_MARKS = frozenset("├┌└╞╔╚╠┼─═╪┬┴┤┐┘╡╗╝╣╬╦╩+")
"""Beginnings of rules: a fast no for most lines."""
_LONGEST_RULE = 4_000
"""Characters of a line above which it rules no table that anybody reads."""
_DASHES = re.compile(r"-{4,}")
_BOX_DASHES = re.compile(r"([─═])\1{3,}")
_DOUBLE = re.compile(r"={4,}")


def tighten(text: str) -> str | None:
    """The text with its tables narrowed; None if it has none."""
    if "│" not in text and ("|" not in text or not _RULE.search(encode(text))):
        return None
    lines = text.split("\n")
    start = 0
    changed = False
    while start < len(lines):
        bar = _bar(lines[start])
        if not bar:
            start += 1
            continue
        end = start + 1
        while end < len(lines) and _bar(lines[end]) == bar:
            end += 1
        changed |= _tighten(lines, start, end, bar)
        start = end
    return "\n".join(lines) if changed else None


def _bar(line: str) -> str:
    """The character that separates the cells of this row or rule; empty if it is neither."""
    if "│" in line or _is_rule(line, "│"):
        return "│"
    if "|" in line or ("-+-" in line and _is_rule(line, "|")) or line.startswith("+-"):
        return "|"
    return ""


def _is_rule(line: str, bar: str) -> bool:
    marks, rule = (_ASCII_MARKS, _ASCII_RULE) if bar == "|" else (_BOX_MARKS, _BOX_RULE)
    return len(line) <= _LONGEST_RULE and line.lstrip(" \t")[:1] in marks and bool(rule.match(line))


def _tighten(lines: list[str], start: int, end: int, bar: str) -> bool:
    """Narrow the rows from `start` to `end` in place, if they are one table."""
    rules = [position for position in range(start, end) if _is_rule(lines[position], bar)]
    rows = [position for position in range(start, end) if not _is_rule(lines[position], bar)]
    if not rules or not rows or end - start < 3:
        return False
    if len({lines[position].count(bar) for position in rows}) != 1:
        return False
    for position in rows:
        lines[position] = _row(lines[position], bar)
    for position in rules:
        lines[position] = _BOX_DASHES.sub(r"\1\1\1", _DOUBLE.sub("===", _DASHES.sub("---", lines[position])))
    return True


def _row(line: str, bar: str) -> str:
    """One row with at most one blank on each side of a bar."""
    ending = "\r" if line.endswith("\r") else ""
    cells = line[: len(line) - len(ending)].split(bar)
    first = cells[0]
    tight = [_cell(cell) for cell in cells]
    if first.strip():
        # A line number may stand before the first bar: nothing is put beside it.
        tight[0] = " " * first.startswith(" ") + first.strip(" ") + " " * first.endswith(" ")
    else:
        tight[0] = first
    tight[-1] = tight[-1].rstrip(" ")
    return bar.join(tight) + ending


def _cell(cell: str) -> str:
    inner = cell.strip(" ")
    return f" {inner} " if inner else " "
