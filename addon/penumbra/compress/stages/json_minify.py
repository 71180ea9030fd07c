"""JSON and JSON Lines without the blanks between their tokens.

Strings, numbers, key order and duplicate keys stay as they are spelled: only blanks outside
strings go. The text must be valid JSON, else nothing is done.
"""

from __future__ import annotations

import re

import msgspec

from penumbra.compress.size import encode

_BLANKS = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+')
_BEGINNING = re.compile(r"[ \t\r\n]*[\[{]")
_RAW = msgspec.json.Decoder(msgspec.Raw)


def minify(text: str) -> str | None:
    """The same JSON or JSON Lines in fewer bytes; None if the text is neither, or already minimal."""
    if not may_be_json(text):
        return None
    body = text.strip(" \t\r\n")
    if is_json(body):
        return _surround(text, body, _compact(body))
    lines = body.split("\n")
    if len(lines) > 1 and all(_is_record(line) for line in lines):
        return _surround(text, body, "\n".join(map(_compact, lines)))
    return None


def may_be_json(text: str) -> bool:
    """Whether the text begins as an object or an array does."""
    return _BEGINNING.match(text) is not None


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
    """The value without blanks; blank lines, and what is nested too deep for the decoder, by a pattern."""
    try:
        return msgspec.json.format(encode(value), indent=-1).decode("utf-8", "surrogatepass")
    except (msgspec.DecodeError, RecursionError):
        return _BLANKS.sub(lambda match: match[1] or "", value)


def _surround(text: str, body: str, compact: str) -> str | None:
    """The compact body with one line end after it where there was one."""
    if len(compact) == len(body):
        return None
    return compact + "\n" if text.endswith("\n") else compact
