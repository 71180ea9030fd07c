"""Lists and maps under a telling name: `"passwords": ["…", "…"]`, `PASSWORDS=(… …)`, a name with items below.

A list's members are values of its name. A map's are only under a name in the plural: under `password` it
describes one, under `passwords` each member is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from penumbra.redaction.finders.forms import LEAD
from penumbra.redaction.finders.value_reading import QUOTE, Value, read
from penumbra.redaction.late import late
from penumbra.redaction.values import Style

_MOST = 200
"""Members that are read of one container."""
_GAP = rb"(?:\s|\\{1,31}[nrt]){0,60}+"
_LINE_BREAK = rb"(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)" + LEAD
_OPEN = late(
    rb"[\\\"'`\])]{0,40}(?:[ \t]{0,8}:[ \t]{0,4}[A-Za-z][\w<>\[\], .]{0,40}(?==))?"
    rb"[ \t]{0,8}(?:[:=]=?|=>)[ \t]{0,8}"
    rb"((?:new |&)?(?:\[[0-9]{0,4}\])?[A-Za-z_][\w.:]{0,40}+!?(?:<[\w, ]{0,40}>)?(?:\[\])?[ ]?|%w)?"
    rb"([\[({])"
)
_OPEN_REACH = 256
"""Bytes behind a name in which the bracket stands: more than `_OPEN` may be long."""
_WORDS_FOLLOW = (b"=(", b"%w[", b"%w(")
"""How lists of words begin in the shell and in Ruby: what has no quotes there is text as well."""
_QUOTED = late(_GAP + rb"[bruf]?(" + QUOTE + rb")")
_BARE = late(_GAP + rb"([^\s\"'`,\[\](){}<>\\:=]{4,512})(?=[\s,\])])")
_NEXT = late(QUOTE + rb"?" + _GAP + rb",")
_BLANKS = late(QUOTE + rb"?(?=[ \t\r\n])")
_KEY = late(
    _GAP
    + rb"(?:"
    + QUOTE
    + rb")?:?[\w.@-]{1,80}(?:"
    + QUOTE
    + rb")?"
    + _GAP
    + rb"(?::|=>?)"
    + _GAP
    + rb"("
    + QUOTE
    + rb")"
)
_BELOW = late(rb"[\\\"']{0,4}:[ \t]{0,8}(?=\r?\n|\\{1,31}[nr])")
_BELOW_REACH = 5
"""Bytes behind a name in which its colon stands."""
_END_OF_LINE = (
    rb"(?=[ \t]{0,8}(?:" + QUOTE + rb")?[ \t]{0,8}(?:#[^\r\n]*|)(?:\r?\n|\\{1,31}[nr]|" + QUOTE + rb"|\Z))"
)
_ITEM = late(
    _LINE_BREAK
    + rb"[ \t]{0,40}-[ \t]{1,8}(?:("
    + QUOTE
    + rb")|([^\s\"'`\\:#\[\]{}][^\s\"'`\\]{3,512})"
    + _END_OF_LINE
    + rb")"
)
_ENTRY = late(
    _LINE_BREAK
    + rb"[ \t]{1,40}[\w.@-]{1,80}:[ \t]{1,8}(?:("
    + QUOTE
    + rb")|([^\s\"'`\\:#\[\]{}][^\s\"'`\\]{3,512})"
    + _END_OF_LINE
    + rb")"
)


def _opens(data: bytes, end: int) -> bool:
    """Whether a bracket stands where one would begin a list: most names are asked in vain."""
    last = end + _OPEN_REACH
    return (
        data.find(b"[", end, last) >= 0 or data.find(b"(", end, last) >= 0 or data.find(b"{", end, last) >= 0
    )


def contained(data: bytes, end: int, *, plural: bool) -> Iterator[Value]:
    """The members of the list behind the name that ends at `end`; of the map, if the name is a plural."""
    if _opens(data, end) and (opening := _OPEN.match(data, end)):
        bare = Style.LISTED if opening[0].endswith(_WORDS_FOLLOW) else None if opening[1] else Style.CODE
        return _bracketed(data, opening.end(), opening[2], bare, plural=plural)
    if data.find(b":", end, end + _BELOW_REACH) >= 0 and (below := _BELOW.match(data, end)):
        items = _lines(data, below.end(), _ITEM)
        return chain(items, _lines(data, below.end(), _ENTRY)) if plural else items
    return iter(())


def _bracketed(data: bytes, at: int, bracket: bytes, bare: Style | None, *, plural: bool) -> Iterator[Value]:
    for _ in range(_MOST):
        opener = _KEY.match(data, at) if plural and bracket != b"[" else None
        opener = opener or _QUOTED.match(data, at)
        if opener:
            value = read(data, opener.end(), opener[1], Style.LISTED)
        else:
            value = _bare(data, at, bare) if bare and bracket != b"{" else None
        if value is None:
            return
        yield value
        behind = _NEXT.match(data, value.end) or (None if opener else _BLANKS.match(data, value.end))
        if behind is None:
            return
        at = behind.end()


def _bare(data: bytes, at: int, style: Style) -> Value | None:
    """A member without quotes: of a list of YAML, of the shell's or Ruby's words."""
    word = _BARE.match(data, at)
    return Value(*word.span(1), style) if word else None


def _lines(data: bytes, at: int, form: re.Pattern[bytes]) -> Iterator[Value]:
    for _ in range(_MOST):
        line = form.match(data, at)
        if line is None:
            return
        value = (
            read(data, line.end(1), line[1], Style.LISTED) if line[1] else Value(*line.span(2), Style.LISTED)
        )
        if value is None or data[value.end - 1] == 0x3A:
            return
        yield value
        at = value.end + (len(line[1]) if line[1] else 0)
