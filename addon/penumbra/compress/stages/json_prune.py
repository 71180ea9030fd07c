"""The shape of a JSON value that is too long: keys in full, long arrays and strings cut, with counts.

    {"users":[{"id":1,"bio":"Born in [812 characters left out] of May"},"[41 more items]"],"total":42}

Numbers keep their spelling. What is cut is said by a string in its place. Several measures are
tried, from generous to strict, until the result fits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import msgspec

from penumbra.compress.size import counted, encode, size

_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True)
class _Measure:
    """How much of each value is kept."""

    items: int
    keys: int
    characters: int
    depth: int


_MEASURES = (
    *(_Measure(items=60, keys=200, characters=most, depth=12) for most in (12_000, 6_000, 3_000, 1_500, 800)),
    _Measure(items=30, keys=80, characters=400, depth=8),
    _Measure(items=12, keys=60, characters=200, depth=7),
    _Measure(items=5, keys=40, characters=120, depth=6),
    _Measure(items=3, keys=30, characters=60, depth=5),
    _Measure(items=2, keys=20, characters=40, depth=4),
)


def prune(text: str, room: int) -> str | None:
    """The value within `room` bytes; None if it is no JSON, or its strictest form is still too long."""
    body = text.strip(" \t\r\n")
    if body[:1] not in ("{", "[") or _has_repeated_members(body):
        return None
    try:
        for measure in _MEASURES:
            pruned = _value(body, measure, 0)
            if size(pruned) <= room:
                return pruned
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return None


def _has_repeated_members(source: str) -> bool:
    """Whether an object has two members of one name: only one of them would be left."""
    try:
        json.loads(source, object_pairs_hook=_unrepeated, parse_float=str, parse_int=str)
    except KeyError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def _unrepeated(members: list[tuple[str, object]]) -> None:
    if len(dict(members)) < len(members):
        raise KeyError


def _value(source: str, measure: _Measure, depth: int) -> str:
    if len(source) <= measure.characters and depth:
        return source
    if source[0] == "[":
        return _array(source, measure, depth)
    if source[0] == "{":
        return _object(source, measure, depth)
    return _string(source, measure) if source[0] == '"' else source


def _array(source: str, measure: _Measure, depth: int) -> str:
    items = _ITEMS.decode(encode(source))
    if depth >= measure.depth:
        return f'"[array of {len(items)} items]"'
    kept = [_value(_text(item), measure, depth + 1) for item in items[: measure.items]]
    if len(items) > measure.items:
        kept.append(f'"[{len(items) - measure.items} more items]"')
    return "[" + ",".join(kept) + "]"


def _object(source: str, measure: _Measure, depth: int) -> str:
    members = _MEMBERS.decode(encode(source))
    if depth >= measure.depth:
        return f'"[object of {len(members)} keys]"'
    kept = [
        f"{_quote(key)}:{_value(_text(value), measure, depth + 1)}"
        for key, value in list(members.items())[: measure.keys]
    ]
    if len(members) > measure.keys:
        kept.append(f'"[more keys]":{len(members) - measure.keys}')
    return "{" + ",".join(kept) + "}"


def _string(source: str, measure: _Measure) -> str:
    text = _STRING.decode(encode(source))
    if len(text) <= measure.characters:
        return source
    start, end = measure.characters - measure.characters // 4, measure.characters // 4
    gone = len(text) - start - end
    return _quote(f"{text[:start]} [{counted(gone, 'character')} left out] {text[-end:]}")


def _text(value: msgspec.Raw) -> str:
    return bytes(value).decode("utf-8", "surrogatepass")


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()
