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
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

LEGEND = "[every 10th line is numbered]"
_STEP = 10
_SHORTEST = 8
"""Numbered lines below which nothing is done."""
_HEADER = 40
"""Lines in which the first numbers must stand."""
_PREFIX = re.compile(r"[ \t]{0,8}([0-9]{1,7})(→|\t|: |\| |\|)")
_PREFIXES = {
    separator: re.compile(
        rf"[ \t]{{0,8}}([0-9]{{1,7}}){re.escape(separator)}{'(?! )' if separator == '|' else ''}"
    )
    for separator in ("→", "\t", ": ", "| ", "|")
}
_NONE = -9
"""The number of a line that has none."""


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
    separator = "" if LEGEND in lines[:_HEADER] else separator_of(lines)
    if not separator:
        return None
    numbers, contents = _numbered(lines, separator)
    count = len(lines) - numbers.count(_NONE)
    if count < _SHORTEST or _is_ambiguous(text, numbers, contents, separator):
        return None
    thinned = [LEGEND]
    kept = 0
    before = _NONE
    for line, number, content, after in zip(lines, numbers, contents, [*numbers[1:], _NONE], strict=True):
        if number == _NONE:
            thinned.append(line)
        elif number % _STEP and before + 1 == number == after - 1:
            thinned.append(content)
        else:
            thinned.append(f"{number}{separator}{content}")
            kept += 1
        before = number
    return "\n".join(thinned) if 2 * kept <= count else None


def _numbered(lines: list[str], separator: str) -> tuple[list[int], list[str]]:
    """(numbers, contents) of the lines; a line without a number has `_NONE`."""
    match = _PREFIXES[separator].match
    numbers: list[int] = []
    contents: list[str] = []
    for line in lines:
        found = match(line)
        if found is None:
            numbers.append(_NONE)
            contents.append(line)
        else:
            numbers.append(int(found[1]))
            contents.append(line[found.end() :])
    return numbers, contents


def _is_ambiguous(text: str, numbers: list[int], contents: list[str], separator: str) -> bool:
    """Whether a content looks numbered, or a gap in the numbers fits the lines that stand in it."""
    match = _PREFIXES[separator].match
    if text.count(separator) > len(numbers) - numbers.count(_NONE) and any(
        separator in content and match(content)
        for number, content in zip(numbers, contents, strict=True)
        if number != _NONE
    ):
        return True
    return any(
        left > 0 and right < len(numbers) and numbers[right] - numbers[left - 1] == right - left + 1
        for left, right in _gaps(numbers)
    )


def _gaps(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """(first, behind the last) of each run of lines without numbers."""
    right = 0
    for _ in range(numbers.count(_NONE)):
        try:
            left = numbers.index(_NONE, right)
        except ValueError:
            return
        right = left
        while right < len(numbers) and numbers[right] == _NONE:
            right += 1
        yield left, right


def restore(text: str) -> str:
    """What `thin` was given, but for the padding of its numbers; any other text as it is."""
    lines = text.split("\n")
    separator = separator_of(lines) if LEGEND in lines[:_HEADER] else ""
    if not separator:
        return text
    restored = _restored(lines, separator)
    restored.remove(LEGEND)
    return "\n".join(restored)


def unpad(text: str) -> str | None:
    """The text with all its line numbers, but without the blanks in front of them; None if it has none."""
    lines = text.split("\n")
    separator = separator_of(lines) if text[:1] in (" ", "\t") or "\n " in text else ""
    if not separator:
        return None
    numbers, contents = _numbered(lines, separator)
    if len(lines) - numbers.count(_NONE) < _SHORTEST:
        return None
    return "\n".join(
        content if number == _NONE else f"{number}{separator}{content}"
        for number, content in zip(numbers, contents, strict=True)
    )


def split(text: str) -> tuple[list[int], list[str]]:
    """(numbers, contents) of the lines, numbered in full or thinned; a line without a number has 0."""
    lines = text.split("\n")
    separator = separator_of(lines)
    if not separator:
        return [0] * len(lines), lines
    if LEGEND in lines[:_HEADER]:
        lines = _restored(lines, separator)
    numbers, contents = _numbered(lines, separator)
    return [max(0, number) for number in numbers], contents


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
    return next(iter(offsets), "") if LEGEND in lines[:_HEADER] else ""


def _restored(lines: list[str], separator: str) -> list[str]:
    """The lines with every number written out."""
    numbers, contents = _numbered(lines, separator)
    places = [position for position, number in enumerate(numbers) if number != _NONE]
    restored = [
        line if number == _NONE else f"{number}{separator}{content}"
        for line, number, content in zip(lines, numbers, contents, strict=True)
    ]
    for left, right in pairwise(places):
        if numbers[right] - numbers[left] == right - left:
            for position in range(left + 1, right):
                restored[position] = f"{numbers[left] + position - left}{separator}{lines[position]}"
    return restored
