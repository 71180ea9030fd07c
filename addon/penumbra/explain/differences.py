"""Two forms of a text as lines, removed ones and added ones marked."""

from __future__ import annotations

from penumbra.explain.text_lines import Line, Mark, bounded, note, plain
from penumbra.metrics import side_by_side
from penumbra.metrics.side_by_side import Row

_BLOCK = 60
"""Lines of one block that differs on one side."""


def lines(before: str, after: str) -> list[Line]:
    """What became of a text, both without their secrets."""
    compared = side_by_side.compare(before, after)
    shown: list[Line] = []
    left: list[Line] = []
    right: list[Line] = []
    for row in compared.rows:
        if row[0] in ("same", "gap"):
            shown += _block(left, right)
            left, right = [], []
            shown.append(_equal(row))
            continue
        _, number, old, other, new = row
        if number is not None:
            left.append(Line(Mark.REMOVED, f"  - {number:>5} {plain(old)}"))
        if other is not None:
            right.append(Line(Mark.ADDED, f"  + {other:>5} {plain(new)}"))
    shown += _block(left, right)
    if compared.is_cut:
        shown.append(note("        … the rest is not compared"))
    return shown


def _equal(row: Row) -> Line:
    if row[0] == "gap":
        return note(f"        … {row[1]:,} lines that are the same")
    return Line(Mark.TEXT, f"    {row[3]:>5} {plain(row[4])}")


def _block(left: list[Line], right: list[Line]) -> list[Line]:
    return [
        *bounded(left, _BLOCK, "lines of the original"),
        *bounded(right, 2 * _BLOCK, "lines that were sent"),
    ]
