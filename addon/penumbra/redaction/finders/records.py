"""Names and values that stand in different members of one record.

`{"Name": "DB_PASSWORD", "Type": "String", "Value": "…"}`: the value says nothing, its neighbour does. The
member that holds a value is found by its key; the record around it is read for a member that names it, with
others between. What a default stands in names it as well: `variable "db_password" { default = "…" }`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from penumbra import rules
from penumbra.linear import Linear
from penumbra.redaction import fronts
from penumbra.redaction.finders.value_reading import Value, read
from penumbra.redaction.judgement import is_secret, is_unmistakable
from penumbra.redaction.late import late
from penumbra.redaction.names import Name, Names, Strength
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.values import Style

_REACH = 600
"""Bytes on either side of a value in which its name stands."""
_LINES = 10
_QUOTE = rb"\\{0,31}[\"'`]"
_QUOTES = b"\"'\\`"
_LETTERS = bytes(byte for byte in range(256) if chr(byte).isalpha())
_BREAK = late(rb"\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n")
_WORDS = rules.load("secrets/words/records.yaml")


def _any_of(words: str) -> bytes:
    """A pattern of any of the words, whatever their capitals."""
    return b"(?i:" + "|".join(words.split()).encode() + b")"


_VALUE = late(
    rb"("
    + _QUOTE
    + rb")?([A-Za-z]{0,12}"
    + _any_of(_WORDS["values"])
    + rb"|"
    + _any_of(_WORDS["whole_values"])
    + rb")("
    + _QUOTE
    + rb")?[ \t]{0,8}[:=][ \t]{0,8}("
    + _QUOTE
    + rb")?"
)
_ENDS = (
    ":",
    " :",
    " =",
    "  ",
    '":',
    '" :',
    "':",
    "=",
    *((2**depth - 1) * "\\" + '":' for depth in range(1, 4)),
)
_ANCHORS = tuple(
    f"{word}{end}".encode()
    for word in (*_WORDS["values"].split(), *_WORDS["whole_values"].split())
    for end in _ENDS
)
_NAMES = Names()
_TELLING_WORDS = b"(?:" + "|".join(_NAMES.telling_parts()).encode() + b")"
_TELLING = Linear(rb"(?i)" + _TELLING_WORDS)
"""What stands in all names that may be telling: most records have none."""
_KEY = rb"(?:[A-Za-z]{0,12}[_-]?" + _any_of(_WORDS["names"]) + rb"|" + _any_of(_WORDS["whole_names"]) + rb")"
_MEMBER = late(
    rb"(?<![\w.-])(?:" + _QUOTE + rb")?(" + _KEY + rb")(?:" + _QUOTE + rb")?[ \t]{0,8}[:=][ \t]{0,8}"
    rb"(?:" + _QUOTE + rb")?(/?[A-Za-z_$][\w.$/ -]{1,119})(?=\\{0,31}[\"'`]|\r?\n|\\{1,31}[nr]|[,}]|\Z)"
)
_NAMED = Linear(
    rb"(?i)(?:"
    + _any_of(_WORDS["names"] + " " + _WORDS["whole_names"])
    + rb")[\\\"'`]*[ \t]*[:=][^,}\r\n]*"
    + _TELLING_WORDS
)
"""A member that may be a telling name: a cheap question that most records fail."""
_BRACE = late(rb"[{}]")
_GROUP = late(rb"\{[^{}]{0,600}\}")
_HOLDER = late(
    rb"(?:\b"
    + _any_of(_WORDS["declarations"])
    + rb"[ \t]{1,4}(?:"
    + _QUOTE
    + rb")?([\w.-]{2,80})(?:"
    + _QUOTE
    + rb")?"
    rb"|(?<![\w.-])(?:"
    + _QUOTE
    + rb")?([A-Za-z_][\w.-]{1,79})(?:"
    + _QUOTE
    + rb")?[ \t]{0,4}[:=])[ \t]{0,4}\Z"
)
_LINE = late(
    rb"(?:" + fronts.WORDS + rb"|[+>](?= ))?"
    rb"[ \t]{0,80}(-[ \t]{1,4})?"
)
_HEAD = late(rb"(?:" + _QUOTE + rb")?([A-Za-z_][\w.-]{1,79})(?:" + _QUOTE + rb")?:[ \t]*\Z")
_FLAG = late(rb"--([a-z][\w-]{2,60})" + _QUOTE + rb"[^()\n]{0,160}\Z")
"""`add_argument("--password", default="…")`."""

_WHERE = late(
    rb"(?i)"
    + _QUOTE
    + rb"(?:,[^;\n]{0,120})?\s{1,8}where\s{1,8}[\w.]{0,40}(?:name|key|setting|option|param)\s{0,4}=\s{0,4}N?"
    + _QUOTE
    + rb"([\w./:-]{2,80})"
)
"""`UPDATE settings SET value = '…' WHERE name = 'smtp_password'`."""


_JSON_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""What needs quotes around what stands in its place."""


