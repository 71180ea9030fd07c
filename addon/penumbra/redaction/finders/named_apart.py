"""This module finds secrets that do not follow their names directly.

In a record, another member may contain the name: `{"Name": "DB_PASSWORD", "Type": "String", "Value": "…"}`. A
finder looks for a member such as `Value`, and then for the name in the record around this member. The name of
a block also counts: `variable "db_password" { default = "…" }`.

Other finders look for the name before a default (`getenv("DB_PASSWORD") || "…"`) or in another attribute of a
tag (`<add value="…" key="ApiKey"/>`). The name may also be in the command before a database's reply (`HMGET
user:1 name password`), or in the list of sensitive attributes in a Terraform state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from penumbra import rules
from penumbra.linear import Linear
from penumbra.redaction.finders.value_reading import (
    Pair,
    Value,
    any_of,
    judged,
    may_be_secret,
    patterns,
    read,
)
from penumbra.redaction.names import NAMES, Name, Strength
from penumbra.redaction.shared_patterns import late
from penumbra.redaction.span import Finder
from penumbra.redaction.values import Style

_FORMS = patterns("records")
_REACH = 600
"""The name of a value is looked for in at most this number of bytes on each side."""
_LINES = 10
_QUOTES = b"\"'\\`"
_LETTERS = bytes(byte for byte in range(256) if chr(byte).isalpha())
_BREAK = late(rb"{BREAK}")
_WORDS = rules.load("secrets/words/records.yaml")


_ENDS = (":", " :", " =", "  ", '":', '" :', "':", "=", *("\\" * depth + '":' for depth in (1, 3, 7)))
_ANCHORS = tuple(
    f"{word}{end}".encode()
    for word in (*_WORDS["values"].split(), *_WORDS["whole_values"].split())
    for end in _ENDS
)
_ANY = Name(Strength.PASSWORD, "password")
_TELLING_WORDS = b"(?:" + "|".join(NAMES.telling_parts()).encode() + b")"
_TELLING = Linear(rb"(?i)" + _TELLING_WORDS)
"""A pattern for the words in ASCII names of secrets."""
_NAMED = Linear(
    rb"(?i)(?:"
    + any_of(_WORDS["names"] + " " + _WORDS["whole_names"])
    + rb")[\\\"'`]*[ \t]*[:=][^,}\r\n]*"
    + _TELLING_WORDS
)
"""This pattern matches a member that may contain the name of a secret."""
_MARKS = "|".join(
    r"[\\\"'`]*[ \t]*[:=][ \t]*[\\\"'`]*".join(mark.split("=")) for mark in _WORDS["marks"].split()
).encode()
_MARK = Linear(rb"(?i)(?:^|[^\w.-])(?:" + _MARKS + rb")\b")
"""This pattern matches a member such as `type=secret`, whose record has a secret."""
_SIGN = Linear(rb"(?i)" + _TELLING_WORDS + rb"|" + _MARKS)
"""This pattern matches wherever `_TELLING` or `_MARK` matches."""
_FAR = 20_000
"""The greatest number of bytes from an anchor to a sign of a secret after its value."""
_LONGEST_BEGINNING = 64
"""The greatest number of bytes from the beginning of a member to its anchor."""


def _records(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    sign = -1
    for place in places:
        least = max(0, place - _REACH - _LONGEST_BEGINNING)
        if sign < least:
            sign = _SIGN.place(data, least, len(data))[0]
            if sign < 0:
                return
        if sign > place + _FAR:
            continue
        start = max(0, place - 12)
        start += len(data[start:place].rstrip(_LETTERS))
        if start and data[start - 1] in _QUOTES:
            quoted = data[max(0, start - 32) : start]
            start -= len(quoted) - len(quoted.rstrip(_QUOTES))
        match = _FORMS["value"].match(data, start)
        if match is None or bool(match[1]) != bool(match[3]):
            continue
        value = read(data, match.end(), match[4] or b"", Style.QUOTED if match[4] else Style.CONFIG)
        if value is None or sign > value.end + _REACH or not may_be_secret(data, value):
            continue
        if match[3] and not match[4]:
            first = value.end - len(data[value.start : value.end].lstrip(b"["))
            if _FORMS["json_number"].fullmatch(data, first, value.end):
                value = value._replace(start=first, bare=match[3])
        yield Pair(value, _names(data, match, value), "record")


def _names(data: bytes, match: re.Match[bytes], value: Value) -> Iterator[Name]:
    """Yield each `Name` that the record of a value may have for the value."""
    before = data[max(0, match.start() - _REACH) : match.start()]
    after = data[value.end : value.end + _REACH]
    if not any(question.search(part) for question in (_TELLING, _MARK) for part in (before, after)):
        return
    if flag := _FORMS["flag"].search(before):
        yield _judge(flag[1])
    if chosen := _FORMS["where"].match(after):
        yield _judge(chosen[1])
    if not match[1]:
        yield from _in_lines(before, after)
    opening = _opening(before)
    if opening is not None:
        yield from _in_braces(before, opening, after)
    elif match[1] and not _FORMS["brace"].search(before):
        yield from _in_members(_cut_off(before), after)


def _opening(before: bytes) -> int | None:
    """Return the offset of the last brace that is not closed; None if there is none."""
    depth = 0
    for brace in reversed([*_FORMS["brace"].finditer(before)]):
        if brace[0] == b"}":
            depth += 1
        elif depth:
            depth -= 1
        else:
            return brace.start()
    return None


def _in_braces(before: bytes, opening: int, after: bytes) -> Iterator[Name]:
    yield from _in_members(
        _FORMS["group"].sub(b"", before[opening + 1 :]), _FORMS["group"].sub(b"", after).partition(b"}")[0]
    )
    holder = _FORMS["holder"].search(before, max(0, opening - 120), opening)
    if holder:
        yield _judge(holder[1] or holder[2])


def _in_members(*parts: bytes) -> Iterator[Name]:
    for part in parts:
        if _NAMED.search(part):
            yield from (_judge(member[2]) for member in _FORMS["member"].finditer(part))
        if _MARK.search(part):
            yield _ANY


def _cut_off(before: bytes) -> bytes:
    """If the text lacks the opening brace of a record, return the lines of the record before a member."""
    lines = before.split(b"\n")
    first = next(
        (at for at in range(len(lines) - 2, -1, -1) if not _FORMS["whole_member"].search(lines[at])), -1
    )
    return b"\n".join(lines[first + 1 :])


def _in_lines(before: bytes, after: bytes) -> Iterator[Name]:
    """Yield each `Name` that a record in YAML may have for a value. The members of a record begin in the same
    column, and the name of the record is to their left."""
    above = _BREAK.split(before)[-_LINES:]
    own = _FORMS["line"].match(above[-1])
    column = len(above[-1].rstrip(b"\"'\\"))
    if own is None or own.end() < column:
        return
    if own[1]:
        yield from _siblings(_BREAK.split(after)[1:_LINES], column)
        return
    yield from _siblings(reversed(above[:-1]), column)


def _siblings(lines: Iterator[bytes] | list[bytes], column: int) -> Iterator[Name]:
    for line in lines:
        begin = _FORMS["line"].match(line)
        if begin is None or begin.end() == len(line):
            return
        left = column - begin.end()
        if left > 1:
            head = _FORMS["head"].match(line, begin.end())
            if head:
                yield _judge(head[1])
            return
        if left < -1:
            continue
        if _FORMS["value"].match(line, begin.end()):
            return
        member = _FORMS["member"].match(line, begin.end())
        if member:
            yield _judge(member[2])
        if begin[1]:
            return


def _judge(written: bytes) -> Name:
    return NAMES.judge(written.strip().rstrip(b"/").rpartition(b"/")[2].decode("latin-1"))


_STATEMENT_REACH = 240
"""The name of a default is looked for in at most this number of bytes before the default."""
_LONGEST_TAG = 600
_OPERATORS = _WORDS["fallback_operators"].split()
_FALLBACK = late(
    rb"(?i:"
    + "|".join(_WORDS["fallbacks"].split()).encode()
    + rb"|defaultvalue)[ \t]{0,4}[:=(]?[ \t]{0,4}(?:\|\w{0,20}\| )?({QUOTE})|[ ]?(?:"
    + "|".join(map(re.escape, _OPERATORS)).encode()
    + rb")=?[ ]?({QUOTE})"
)
_QUOTE_SIGNS = ('"', "'", "`", "\\")


def _fallbacks(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    for place in places:
        match = _FALLBACK.match(data, place)
        value = read(data, match.end(), match[1] or match[2], Style.QUOTED) if match else None
        if value is None or not may_be_secret(data, value):
            continue
        before = _FORMS["statement"].split(data[max(0, place - _STATEMENT_REACH) : place])[-1]
        if match and match[2]:
            if _FORMS["compared"].match(data, value.end):
                continue
            # The name is in the same argument or member as the default. Commas within calls don't end an
            # argument.
            commas = _FORMS["called"].sub(lambda call: call[0].replace(b",", b" "), before)
            before = before[commas.rfind(b",") + 1 :]
        yield Pair(value, (_judge(name[1]) for name in _FORMS["names_before"].finditer(before)), "record")


def _attributes(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    for place in places:
        match = _FORMS["attribute"].match(data, place)
        value = read(data, match.end(), match[1], Style.QUOTED) if match else None
        if value is None or not may_be_secret(data, value):
            continue
        start = data.rfind(b"<", max(0, place - _LONGEST_TAG), place)
        if start < 0 or data.find(b">", start, place) >= 0:
            continue
        end = data.find(b">", value.end, value.end + _LONGEST_TAG)
        parts = (data[start:place], data[value.end : end if end >= 0 else value.end])
        names = (
            _judge(name[1]) if name[1] else _ANY for part in parts for name in _FORMS["naming"].finditer(part)
        )
        yield Pair(value, names, "record")


def _replies(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    for place in places:
        asked = _FORMS["asked"].match(data, place + (low[place] in b" >\n"))
        if asked is None:
            continue
        at = asked.end()
        for name in _asked_for(data, asked):
            reply = _FORMS["reply"].match(data, at)
            if reply is None:
                break
            at = reply.end()
            if group := next((group for group in ("text", "bare") if reply[group]), None):
                yield Pair(Value(*reply.span(group), Style.QUOTED), (_judge(name),), "record")


def _asked_for(data: bytes, asked: re.Match[bytes]) -> list[bytes]:
    """Return the names of the values that a database prints after a command, in order."""
    command = asked[1].lower()
    if command == b"value":
        item = _FORMS["item"].match(asked[2])
        return [item[1]] if item else []
    if not _FORMS["prompt"].search(data, max(0, asked.start() - 160), asked.start()):
        return []
    return asked[2].split(b" ")[command.startswith(b"h") :]


_MOST_BEFORE = 16_384
"""The greatest number of bytes from `"attributes"` to `"sensitive_attributes"` in a Terraform state."""
_MOST_SENSITIVE = 2_000


def _sensitive(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    for place in places[:_MOST_SENSITIVE]:
        listed = _FORMS["sensitive"].match(data, place)
        start = data.rfind(b'"attributes', max(0, place - _MOST_BEFORE), place) if listed else -1
        if listed is None or start < 0:
            continue
        quote = listed[1]
        key = data.find(b'"' + listed[2] + quote, start, place)
        member = _FORMS["is"].match(data, key + len(listed[2]) + 1, place) if key >= 0 else None
        value = read(data, member.end(), member[1], Style.QUOTED) if member else None
        if value is not None:
            yield Pair(value, (_ANY,), "record")


def _ends(word: str, *joints: str) -> tuple[bytes, ...]:
    return tuple(f"{word}{joint}{quote}".encode() for joint in joints for quote in _QUOTE_SIGNS)


RECORDS = (
    Finder("records", _ANCHORS, judged(_records)),
    Finder(
        "fallbacks",
        (
            *(anchor for word in _WORDS["fallbacks"].split() for anchor in _ends(word, "(", "=", " ")),
            *_ends("default", ": "),
            *_ends("defaultvalue", ": ", "=", " = "),
            *(anchor for sign in _OPERATORS if not sign.isalpha() for anchor in _ends(sign, " ", "")),
            *(anchor for word in _OPERATORS if word.isalpha() for anchor in _ends(f" {word}", " ")),
            *(f"{word}(|".encode() for word in _WORDS["fallbacks"].split()),
        ),
        judged(_fallbacks),
    ),
    Finder(
        "attributes",
        tuple(anchor for blank in " \t\n" for anchor in _ends(f"{blank}value", "=")),
        judged(_attributes),
    ),
    Finder("replies", (b" mget ", b" hmget ", b" hget ", b" get ", b">get ", b"\nvalue "), judged(_replies)),
    Finder("sensitive-attributes", (b'get_attr"', b'get_attr\\"'), judged(_sensitive)),
)
