"""The shape of a JSON value that is too long: keys in full, long arrays and strings cut, with counts.

    {"users":[{"id":1,"bio":"Born in [812 characters left out] of May"},"[41 more items]"],"total":42}

Numbers keep their spelling. A string takes the place of a cut part. Several measures are
tried, from generous to strict, until the result fits. In an object, numbers and names without blanks (ids,
keys, paths) come before all else; addresses that only continue another of its addresses, and templates of
addresses, are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from penumbra.compress.size import cut, encode, size

_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
_ADDRESS = re.compile(r'"[a-z]{2,8}://[^\s"\\]+"')
_LONGEST_NAME = 120
"""Characters of a value that may name its object."""
_NAMES = 4
"""Members of an object that stay where nothing else of it does."""


@dataclass(frozen=True, slots=True)
class _Measure:
    """The amount of each value that stays."""

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


_OF_CELLS = (
    *(_Measure(items=5, keys=40, characters=most, depth=4) for most in (400, 200, 120, 80)),
    *(
        _Measure(items=2, keys=keys, characters=most, depth=2)
        for keys in (12, 8, 6, 4, 3)
        for most in (80, 50)
    ),
)
"""The amounts for a value that is one of many, with little space."""


def prune(text: str, room: int, *, is_cell: bool = False) -> str | None:
    """The value within `room` bytes; None if it is no JSON, or its strictest form is still too long.
    `is_cell`: it is one of many, of which little may be shown."""
    body = text.strip(" \t\r\n")
    if body[:1] not in ("{", "[") or _has_repeated_members(body):
        return None
    try:
        for measure in _OF_CELLS if is_cell else _MEASURES:
            pruned = _value(body, measure, 0)
            if size(pruned) <= room:
                return pruned
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return None


def _has_repeated_members(source: str) -> bool:
    """True if an object has two members of one name: only one of them would be left."""
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
    members = {key: _text(value) for key, value in _MEMBERS.decode(encode(source)).items()}
    names = [key for key, value in members.items() if _is_name(value)]
    if depth >= measure.depth:
        if not names:
            return f'"[object of {len(members)} keys]"'
        wanted = names[:_NAMES]
    else:
        derived = _derived(members)
        others = [key for key in members if key not in derived]
        # The first members describe an object best.
        first = others[: (3 * measure.keys + 3) // 4]
        wanted = [*dict.fromkeys([*first, *names, *others])][: measure.keys]
    shown = frozenset(wanted)
    kept = [
        f"{_quote(key)}:{_value(value, measure, depth + 1)}" for key, value in members.items() if key in shown
    ]
    if len(members) > len(shown):
        kept.append(f'"[more keys]":{len(members) - len(shown)}')
    return "{" + ",".join(kept) + "}"


def _is_name(value: str) -> bool:
    """True if a value may say which object it is of: a number, or a string without blanks, and no address."""
    if value[0] != '"':
        return value[0] in "-0123456789"
    return 2 < len(value) <= _LONGEST_NAME and " " not in value and "://" not in value


def _derived(members: Mapping[str, str]) -> frozenset[str]:
    """The keys of addresses that continue another one of the same object, or are templates."""
    addresses = sorted((value[1:-1], key) for key, value in members.items() if _ADDRESS.match(value))
    derived: set[str] = set()
    base = ""
    for address, key in addresses:
        behind = address[len(base) :]
        if "{" in address or (base and address.startswith(base) and behind[:1] in ("/", "?", "#")):
            derived.add(key)
        else:
            base = address
    return frozenset(derived) if len(derived) < len(addresses) else frozenset()


def _string(source: str, measure: _Measure) -> str:
    text = _STRING.decode(encode(source))
    last = measure.characters // 4
    shown = cut(text, measure.characters - last, last) if len(text) > measure.characters else text
    return source if shown is text else _quote(shown)


def _text(value: msgspec.Raw) -> str:
    return bytes(value).decode("utf-8", "surrogatepass")


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()
