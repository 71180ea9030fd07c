"""Where a value without quotes ends, and what stands around it that is none of it.

Bytes are those of a text, places are offsets into it.
"""

from __future__ import annotations

import re

from penumbra import rules
from penumbra.redaction.program_names import is_program_name
from penumbra.redaction.values import has_digit, is_opaque, is_wordy, kinds

QUOTE_ENTITY = re.compile(rb"&(?:#x27|#39|#34|quot|apos);")
"""A quote as a page writes it."""
_FRAMED = re.compile(rb"<([^\s<>\"'`\\]{8,128})>")
_NAMED = re.compile(rb"([a-z]{2,24}|[A-Z]{2,24}|[a-z]+_[a-z_]{1,24}|[A-Z]+_[A-Z_]{1,24})=")
_ENDS = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}\b|(?:"
    + "|".join(rules.load("secrets/words/values.yaml")["behind_bars"].split()).encode()
    + rb")(?:\||\Z)"
)
"""What no value goes on with behind a `|`: a date, the name of a command."""
_LONGEST_LINE = 400


def before_bar(data: bytes, start: int, end: int) -> int:
    """Where the value ends that a `|` stands in: there, if what follows is of a shell or a table. A password
    may have one as well."""
    bar = data.find(b"|", start, end)
    if bar >= 0 and _is_in_row(data, start, bar):
        return bar
    while bar >= 0:
        if bar + 1 == end or _is_other(data[bar + 1 : end]):
            return bar
        bar = data.find(b"|", bar + 1, end)
    return end


def _is_other(behind: bytes) -> bool:
    """Whether what stands behind a `|` is no part of the value in front: it may have a name of its own."""
    named = _NAMED.match(behind)
    if named is not None:
        return is_wordy(named[1].decode("ascii"))
    return _ENDS.match(behind) is not None


def _is_in_row(data: bytes, at: int, bar: int) -> bool:
    """Whether the line of that place is a row of a table, between bars."""
    begin = data.rfind(b"\n", max(0, at - _LONGEST_LINE), at) + 1
    if data[begin:at].lstrip(b" \t")[:1] != b"|":
        return False
    end = data.find(b"\n", bar, bar + _LONGEST_LINE)
    return data[bar : end if end >= 0 else bar + _LONGEST_LINE].rstrip().endswith(b"|")


def unframed(data: bytes, start: int, end: int) -> tuple[int, int]:
    """What stands between `<` and `>` if it is random: what is to be filled in are words."""
    framed = _FRAMED.fullmatch(data, start, end)
    return framed.span(1) if framed and _is_random(framed[1]) else (start, end)


def framed_value(data: bytes, at: int) -> tuple[int, int] | None:
    """The random value between the `<` at `at` and its `>`."""
    framed = _FRAMED.match(data, at)
    return framed.span(1) if framed and _is_random(framed[1]) else None


def _is_random(inside: bytes) -> bool:
    text = inside.decode("utf-8", "replace")
    return has_digit(text) and is_opaque(text) and kinds(text) == 3 and not is_program_name(text)


def between_entities(data: bytes, start: int, end: int) -> tuple[int, int]:
    """What stands between the quotes that a page writes as `&quot;`: they are none of the value."""
    opener = QUOTE_ENTITY.match(data, start, end)
    if opener is None:
        return start, end
    # The semicolon of the last one may be no part of what was found.
    stop = data.find(opener[0][:-1], opener.end(), end)
    return opener.end(), stop if stop >= 0 else end