def _records(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    for place in places:
        start = max(0, place - 12)
        start += len(data[start:place].rstrip(_LETTERS))
        if start and data[start - 1] in _QUOTES:
            quoted = data[max(0, start - 32) : start]
            start -= len(quoted) - len(quoted.rstrip(_QUOTES))
        match = _VALUE.match(data, start)
        if match is None or bool(match[1]) != bool(match[3]):
            continue
        value = read(data, match.end(), match[4] or b"", Style.QUOTED if match[4] else Style.CONFIG)
        if value is None or _judged(data, value, _ANY) is None:
            continue
        if match[3] and not match[4] and _JSON_NUMBER.fullmatch(data, value.start, value.end):
            value = value._replace(bare=match[3])
        for name in _names(data, match, value):
            span = _judged(data, value, name)
            if span is not None:
                yield span
                break


_ANY = Name(Strength.PASSWORD, "password")


def _judged(data: bytes, value: Value, name: Name) -> Span | None:
    text = data[value.start : value.end].decode("utf-8", "replace")[:256]
    if name.strength <= Strength.WEAK or not is_secret(text, name.strength, value.style):
        return None
    sure = is_unmistakable(text, name.strength)
    return Span(value.start, value.end, name.label, f"record-{name.label}", Rank.GENERIC, sure, value.bare)


def _names(data: bytes, match: re.Match[bytes], value: Value) -> Iterator[Name]:
    """What the record around a value may call it."""
    before = data[max(0, match.start() - _REACH) : match.start()]
    behind = data[value.end : value.end + _REACH]
    if not _TELLING.search(before) and not _TELLING.search(behind):
        return
    if flag := _FLAG.search(before):
        yield _judge(flag[1])
    if chosen := _WHERE.match(behind):
        yield _judge(chosen[1])
    if not match[1]:
        yield from _in_lines(before, behind)
    opening = _opening(before)
    if opening is not None:
        yield from _in_braces(before, opening, behind)


def _opening(before: bytes) -> int | None:
    """Where the brace stands that is open at the end of a text."""
    depth = 0
    for brace in reversed([*_BRACE.finditer(before)]):
        if brace[0] == b"}":
            depth += 1
        elif depth:
            depth -= 1
        else:
            return brace.start()
    return None


def _in_braces(before: bytes, opening: int, behind: bytes) -> Iterator[Name]:
    for part in (_GROUP.sub(b"", before[opening + 1 :]), _GROUP.sub(b"", behind).partition(b"}")[0]):
        if _NAMED.search(part):
            yield from (_judge(member[2]) for member in _MEMBER.finditer(part))
    holder = _HOLDER.search(before, max(0, opening - 120), opening)
    if holder:
        yield _judge(holder[1] or holder[2])


def _in_lines(before: bytes, behind: bytes) -> Iterator[Name]:
    """Lines of YAML and its like: siblings stand in the same column, the owner left of them."""
    above = _BREAK.split(before)[-_LINES:]
    own = _LINE.match(above[-1])
    column = len(above[-1].rstrip(b"\"'\\"))
    if own is None or own.end() < column:
        return
    if own[1]:
        yield from _siblings(_BREAK.split(behind)[1:_LINES], column)
        return
    yield from _siblings(reversed(above[:-1]), column)


def _siblings(lines: Iterator[bytes] | list[bytes], column: int) -> Iterator[Name]:
    for line in lines:
        begin = _LINE.match(line)
        if begin is None or begin.end() == len(line):
            return
        left = column - begin.end()
        if left > 1:
            head = _HEAD.match(line, begin.end())
            if head:
                yield _judge(head[1])
            return
        if left < -1:
            continue
        if _VALUE.match(line, begin.end()):
            return
        member = _MEMBER.match(line, begin.end())
        if member:
            yield _judge(member[2])
        if begin[1]:
            return


def _judge(written: bytes) -> Name:
    return _NAMES.judge(written.strip().rstrip(b"/").rpartition(b"/")[2].decode("latin-1"))


RECORDS = Finder("records", _ANCHORS, _records)
