"""What an agent writes around a command's output: exit code, wall time, shell id."""

from __future__ import annotations

import re
from functools import cache

from penumbra.calls.tools import table

MAX_LINES = 16
"""How many lines of an envelope are taken off at each end."""
TAIL_WINDOW = 1_000
"""Characters at the end of a text in which the last line of an envelope must begin."""


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    envelopes = table()["envelopes"]
    return (
        re.compile("|".join(f"(?:{head})" for head in envelopes["heads"])),
        re.compile("(?:" + "|".join(f"(?:{tail})" for tail in envelopes["tails"]) + r")\Z"),
    )


def split_envelope(text: str) -> tuple[str, str, str]:
    """(head, body, tail) of a result; the three together are the text. The body is the output."""
    heads, tails = _patterns()
    start = 0
    for _ in range(MAX_LINES):
        found = heads.match(text, start)
        if not found or found.end() == start:
            break
        start = found.end()
    end = len(text)
    for _ in range(MAX_LINES):
        found = tails.search(text[max(start, end - TAIL_WINDOW) : end])
        if not found or found.end() == found.start():
            break
        end -= found.end() - found.start()
    return text[:start], text[start:end], text[end:]
