"""Readers of the lines in a result that count what was left out."""

import re
from dataclasses import dataclass

_LEFT_OUT = re.compile(r"\[(\d+) (line|row|byte)s? left out(?:[:,;] [^\n]*| [^\n\]]*)?\]")


@dataclass(frozen=True)
class Mark:
    """A `Mark` counts lines, rows or bytes."""

    count: int
    unit: str


def read(text: str) -> list[Mark]:
    """Yield the marks in a text, in order."""
    found = (_LEFT_OUT.fullmatch(line) for line in text.split("\n"))
    return [Mark(int(one[1]), one[2]) for one in found if one]


def left_out(text: str) -> int:
    """Return the lines, rows and bytes that the marks count."""
    return sum(mark.count for mark in read(text))
