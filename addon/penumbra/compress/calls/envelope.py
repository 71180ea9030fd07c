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


def without_needless(text: str) -> str:
    """The text without the lines of its envelope that nobody acts on; without output, how it ended stays."""
    head, body, tail = split_envelope(text)
    if not head and not tail:
        return text
    is_empty = not body.strip()
    first = _kept(_HEAD_LINE.findall(head), head + tail, is_empty)
    last = _kept(_TAIL_LINE.findall(tail), head + tail, is_empty)
    for label in tool_rules().envelopes.labels:
        if not is_empty and (first, last) == (label.opening, label.closing):
            first = last = ""
    return first + body + last if first or last or not is_empty else text


_HEAD_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_TAIL_LINE = re.compile(r"\n?[^\n]+(?:\n\Z)?|\n")


def _kept(lines: list[str], envelope: str, is_empty: bool) -> str:
    """The lines of one end of an envelope that stay."""
    rules, success = _needless()
    needless = [line for line, unless in rules if unless is None or not unless.search(envelope)]
    return "".join(
        line
        for line in lines
        if (is_empty and success.search(line)) or not any(one.fullmatch(line.strip("\n")) for one in needless)
    )


@rules.cached
def _needless() -> tuple[list[tuple[re.Pattern[str], re.Pattern[str] | None]], re.Pattern[str]]:
    """The needless lines with what keeps them, and what tells that a command ended well."""
    envelopes = tool_rules().envelopes
    lines = [
        (re.compile(one.line), re.compile(one.unless) if one.unless else None) for one in envelopes.needless
    ]
    return lines, re.compile(envelopes.success or r"(?!)")


def tells_failure(head: str, tail: str) -> bool:
    """Whether an envelope names an exit code other than 0."""
    return any(_failed().search(part) for part in (head, tail) if part)


def cut_notices(text: str) -> list[str]:
    """What says in a text that the agent has cut it, each once, in order."""
    return list(dict.fromkeys(found[0] for found in _cut().finditer(text))) if text else []


@rules.cached
def _cut() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{notice})" for notice in tool_rules().envelopes.cut) or r"(?!)")


@rules.cached
def _failed() -> re.Pattern[str]:
    return re.compile(tool_rules().envelopes.failed)
