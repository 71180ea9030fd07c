"""Values whose name stands apart from them, in the same statement or tag.

What stands in for a value that is not found: `getenv("DB_PASSWORD") ?? "…"`, `{{ x | default("…") }}`. An
attribute of a tag whose name is another attribute: `<add value="…" key="ApiKey"/>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from penumbra import rules
from penumbra.redaction.finders.value_reading import QUOTE, Value, read
from penumbra.redaction.judgement import is_secret, is_unmistakable
from penumbra.redaction.late import late
from penumbra.redaction.names import Name, Names, Strength
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.values import Style

_WORDS = rules.load("secrets/words/records.yaml")
_NAMES = Names()
_ANYTHING = Name(Strength.PASSWORD, "password")
_REACH = 240
"""Bytes in front of a value in which its name stands."""
_LONGEST_TAG = 600

_FALLBACK = late(
    rb"(?i:"
    + "|".join(_WORDS["fallbacks"].split()).encode()
    + rb"|defaultvalue)[ \t]{0,4}[:=(]?[ \t]{0,4}("
    + QUOTE
    + rb")|\?\? ?("
    + QUOTE
    + rb")"
)
_STATEMENT = late(rb"[;\n]|\\{1,31}n")
_NAMED = late(rb"([A-Za-z_][\w.-]{1,79})(?=" + QUOTE + rb"|[ \t]{0,8}[:=|]|[ \t]{0,4}\Z)")
_QUOTES = ('"', "'", "\\")


def _fallbacks(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    for place in places:
        match = _FALLBACK.match(data, place)
        value = read(data, match.end(), match[1] or match[2], Style.QUOTED) if match else None
        if value is None or _judged(data, value, _ANYTHING) is None:
            continue
        before = _STATEMENT.split(data[max(0, place - _REACH) : place])[-1]
        names = (_judge(name[1]) for name in _NAMED.finditer(before))
        yield from _first(data, value, names)


_ATTRIBUTE = late(rb"[ \t\r\n]value=(" + QUOTE + rb")", re.IGNORECASE)
_NAMING = late(
    rb"[ \t\r\n](?i:key|name|id)=" + QUOTE + rb"([A-Za-z_$][\w.$:/ -]{1,119})" + QUOTE
    + rb"|[ \t\r\n](?i:type)=" + QUOTE + rb"(?i:password)" + QUOTE
)  # fmt: skip


def _attributes(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    for place in places:
        match = _ATTRIBUTE.match(data, place)
        value = read(data, match.end(), match[1], Style.QUOTED) if match else None
        if value is None or _judged(data, value, _ANYTHING) is None:
            continue
        start = data.rfind(b"<", max(0, place - _LONGEST_TAG), place)
        if start < 0 or data.find(b">", start, place) >= 0:
            continue
        end = data.find(b">", value.end, value.end + _LONGEST_TAG)
        parts = (data[start:place], data[value.end : end if end >= 0 else value.end])
        names = (
            _judge(name[1]) if name[1] else _ANYTHING for part in parts for name in _NAMING.finditer(part)
        )
        yield from _first(data, value, names)


def _judge(written: bytes) -> Name:
    return _NAMES.judge(written.rpartition(b"/")[2].decode("latin-1"))


def _first(data: bytes, value: Value, names: Iterator[Name]) -> Iterator[Span]:
    """The value as the secret of the first name that makes it one."""
    for name in names:
        span = _judged(data, value, name)
        if span is not None:
            yield span
            return


def _judged(data: bytes, value: Value, name: Name) -> Span | None:
    text = data[value.start : value.end].decode("utf-8", "replace")[:256]
    if name.strength <= Strength.WEAK or not is_secret(text, name.strength, value.style):
        return None
    sure = is_unmistakable(text, name.strength)
    return Span(value.start, value.end, name.label, f"record-{name.label}", Rank.GENERIC, sure)


def _ends(word: str, *joints: str) -> tuple[bytes, ...]:
    return tuple(f"{word}{joint}{quote}".encode() for joint in joints for quote in _QUOTES)


NAMED_APART = (
    Finder(
        "fallbacks",
        (
            *(anchor for word in _WORDS["fallbacks"].split() for anchor in _ends(word, "(", "=", " ")),
            *_ends("default", ": "),
            *_ends("defaultvalue", ": ", "=", " = "),
            *_ends("??", " ", ""),
        ),
        _fallbacks,
    ),
    Finder(
        "attributes",
        tuple(anchor for blank in " \t\n" for anchor in _ends(f"{blank}value", "=")),
        _attributes,
    ),
)
