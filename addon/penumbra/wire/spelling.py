"""JSON as it is spelt: where a character stands in a string, what stands around a value."""

from __future__ import annotations

import re
from collections.abc import Iterable

SPACE = b" \t\n\r"
_BETWEEN_MEMBERS = re.compile(
    rb'[ \t\n\r]*+[{,][ \t\n\r]*+"(?:[^"\\]|\\.)*+"[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL
)
"""What stands in front of the value of one member, behind the value of the one before it."""
_CHARACTERS = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL
)
"""What stands in a JSON string for one character, or a run of characters that stand for themselves."""


def spelled(raw: str, at: int) -> int:
    """Where the character `at` of a string begins in its JSON spelling."""
    if "\\" not in raw:
        return at
    decoded = 0
    for match in _CHARACTERS.finditer(raw):
        length = 1 if match[0][0] == "\\" else len(match[0])
        if at < decoded + length:
            return match.start() + at - decoded
        decoded += length
    return len(raw)


def are_all_members(data: bytes, at: int, end: int, places: Iterable[tuple[int, int]]) -> bool:
    """Whether the object from `at` to `end` has no members but those whose values stand at these places."""
    for start, behind in places:
        if start < at or not _BETWEEN_MEMBERS.fullmatch(data, at, start):
            return False
        at = behind
    return data[at:end].strip(SPACE) == b"}"


def member_of(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Where the member stands whose value stands from `start` to `end`: its key, and one comma."""
    start = _string_start(data, _before(data, start, SPACE + b":") - 1)
    before = _before(data, start, SPACE)
    if data[before - 1 : before] == b",":
        return before - 1, end
    behind = _behind(data, end)
    if data[behind : behind + 1] == b",":
        return start, _behind(data, behind + 1)
    return start, end


# A look at the bytes around a place, and no copy of all that stands before or behind it: a document may
# have as many members to be removed as it has bytes.


def _before(data: bytes, at: int, skipped: bytes) -> int:
    """The offset behind the last byte before `at` that is none of these."""
    while at > 0 and data[at - 1] in skipped:
        at -= 1
    return at


def _behind(data: bytes, at: int) -> int:
    """The offset of the first byte from `at` on that is no white space."""
    while at < len(data) and data[at] in SPACE:
        at += 1
    return at


def _string_start(data: bytes, closing: int) -> int:
    """Offset of the quote that opens the string whose closing quote stands at `closing`."""
    at = closing
    while True:
        at = data.rindex(b'"', 0, at)
        if (at - _before(data, at, b"\\")) % 2 == 0:
            return at
