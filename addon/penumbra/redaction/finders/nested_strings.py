"""Where a string of JSON ends that may itself stand in one: each level doubles the backslashes.

What closes a string n levels down has 2**n - 1 backslashes, behind those of its content, which come in
multiples of twice 2**n. So the level of a quote is how often one more than its backslashes can be halved.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(rb"(?<!\\)(\\++)(\"|u0022)")
_NEW_LINES = re.compile(rb"\n|(?<!\\)(\\++)n")
_LONGEST_ESCAPE = 64
"""Backslashes in front of a quote that are counted."""
_REACH = 256


def end_of_string(data: bytes, at: int, end: int, *, closed: bool) -> int:
    """Where the value from `at` to `end` ends that other quotes opened, `closed` if they stand behind it.

    If they stand there within the same string, that is `end`; else the first escaped quote. The quote before
    `at` is one of the string, or of a deeper one that has ended: what is not deeper ends the string. Reading
    back is linear in all: each time it stops at an escaped quote of the time before.
    """
    quotes = list(_ESCAPED.finditer(data, at, end))
    if not quotes:
        return end
    if closed:
        level = _level(data, at)
        if all(_escape(len(quote[1]), bare=quote[2] == b'"')[0] > level for quote in quotes):
            return end
    first = quotes[0]
    return first.end(1) - _escape(len(first[1]), bare=first[2] == b'"')[1]


def _level(data: bytes, at: int) -> int:
    """The level of the nearest quote before `at`; less if a line has ended since, which within a string is
    escaped as often as the string itself."""
    quote, level = _quote_before(data, at)
    for line in _NEW_LINES.finditer(data, quote, at) if level else ():
        level = min(level, _halvings(len(line[1])) if line[1] else 0)
    return level


def _quote_before(data: bytes, at: int) -> tuple[int, int]:
    """Place and level of the nearest quote; in steps, so that neither way to write it is sought in vain."""
    reach = _REACH
    while True:
        low = max(0, at - reach)
        bare, coded = data.rfind(b'"', low, at), data.rfind(b"\\u0022", low, at)
        if bare >= 0 or coded >= 0:
            quote = bare if bare > coded else coded + 1
            before = data[max(0, quote - _LONGEST_ESCAPE) : quote]
            return quote, _escape(len(before) - len(before.rstrip(b"\\")), bare=bare > coded)[0]
        if not low:
            return 0, 0
        reach *= 4


def _escape(backslashes: int, *, bare: bool) -> tuple[int, int]:
    """The level of a quote that stands behind so many, and how many are its own. If it is not `bare` but
    written as `u0022`, it was a quote where an odd number was left of them."""
    coded = 0 if bare else _halvings(backslashes)
    level = _halvings((backslashes >> coded) + 1)
    return coded + level, (1 << level) - 1 << coded


def _halvings(count: int) -> int:
    return (count & -count).bit_length() - 1
