"""This stage removes the whitespace between the tokens of JSON, and of each line of JSON Lines.

Strings, numbers, key order and duplicate keys do not change. A text that is neither JSON, JSON Lines nor
several JSON values stays unchanged. `items` and `members` read JSON for other stages, and keep the spelling
of each value.
"""

from __future__ import annotations

import json
import re

import msgspec

from penumbra.linear import utf8

_BLANKS = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+"?)|[ \t\r\n]+')
_BEGINNING = re.compile(r"[ \t\r\n]*[\[{]")
_LEAST_AMONG = 512
"""A value between lines of other text has at least this number of characters, without whitespace."""
_MOST_AROUND = 2_000
"""At most this number of characters of other text is around a value."""
_ATTEMPTS = 4
_MOST_VALUES = 4_000_000
"""A text of several values has at most this number of characters, since it takes time to find each end."""
_RAW = msgspec.json.Decoder(msgspec.Raw)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_SCAN = json.JSONDecoder(parse_float=str, parse_int=str).raw_decode


def minify(text: str) -> str | None:
    """Return the same JSON or JSON Lines in fewer bytes. The text may also be several values, as `jq` prints
    them. Return None for other texts, and if nothing is saved."""
    if not may_be_json(text):
        return None
    body = text.strip(" \t\r\n")
    if is_json(body):
        return _surround(text, body, _compact(body))
    values = _records(body) or _values(body)
    return _surround(text, body, "\n".join(map(_compact, values))) if values else None


def are_values(text: str) -> bool:
    """Return whether the text is several JSON values that do not look like JSON Lines."""
    return bool(_values(text.strip(" \t\r\n")))


def _values(body: str) -> list[str]:
    """Return the values of a text with several values, as `jq` prints them; empty for other texts."""
    is_long = len(body) > _MOST_VALUES
    if is_long or not (body[:2] in ("{\n", "[\n", "{\r", "[\r") or "}{" in body or "][" in body):
        return []
    values: list[str] = []
    end = 0
    while found := _BEGINNING.match(body, end):
        start = found.end() - 1
        try:
            end = _SCAN(body, start)[1]
        except (ValueError, RecursionError):
            return []
        values.append(body[start:end])
    return values if end == len(body) and len(values) > 1 and all(map(is_json, values)) else []


def among_lines(text: str) -> tuple[str, str, str]:
    """Return the lines before the JSON in a text, the JSON, and the lines after it. Without JSON, or with
    much other text, the whole text is the middle part."""
    whole = ("", text, "")
    position = attempts = 0
    while position <= _MOST_AROUND and attempts < _ATTEMPTS:
        if text[position : position + 1] in ("{", "["):
            attempts += 1
            end = _end_of_value(text, position)
            if end - position >= _LEAST_AMONG and position + len(text) - end <= _MOST_AROUND:
                value = text[position:end]
                # The minified size is compared, so that the result is the same for a minified text.
                if len(minify(value) or value) >= _LEAST_AMONG:
                    return (text[:position], value, text[end:])
        position = text.find("\n", position) + 1
        if not position:
            break
    return whole


def _end_of_value(text: str, start: int) -> int:
    """Return the end of the JSON at `start`, before its line break; `start` if there is no JSON."""
    closing = "}" if text[start] == "{" else "]"
    # JSON may end with the text, with its own first line, or with the last line that begins with its closing
    # or opening bracket.
    lasts = (text.rfind(f"\n{sign}", start) for sign in (closing, text[start]))
    for at in dict.fromkeys((len(text), *lasts, start)):
        line = text.find("\n", at + 1) if at >= start else start
        end = len(text) if line < 0 else line
        body = text[start:end]
        if is_json(body) or _records(body) or _values(body):
            return end - body.endswith("\r")
    return start


def _records(body: str) -> list[str]:
    """Return the lines of JSON Lines, some of which may be empty; no lines for other texts."""
    lines = body.split("\n")
    return lines if len(lines) > 1 and all(map(_is_record, lines)) else []


def may_be_json(text: str) -> bool:
    """Return whether the text begins like an object or an array."""
    return _BEGINNING.match(text) is not None


def is_json(text: str) -> bool:
    """Return whether the whole text is one JSON value."""
    try:
        _RAW.decode(utf8(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def items(source: str) -> list[str]:
    """Return the JSON of each item of an array."""
    return [str(item, "utf-8", "surrogatepass") for item in _ITEMS.decode(utf8(source))]


def objects(source: str) -> list[tuple[int, dict[str, msgspec.Raw]]]:
    """Return the size in bytes and the members of each object of an array; empty if an item is no object."""
    data = utf8(source)
    try:
        return [*zip(map(len, _ITEMS.decode(data)), _OBJECTS.decode(data), strict=True)]
    except msgspec.ValidationError:
        return []


def members(source: str) -> dict[str, str]:
    """Return the JSON of each value of an object, by key. Of repeated keys, the last one counts."""
    values = _MEMBERS.decode(utf8(source))
    return {key: str(value, "utf-8", "surrogatepass") for key, value in values.items()}


def quoted(text: str) -> str:
    """Return a text as a JSON string."""
    return msgspec.json.encode(text).decode()


def _is_record(line: str) -> bool:
    return line[:1] in ("{", "[", "\r", "") and (not line.strip() or is_json(line))


def _compact(value: str) -> str:
    """Return a value without whitespace. If the decoder fails, as for deep values, a pattern removes the
    whitespace."""
    try:
        return msgspec.json.format(utf8(value), indent=-1).decode("utf-8", "surrogatepass")
    except (msgspec.DecodeError, RecursionError):
        return _BLANKS.sub(lambda match: match[1] or "", value)


def _surround(text: str, body: str, compact: str) -> str | None:
    """Return the compact body; None if nothing is saved. A line break at the end of the text stays."""
    if len(compact) == len(body):
        return None
    return compact + "\n" if text.endswith("\n") else compact
