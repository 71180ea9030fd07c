"""Numbered lines of a file, with every tenth number kept.

    [every 10th line is numbered]
    1→import os
    import sys
    ...
    10→def main():

Read tools put a number in front of each line, which costs about a fifth of the tokens of a read.
Lines between two numbered ones count up, so nothing is lost, and the text of a line is exactly
what stands in the file: it can be quoted in an edit. A run's first and last lines keep their
numbers. The padding of the numbers goes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

LEGEND = "[every 10th line is numbered]"
_STEP = 10
_SHORTEST = 8
"""Numbered lines below which nothing is done."""
_HEADER = 40
"""Lines in which the first numbers must stand."""
_PREFIX = re.compile(r"[ \t]{0,8}([0-9]{1,7})(→|\t|: |\| |\|)")


@dataclass(frozen=True, slots=True)
class Numbered:
    """A line with a number in front."""

    number: int
    separator: str
    content: str


def thin(text: str) -> str | None:
    """The text with every tenth line number; None if its lines are not numbered.

    None, too, where the numbers could not be told back: lines that look numbered without being
    so, numbers that jump over as many lines as stand there without one.
    """
    lines = text.split("\n")
    separator = "" if lines[0] == LEGEND else separator_of(lines)
    if not separator:
        return None
    parsed = [parse(line, separator) for line in lines]
    count = sum(line is not None for line in parsed)
    if count < _SHORTEST:
        return None
    if any(line is not None and parse(line.content, separator) for line in parsed):
        return None
    thinned = [_thinned(lines, parsed, position) for position in range(len(lines))]
    if 2 * sum(parse(line, separator) is not None for line in thinned) > count:
        return None
    expected = [line if found is None else _write(found) for line, found in zip(lines, parsed, strict=True)]
    if _restored(thinned, separator) != expected:
        return None
    return "\n".join([LEGEND, *thinned])


def restore(text: str) -> str:
    """What `thin` was given, but for the padding of its numbers; any other text as it is."""
    lines = text.split("\n")
    separator = separator_of(lines) if lines[0] == LEGEND else ""
    return "\n".join(_restored(lines, separator)[1:]) if separator else text


def unpad(text: str) -> str | None:
    """The text with all its line numbers, but without the blanks in front of them; None if it has none."""
    lines = text.split("\n")
    separator = separator_of(lines) if text[:1] in (" ", "\t") or "\n " in text else ""
    if not separator:
        return None
    parsed = [parse(line, separator) for line in lines]
    if sum(line is not None for line in parsed) < _SHORTEST:
        return None
    return "\n".join(
        line if found is None else _write(found) for line, found in zip(lines, parsed, strict=True)
    )


def split(text: str) -> tuple[list[int], list[str]]:
    """(numbers, contents) of the lines, numbered in full or thinned; a line without a number has 0."""
    lines = text.split("\n")
    separator = separator_of(lines)
    if separator and lines[0] == LEGEND:
        lines = _restored(lines, separator)
    parsed = [parse(line, separator) if separator else None for line in lines]
    numbers = [found.number if found else 0 for found in parsed]
    return numbers, [found.content if found else line for found, line in zip(parsed, lines, strict=True)]


def parse(line: str, separator: str = "") -> Numbered | None:
    """The line's number and content; None if it has no number with that separator (empty: any)."""
    found = _PREFIX.match(line)
    if found is None or (separator and found[2] != separator):
        return None
    return Numbered(int(found[1]), found[2], line[found.end() :])


def separator_of(lines: list[str]) -> str:
    """What stands between number and content; empty if the lines are not numbered.

    Two of the first lines must have numbers that are as far apart as the lines are; below the
    legend one number is enough.
    """
    offsets: dict[str, int] = {}
    for position, line in enumerate(lines[:_HEADER]):
        found = parse(line)
        if found is None:
            continue
        offset = found.number - position
        if offsets.get(found.separator) == offset:
            return found.separator
        offsets[found.separator] = offset
    return next(iter(offsets), "") if lines[0] == LEGEND else ""


def _thinned(lines: list[str], parsed: list[Numbered | None], position: int) -> str:
    """One line of the result."""
    here = parsed[position]
    if here is None:
        return lines[position]
    before = parsed[position - 1] if position else None
    after = parsed[position + 1] if position + 1 < len(parsed) else None
    inside = before and after and before.number + 1 == here.number == after.number - 1
    return here.content if inside and here.number % _STEP else _write(here)


def _write(line: Numbered) -> str:
    return f"{line.number}{line.separator}{line.content}"


def _restored(lines: list[str], separator: str) -> list[str]:
    """The lines with every number written out."""
    marks = [(position, parse(line, separator)) for position, line in enumerate(lines)]
    numbered = [(position, found) for position, found in marks if found]
    restored = list(lines)
    for (left, first), (right, second) in pairwise(numbered):
        if second.number - first.number == right - left:
            for position in range(left + 1, right):
                number = first.number + position - left
                restored[position] = f"{number}{separator}{lines[position]}"
    return restored
