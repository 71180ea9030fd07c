"""How a value is read from the place where it begins: between quotes, or as a run of what values hold."""

from __future__ import annotations

import re
from typing import NamedTuple

from penumbra.redaction.finders.nested_strings import end_of_string
from penumbra.redaction.value_ends import QUOTE_ENTITY, before_bar, framed_value, unframed
from penumbra.redaction.values import Style

QUOTE = rb"(?:\\{0,31}[\"'`])"
LOOK = 512
"""Characters of a value that are read before it is judged."""
_RUN = re.compile(rb"[^\s\"'`<>\\\x1b\x00]{1,512}")
RUN_ODD = re.compile(rb"[^\s\"'`\\\x1b\x00]{1,512}")
RUN_CODE = re.compile(rb"[^\s\"'`<>\\\x1b\x00,;&|(){}\[\]]{1,512}")
RUN_QUERY = re.compile(rb"[^\s\"'`<>\\\x1b\x00&#,;)]{1,512}")
RUN_LIST = re.compile(rb"[^\s\"'`<>\\\x1b\x00&,;)]{1,512}")
RUN_ELEMENT = re.compile(rb"[^\s<>\\\x1b\x00\"']{1,512}")
RUN_DEFAULT = re.compile(rb"[^\s\"'`<>\\\x1b\x00{}$]{1,512}")
RUN_CSV = re.compile(rb"[^\s\"'`<>\\\x1b\x00,]{1,512}")
_PERCENT_END = re.compile(
    rb"%(?:25)?(?:26|0[aAdD]|22|20|29|3[bB]|2[cC]|5[dD]|7[dD])|&(?:amp|quot|apos|#39|#34|#x27);|\xe2\x80[\x99\x9d]|\xe3\x80[\x81\x82]|\xef\xbc[\x8c\x9b]"
)
"""What ends a value within its run: signs of an address, an entity, full-width commas and full stops."""
_INSIDE = {q: re.compile(rb"(?:[^\"" + q + rb"\\\r\n]|\\[^\r\n]){0,512}") for q in (b'"', b"'", b"`")}
_INSIDE_ESCAPED = re.compile(rb"(?:[^\\\"\r\n]|\\{1,31}u00(?:2[1346-9a-f]|3[c-e]|26))" + rb"{0,512}")
_TRIM = b".,;:"
_BRACKETS = {ord(")"): b"(", ord("]"): b"[", ord("}"): b"{"}


class Value(NamedTuple):
    """Where a value stands and how it is written."""

    start: int
    end: int
    style: Style
    bare: bytes = b""
    """Quotes of the name of a bare JSON number; empty for all else."""


def read(data: bytes, at: int, opener: bytes, style: Style, run: re.Pattern[bytes] = _RUN) -> Value | None:
    """The value that begins at `at`, behind the quotes `opener`; without quotes, it is a `run`."""
    if not opener:
        if data.startswith(b"&", at) and (entity := QUOTE_ENTITY.match(data, at)):
            return _between_entities(data, entity)
        match = run.match(data, at)
        if match is None:
            framed = framed_value(data, at)
            return Value(*framed, style) if framed else None
        # Most values hold none of what one of them begins with.
        cut = _PERCENT_END.search(data, at, match.end()) if _may_be_cut(match[0]) else None
        end = cut.start() if cut else match.end()
        while end > at and (data[end - 1] in _TRIM or _is_stray(data, at, end)):
            end -= 1
        end = before_bar(data, at, end)
        return Value(at, end, style) if end > at else None
    inside = _INSIDE_ESCAPED if opener.startswith(b"\\") else _INSIDE[opener[-1:]]
    match = inside.match(data, at)
    end = match.end() if match else at
    if opener[-1:] != b'"':
        end = end_of_string(data, at, end, closed=data[end : end + 1] == opener[-1:])
    if data[end : end + 2] == b'\\"':
        # The backslashes in front belong to the quote.
        end = at + len(data[at:end].rstrip(b"\\"))
    at, end = unframed(data, at, end)
    return Value(at, end, style) if end > at else None


def _may_be_cut(run: bytes) -> bool:
    return b"%" in run or b"&" in run or not run.isascii()


def _is_stray(data: bytes, at: int, end: int) -> bool:
    """Whether the last byte closes a bracket that was opened in front of the value."""
    opening = _BRACKETS.get(data[end - 1])
    return opening is not None and data.count(opening, at, end) < data.count(data[end - 1 : end], at, end)


def _between_entities(data: bytes, opener: re.Match[bytes]) -> Value | None:
    """`&quot;value&quot;`: what a page shows between quotes."""
    stop = data.find(opener[0], opener.end(), opener.end() + LOOK)
    inside = b"\n" not in data[opener.end() : stop]
    return Value(opener.end(), stop, Style.QUOTED) if stop > opener.end() and inside else None
