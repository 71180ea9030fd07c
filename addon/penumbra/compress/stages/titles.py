"""Titles in texts that people write, and the lines below each: a detail is not read without its title.

**Zero the key when navigation fails.**
The caller holds a copy until ...
"""

from __future__ import annotations

import re

_TITLE = re.compile(
    r" {0,3}(?:#{1,6} +\S.*"
    r"|(?:[-*>] +|[0-9]{1,3}[.)] +)?(?:\*\*|__)[^*_\n].*(?:\*\*|__)[ :.]{0,3}"
    r"|<summary>.*</summary>"
    r"|={2,} +\S.* +={2,})"
)
_LONGEST = 240
"""Characters of a title."""
_BELOW = 30
"""Lines below a title that belong to it."""


def above(text: str) -> dict[int, int]:
    """By number of a line, that of the title that it stands below."""
    titles: dict[int, int] = {}
    title = -_BELOW - 1
    for number, line in enumerate(text.split("\n")):
        if len(line) <= _LONGEST and _TITLE.fullmatch(line.rstrip()):
            title = number
        elif line.strip() and number - title <= _BELOW:
            titles[number] = title
    return titles
