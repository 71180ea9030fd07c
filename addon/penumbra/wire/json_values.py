"""This module converts JSON to Python objects and back, and finds members and characters in JSON text.

Lone surrogates are preserved both ways.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Raw

SPACE = b" \t\n\r"
_BETWEEN_MEMBERS = re.compile(
    rb'[ \t\n\r]*+[{,][ \t\n\r]*+"(?:[^"\\]|\\.)*+"[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL
)
"""This pattern matches the text before a member's value: a brace or comma, the key and a colon."""
_CHARACTERS = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL
)
"""This pattern matches an escape in a JSON string, or a run of characters that are not escaped."""
_EXPONENT = re.compile(rb"[\[:,] ?-?[0-9][0-9.]*+e")
"""This pattern matches a number with an exponent, which orjson and Python's `json` may write differently."""


class NotJson(ValueError):
    """A `NotJson` is raised for bytes that are no JSON, and for JSON that can't be edited safely."""


def encode(value: Any) -> bytes:
    """Return a value as compact JSON. Lone surrogates in strings become escapes."""
    try:
        # The copy frees orjson's buffer, which can be eight times as long as the text.
        return bytes(memoryview(orjson.dumps(value)))
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def decode(data: bytes | memoryview) -> Any:
    """Return the value of a JSON text, with lone surrogates preserved. Raises NotJson. Integers of more than
    64 bits may become floats. The result must therefore not be encoded and sent."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(bytes(data).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def exact(data: bytes) -> Any:
    """Return the value of a JSON text if orjson or Python's `json` would write the value with the same bytes;
    None for other texts. Texts with a repeated member or a number such as `1e5` are other texts."""
    try:
        value = orjson.loads(data)
        is_exact = orjson.dumps(value) == data
        is_exact = is_exact or (json.dumps(value).encode("ascii") == data and not _EXPONENT.search(data))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        return None
    return value if is_exact else None


def spelled(raw: str, at: int) -> int:
    """Return where in the JSON string `raw` the character with index `at` of the decoded string begins."""
    if "\\" not in raw:
        return at
    decoded = 0
    for match in _CHARACTERS.finditer(raw):
        length = 1 if match[0][0] == "\\" else len(match[0])
        if at < decoded + length:
            return match.start() + at - decoded
        decoded += length
    return len(raw)


def are_all_members(value: Raw, members: Mapping[str, Raw]) -> bool:
    """Return whether an object has only these members. `members` are in the order of the object."""
    data, at = bytes(value), 0
    for member in members.values():
        between, source = _BETWEEN_MEMBERS.match(data, at), bytes(member)
        # If a name is repeated, `members` lacks the first of its members, and the bytes are not equal.
        if between is None or not data.startswith(source, between.end()):
            return False
        at = between.end() + len(source)
    return data[at:].strip(SPACE) == b"}"


def member_of(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the range of a member, with one comma, whose value is at `start` to `end`."""
    start = _string_start(data, _before(data, start, SPACE + b":") - 1)
    before = _before(data, start, SPACE)
    if data[before - 1 : before] == b",":
        return before - 1, end
    after = _after(data, end)
    if data[after : after + 1] == b",":
        return start, _after(data, after + 1)
    return start, end


# These functions copy no bytes, because very many members of a document may be removed.


def _before(data: bytes, at: int, skipped: bytes) -> int:
    """Go back from `at` over the bytes in `skipped`, and return the offset of the first of them."""
    while at > 0 and data[at - 1] in skipped:
        at -= 1
    return at


def _after(data: bytes, at: int) -> int:
    """Return the offset of the first byte that is not white space, beginning at `at`."""
    while at < len(data) and data[at] in SPACE:
        at += 1
    return at


def _string_start(data: bytes, closing: int) -> int:
    """Return the offset of the opening quote of the string whose closing quote is at `closing`."""
    at = closing
    while True:
        at = data.rindex(b'"', 0, at)
        if (at - _before(data, at, b"\\")) % 2 == 0:
            return at
