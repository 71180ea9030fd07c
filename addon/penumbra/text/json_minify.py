"""JSON and JSON Lines without the blanks between their tokens.

Strings, numbers, key order and duplicate keys stay as they are spelled: only blanks outside
strings go. The text must be valid JSON, else nothing is done.
"""

from __future__ import annotations

import re

import msgspec

from penumbra.text.size import encode

_BLANKS = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+')
_RAW = msgspec.json.Decoder(msgspec.Raw)


def minify(text: str) -> str | None:
    """The same JSON or JSON Lines in fewer bytes; None if the text is neither, or already minimal."""
    body = text.strip(" \t\r\n")
    if body[:1] not in ("{", "["):
        return None
    if is_json(body):
        return _surround(text, body, _compact(body))
    lines = body.split("\n")
    if len(lines) > 1 and all(_is_record(line) for line in lines):
        return _surround(text, body, "\n".join(map(_compact, lines)))
    return None


def is_json(text: str) -> bool:
    """Whether the whole text is one JSON value."""
    try:
        _RAW.decode(encode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _is_record(line: str) -> bool:
    return line[:1] in ("{", "[", "\r", "") and (not line.strip() or is_json(line))


def _compact(value: str) -> str:
    return _BLANKS.sub(lambda found: found[1] or "", value)


def _surround(text: str, body: str, compact: str) -> str | None:
    """The compact body with one line end after it where there was one."""
    if len(compact) == len(body):
        return None
    return compact + "\n" if text.endswith("\n") else compact
