"""The parts that an agent writes around a command's output: exit code, wall time, shell id."""

from __future__ import annotations

import re
from collections.abc import Collection

from penumbra import rules
from penumbra.compress.calls.tools import tool_rules
from penumbra.compress.size import encode, size
from penumbra.linear import Linear

MAX_LINES = 16
"""The number of envelope lines that are taken off at each end."""
TAIL_WINDOW = 1_000
"""Characters at the end of a text in which the last line of an envelope must begin."""
_NOTICES = 4
"""Notices that are repeated."""


@rules.cached
def _patterns() -> tuple[re.Pattern[str], Linear]:
    """Of heads, for text, and of tails, for bytes: RE2 looks for what ends a text from its end on."""
    envelopes = tool_rules().envelopes
    heads = [
        *envelopes.heads,
        *(rf"(?:{cut})\n+" for cut in envelopes.cut),
        *(rf"(?:{head})(?=[^\n])" for head in envelopes.inline_heads),
    ]
    tails = "(?:" + "|".join(f"(?:{tail})" for tail in envelopes.tails) + r")\z"
    return re.compile("|".join(f"(?:{head})" for head in heads)), Linear(tails.encode())


def split_envelope(text: str) -> tuple[str, str, str]:
    """Return (head, body, tail) of a result; the three together are the text. The body is the output.

    Lines at its ends that say that the agent has cut it are none of it: what it is, is told without them.
    """
    heads, tails = _patterns()
    first, last = _notices()
    start = 0
    for _ in range(MAX_LINES):
        match = heads.match(text, start)
        if not match or match.end() == start:
            break
        start = match.end()
        # After what announces the output stands the output, or that it is cut.
        if match[0] in _openings() and not first.match(text, start):
            break
    end = len(text)
    for _ in range(MAX_LINES):
        window = encode(text[max(start, end - TAIL_WINDOW) : end])
        ending = tails.search(window)
        if not ending or ending.start() == len(window):
            break
        end -= len(window[ending.start() :].decode("utf-8", "surrogatepass"))
    else:
        window = encode(text[max(start, end - TAIL_WINDOW) : end])
    if _may_say_cut(window):
        notice = last.search(text, max(start, end - TAIL_WINDOW), end)
        end = notice.start() if notice else end
    return text[:start], text[start:end], text[end:]


@rules.cached
def _openings() -> frozenset[str]:
    return frozenset(label.opening for label in tool_rules().envelopes.labels)


def without_needless(text: str, is_quoted: bool = False) -> str:
    """Return the text without the useless lines of its envelope; without output, the line about the end
    stays.

    `is_quoted`: the output is a file's content, which may look like an envelope. Then only one counts that
    says where the output begins.
    """
    head, body, tail = split_envelope(text)
    if not head and not tail:
        return text
    if is_quoted and not head.endswith(tuple(_openings())):
        return text
    is_empty = not body.strip()
    first = _needed(_HEAD_LINE.findall(head), head + tail, is_empty)
    last = _needed(_TAIL_LINE.findall(tail), head + tail, is_empty)
    for label in tool_rules().envelopes.labels:
        if not is_empty and (first, last) == (label.opening, label.closing):
            first = last = ""
    return first + body + last if first or last or not is_empty else text


def file_alone(text: str, tool: str, path: str, numbers: Collection[int]) -> str | None:
    """Return the lines of a file that was read by its path, without what stands around them; None if that is
    no envelope: such tags may be the file's own, if not all lines have the numbers that this tool writes.
    `numbers`: those of the call, of which one may be where the lines begin, counted from 0 or 1."""
    for around in tool_rules().envelopes.files:
        opening = around.opening.replace("{path}", path)
        if tool in around.tools and text.startswith(opening) and text.endswith(around.closing):
            inner = text[len(opening) : -len(around.closing)]
            first = _first_of_counted(inner, re.compile(around.number))
            if first is not None and {first, first - 1} & {0, *numbers}:
                return inner
    return None


def is_in_tags(text: str, path: str) -> bool:
    """True if the file of this path stands after a tag of its tool, with the numbers that this writes."""
    for around in tool_rules().envelopes.files:
        opening = around.opening.replace("{path}", path)
        if text.startswith(opening) and re.compile(around.number).match(text, len(opening)):
            return True
    return False


