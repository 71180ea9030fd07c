"""What an agent writes around a command's output: exit code, wall time, shell id."""

from __future__ import annotations

import re
from typing import Any

import re2

from penumbra import rules
from penumbra.compress.calls.tools import tool_rules
from penumbra.compress.size import encode

MAX_LINES = 16
"""How many lines of an envelope are taken off at each end."""
TAIL_WINDOW = 1_000
"""Characters at the end of a text in which the last line of an envelope must begin."""


@rules.cached
def _patterns() -> tuple[re.Pattern[str], Any]:
    """Of heads, for text, and of tails, for bytes: RE2 looks for what ends a text from its end on."""
    envelopes = tool_rules().envelopes
    heads = [*envelopes.heads, *(rf"(?:{head})(?=[^\n])" for head in envelopes.inline_heads)]
    tails = "(?:" + "|".join(f"(?:{tail})" for tail in envelopes.tails) + r")\z"
    return re.compile("|".join(f"(?:{head})" for head in heads)), re2.compile(tails.encode())


def split_envelope(text: str) -> tuple[str, str, str]:
    """(head, body, tail) of a result; the three together are the text. The body is the output."""
    heads, tails = _patterns()
    start = 0
    for _ in range(MAX_LINES):
        match = heads.match(text, start)
        if not match or match.end() == start:
            break
        start = match.end()
    end = len(text)
    for _ in range(MAX_LINES):
        window = encode(text[max(start, end - TAIL_WINDOW) : end])
        ending = tails.search(window)
        if not ending or ending.start() == len(window):
            break
        end -= len(window[ending.start() :].decode("utf-8", "surrogatepass"))
    return text[:start], text[start:end], text[end:]


def tells_failure(head: str, tail: str) -> bool:
    """Whether an envelope names an exit code other than 0."""
    return any(_failed().search(part) for part in (head, tail) if part)


@rules.cached
def _failed() -> re.Pattern[str]:
    return re.compile(tool_rules().envelopes.failed)