def has_own_tags(text: str) -> bool:
    """True if a file, as it was read, stands between tags of its own: those that a tool would write, around
    lines that are not numbered in its way."""
    return any(
        text.startswith(around.opening)
        and text.endswith(around.closing)
        and not re.compile(around.number).match(text, len(around.opening))
        for around in tool_rules().envelopes.files
    )


def _first_of_counted(text: str, number: re.Pattern[str]) -> int | None:
    """Return the number of the first line where they count up by one, line by line, to the end or to notes in
    brackets; else None."""
    first = following = None
    lines = iter(text.split("\n"))
    for line in lines:
        match = number.match(line)
        if match is None:
            is_note = not line and all(not rest or (rest[0], rest[-1]) == ("(", ")") for rest in lines)
            return first if is_note else None
        if following is not None and int(match[1]) != following:
            return None
        first = int(match[1]) if first is None else first
        following = int(match[1]) + 1
    return first


_HEAD_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_TAIL_LINE = re.compile(r"\n?[^\n]+(?:\n\Z)?|\n")


def _needed(lines: list[str], envelope: str, is_empty: bool) -> str:
    """Return the lines of one end of an envelope that stay."""
    rules, success = _needless()
    needless = [line for line, unless in rules if unless is None or not unless.search(envelope)]
    return "".join(
        line
        for line in lines
        if (is_empty and success.search(line))
        or not any(pattern.fullmatch(line.strip("\n")) for pattern in needless)
    )


@rules.cached
def _needless() -> tuple[list[tuple[re.Pattern[str], re.Pattern[str] | None]], re.Pattern[str]]:
    """Return the needless lines with what keeps them, and what tells that a command ended well."""
    envelopes = tool_rules().envelopes
    lines = [
        (re.compile(rule.line), re.compile(rule.unless) if rule.unless else None)
        for rule in envelopes.needless
    ]
    return lines, re.compile(envelopes.success or r"(?!)")


def tells_failure(head: str, tail: str) -> bool:
    """True if an envelope names an exit code other than 0."""
    return any(_failed().search(part) for part in (head, tail) if part)


def with_cut_noted(text: str, whole: str, room: int, around: str = "") -> str:
    """Return the shortened form of `whole`, with a last line if the agent had cut that itself: such parts are
    not among our counts. The agent's notices stay, unless they are `around` the text, as far as `room` bytes
    allow; a text without notices stays as it is."""
    notices = dict.fromkeys(notice[0] for notice in _cut().finditer(whole)) if is_cut(whole) else {}
    if not notices:
        return text
    gone = [notice for notice in notices if notice not in text and notice not in around][:_NOTICES]
    end = "" if text.endswith("\n") else "\n"
    for named in (f" ({'; '.join(gone)})" if gone else "", ""):
        line = f"{end}[counts are of what the client sent, which it had cut before{named}]"
        if size(line) <= room:
            return text + line
    return text


def is_cut(text: str) -> bool:
    """True if a text says that the agent has cut it."""
    return _may_say_cut(encode(text)) and _cut().search(text) is not None


def _may_say_cut(data: bytes) -> bool:
    sign = _sign_of_cut()
    return sign is None or sign.search(data) is not None


@rules.cached
def _notices() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the notices of a cut as whole lines at the beginning and at the end of an output."""
    cut = "|".join(f"(?:{notice})" for notice in tool_rules().envelopes.cut) or r"(?!)"
    return re.compile(rf"(?:{cut})\n"), re.compile(rf"\n+(?:{cut})(?:\n+(?:{cut}))*\n*\Z")


@rules.cached
def _cut() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{notice})" for notice in tool_rules().envelopes.cut) or r"(?!)")


@rules.cached
def _sign_of_cut() -> Linear | None:
    """Return one pattern for RE2, which is faster to find none; None where RE2 might disagree."""
    pattern = _cut().pattern
    return None if _OTHERWISE.search(pattern) else Linear(pattern.encode())


_OTHERWISE = re.compile(r"\\[A-Za-mo-qsu-z0-9]|\(\?(?!:)")
"""Elements that the two kinds of patterns understand differently, or only one does: classes, flags, looking
around."""


@rules.cached
def _failed() -> re.Pattern[str]:
    return re.compile(tool_rules().envelopes.failed)
