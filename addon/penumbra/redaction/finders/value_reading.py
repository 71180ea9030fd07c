"""This module reads a value from its beginning: up to a quote, or as a run of characters without quotes.

Every reader of names and values yields a `Pair`. `judged` decides which pairs are secrets.

A string can be nested in another string. At level n, the quote of a string has 2**n - 1 backslashes before
it. If the content of the string ends with backslashes, the closing quote has more backslashes before it, by a
multiple of 2**(n + 1). The level of a quote is therefore the number of times that (backslashes + 1) can be
divided by 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from penumbra import rules
from penumbra.redaction import shared_patterns
from penumbra.redaction.judgement import is_secret, judge
from penumbra.redaction.names import Name, Strength
from penumbra.redaction.shared_patterns import late
from penumbra.redaction.span import Rank, Search, Span
from penumbra.redaction.values import Style, is_wordy


def any_of(words: str) -> bytes:
    """Return a pattern that matches any of the words and ignores case."""
    return b"(?i:" + "|".join(words.split()).encode() + b")"


_SPEC = rules.load("secrets/words/between.yaml")
_WORDS = rules.load("secrets/words/records.yaml")
_PARTS = {name: "".join(part).encode() for name, part in _SPEC["parts"].items()}
_PARTS |= {name: any_of(words) for name, words in _WORDS.items()}
_PARTS |= {name: getattr(shared_patterns, name) for name in ("WORDS", "SAYING")}


def patterns(group: str) -> Mapping[str, re.Pattern[bytes]]:
    """Return the patterns in a group of `rules/secrets/words/between.yaml`."""
    return {name: late("".join(form["like"]).encode(), 0, **_PARTS) for name, form in _SPEC[group].items()}


_ESCAPED = re.compile(rb"(?<!\\)(\\++)(\"|u0022)")
_NEW_LINES = re.compile(rb"\n|(?<!\\)(\\++)n")
_LONGEST_ESCAPE = 64
"""Before a quote, at most this number of backslashes is counted."""
_REACH = 256


def end_of_string(data: bytes, at: int, end: int, *, closed: bool) -> int:
    """Return the end of a string that begins before `at` and ends at or before `end`. `closed` is true if the
    string's kind of quote is at `end`.

    A closed string ends at `end` if all escaped quotes before `end` have a deeper level than the string.
    Any other string ends at its first escaped quote. The level of the string is the level of the nearest
    quote before `at`.
    """
    quotes = list(_ESCAPED.finditer(data, at, end))
    if not quotes:
        return end
    if closed:
        level = _level(data, at)
        if all(_escape(len(quote[1]), bare=quote[2] == b'"')[0] > level for quote in quotes):
            return end
    first = quotes[0]
    return first.end(1) - _escape(len(first[1]), bare=first[2] == b'"')[1]


def _level(data: bytes, at: int) -> int:
    """Return the level of the nearest quote before `at`. Escaped line breaks after this quote also have
    levels. If a line break between this quote and `at` has a lower level, return the lowest of these
    levels."""
    quote, level = _quote_before(data, at)
    for line in _NEW_LINES.finditer(data, quote, at) if level else ():
        level = min(level, _halvings(len(line[1])) if line[1] else 0)
    return level


def _quote_before(data: bytes, at: int) -> tuple[int, int]:
    """Return the offset and the level of the nearest quote before `at`. The search goes back in growing
    steps, because one of the two spellings of a quote may be missing from the text."""
    reach = _REACH
    while True:
        low = max(0, at - reach)
        bare, coded = data.rfind(b'"', low, at), data.rfind(b"\\u0022", low, at)
        if bare >= 0 or coded >= 0:
            quote = bare if bare > coded else coded + 1
            before = data[max(0, quote - _LONGEST_ESCAPE) : quote]
            return quote, _escape(len(before) - len(before.rstrip(b"\\")), bare=bare > coded)[0]
        if not low:
            return 0, 0
        reach *= 4


def _escape(backslashes: int, *, bare: bool) -> tuple[int, int]:
    """Return the level of a quote with this number of backslashes, and how many of these backslashes escape
    the quote. A `bare` quote is written as `"`. Any other quote is written as `\\u0022`."""
    coded = 0 if bare else _halvings(backslashes)
    level = _halvings((backslashes >> coded) + 1)
    return coded + level, (1 << level) - 1 << coded


def _halvings(count: int) -> int:
    return (count & -count).bit_length() - 1


QUOTE_ENTITY = re.compile(rb"&(?:#x27|#39|#34|quot|apos);")
"""This pattern matches a quote that is written as an HTML entity."""
_FRAMED = re.compile(rb"<([^\s<>\"'`\\]{8,128})>")
_NAMED = re.compile(rb"([a-z]{2,24}|[A-Z]{2,24}|[a-z]+_[a-z_]{1,24}|[A-Z]+_[A-Z_]{1,24})=")
_ENDS = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}\b|(?:"
    + "|".join(rules.load("secrets/words/values.yaml")["behind_bars"].split()).encode()
    + rb")(?:\||\Z)"
)
"""This pattern matches a date or a command after a `|`. This text is not part of the value."""
_LONGEST_LINE = 400


def before_bar(data: bytes, start: int, end: int) -> int:
    """Return the end of a value that may contain a `|`. Before a command or a table cell, the `|` ends the
    value. Any other `|` may be part of a password."""
    bar = data.find(b"|", start, end)
    if bar >= 0 and _is_in_row(data, start, bar):
        return bar
    while bar >= 0:
        if bar + 1 == end or _is_other(data[bar + 1 : end]):
            return bar
        bar = data.find(b"|", bar + 1, end)
    return end


def _is_other(after: bytes) -> bool:
    """Return whether the text after a `|` is no part of the value: `name=other` or a command."""
    named = _NAMED.match(after)
    if named is not None:
        return is_wordy(named[1].decode("ascii"))
    return _ENDS.match(after) is not None


def _is_in_row(data: bytes, at: int, bar: int) -> bool:
    """Return whether the line begins and ends with a `|`, like a row of a table."""
    begin = data.rfind(b"\n", max(0, at - _LONGEST_LINE), at) + 1
    if data[begin:at].lstrip(b" \t")[:1] != b"|":
        return False
    end = data.find(b"\n", bar, bar + _LONGEST_LINE)
    return data[bar : end if end >= 0 else bar + _LONGEST_LINE].rstrip().endswith(b"|")


def unframed(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the range between `<` and `>` if a random value is there; otherwise the whole range. Words
    between `<` and `>` are a field to be filled in."""
    framed = _FRAMED.fullmatch(data, start, end)
    return framed.span(1) if framed and _is_framed(framed[1]) else (start, end)


def framed_value(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the range after the `<` at `at`, up to its `>`, if a random value is there; otherwise None."""
    framed = _FRAMED.match(data, at)
    return framed.span(1) if framed and _is_framed(framed[1]) else None


def _is_framed(inside: bytes) -> bool:
    return judge("framed", inside.decode("utf-8", "replace"))


def between_entities(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the range between two entities such as `&quot;`; the whole range if there are none."""
    opener = QUOTE_ENTITY.match(data, start, end)
    if opener is None:
        return start, end
    # The range may end before the semicolon of the last entity.
    stop = data.find(opener[0][:-1], opener.end(), end)
    return opener.end(), stop if stop >= 0 else end


LOOK = 512
"""The greatest number of bytes that are read of one value."""
LONGEST_JUDGED = 256
"""Only this number of characters, at the beginning of a value, decides whether it is a secret."""
_RUN = re.compile(rb"[^\s\"'`<>\\\x1b\x00]{1,512}")
RUN_ODD = re.compile(rb"[^\s\"'`\\\x1b\x00]{1,512}")
RUN_CODE = re.compile(rb"[^\s\"'`<>\\\x1b\x00,;&|(){}\[\]]{1,512}")
RUN_QUERY = re.compile(rb"[^\s\"'`<>\\\x1b\x00&#,;)]{1,512}")
RUN_LIST = re.compile(rb"[^\s\"'`<>\\\x1b\x00&,;)]{1,512}")
RUN_ELEMENT = re.compile(rb"[^\s<>\\\x1b\x00\"']{1,512}")
RUN_DEFAULT = re.compile(rb"[^\s\"'`<>\\\x1b\x00{}$]{1,512}")
RUN_CSV = re.compile(rb"[^\s\"'`<>\\\x1b\x00,]{1,512}")
_PERCENT_END = re.compile(
    rb"%(?:25)?(?:26|0[aAdD]|22|20|29|3[bB]|2[cC]|5[dD]|7[dD])|&(?:amp|quot|apos|#39|#34|#x27);|\xe2\x80[\x99\x9d]|\xe3\x80[\x81\x82]|\xef\xbc[\x8c\x9b]"
)
"""This pattern matches a text that ends a value: a percent escape such as `%26`, an HTML entity, a closing
typographic quote, or a full-width comma, semicolon or full stop."""
_INSIDE = {q: re.compile(rb"(?:[^\"" + q + rb"\\\r\n]|\\[^\r\n]){0,512}") for q in (b'"', b"'", b"`")}
_INSIDE_ESCAPED = re.compile(rb"(?:[^\\\"\r\n]|\\{1,31}u00(?:2[1346-9a-f]|3[c-e]|26))" + rb"{0,512}")
_TRIM = b".,;:"
_BRACKETS = {ord(")"): b"(", ord("]"): b"[", ord("}"): b"{"}


class Value(NamedTuple):
    """A `Value` is the range of a value in the text, and the style in which it is written."""

    start: int
    end: int
    style: Style
    bare: bytes = b""
    """The quotes of the name if the value is a JSON number, which has no quotes; otherwise empty."""


def read(data: bytes, at: int, opener: bytes, style: Style, run: re.Pattern[bytes] = _RUN) -> Value | None:
    """Return the value at `at`; None if there is none. A value with an opening quote, `opener`, ends at the
    closing quote. Any other value is the match of `run`, without signs such as `,` at its end."""
    if not opener:
        if data.startswith(b"&", at) and (entity := QUOTE_ENTITY.match(data, at)):
            return _between_entities(data, entity)
        match = run.match(data, at)
        if match is None:
            framed = framed_value(data, at)
            return Value(*framed, style) if framed else None
        # `_PERCENT_END` is slow, and most values contain none of these characters.
        may_be_cut = b"%" in match[0] or b"&" in match[0] or not match[0].isascii()
        cut = _PERCENT_END.search(data, at, match.end()) if may_be_cut else None
        end = cut.start() if cut else match.end()
        while end > at and (data[end - 1] in _TRIM or _is_stray(data, at, end)):
            end -= 1
        end = before_bar(data, at, end)
        return Value(at, end, style) if end > at else None
    inside = _INSIDE_ESCAPED if opener.startswith(b"\\") else _INSIDE[opener[-1:]]
    match = inside.match(data, at)
    end = match.end() if match else at
    if opener[-1:] != b'"':
        end = end_of_string(data, at, end, closed=data[end : end + 1] == opener[-1:])
    if data[end : end + 2] == b'\\"':
        # The backslashes before the quote belong to the quote.
        end = at + len(data[at:end].rstrip(b"\\"))
    at, end = unframed(data, at, end)
    return Value(at, end, style) if end > at else None


class Pair(NamedTuple):
    """A `Pair` is a value with its name, as a reader found them in the text."""

    value: Value
    names: Iterable[Name]
    """The names that the value may have. The first name after which the value is a secret counts."""
    place: str
    """The way in which the name and the value stand together, such as `column`. The rule's id begins with
    this text."""
    rank: Rank = Rank.GENERIC


def secrets(data: bytes, pairs: Iterable[Pair], least: Strength = Strength.STRONG) -> Iterator[Span]:
    """Yield the spans of the values that are secrets. The names need at least the strength `least`."""
    for value, names, place, rank in pairs:
        for name in names:
            if name.strength < least or not may_be_secret(data, value, name.strength):
                continue
            is_named = rank is Rank.GENERIC
            sure = is_named and name.strength > Strength.WEAK
            sure = sure and judge("unmistakable", _text(data, value), name.strength)
            rule = f"{place}-{name.label}" if is_named else place
            yield Span(value.start, value.end, name.label, rule, rank, sure, value.bare)
            break


def judged(reader: Callable[[bytes, bytes, list[int]], Iterator[Pair]]) -> Search:
    """Return the function of a finder whose secrets are in the pairs of a reader."""
    return lambda data, low, places: secrets(data, reader(data, low, places))


def may_be_secret(data: bytes, value: Value, strength: Strength = Strength.PASSWORD) -> bool:
    """Return whether a value counts as a secret after a name of this strength."""
    return is_secret(_text(data, value), strength, value.style)


def _text(data: bytes, value: Value) -> str:
    return data[value.start : value.end].decode("utf-8", "replace")[:LONGEST_JUDGED]


def _is_stray(data: bytes, at: int, end: int) -> bool:
    """Return whether the value ends with a closing bracket whose opening bracket is not in the value."""
    opening = _BRACKETS.get(data[end - 1])
    return opening is not None and data.count(opening, at, end) < data.count(data[end - 1 : end], at, end)


def _between_entities(data: bytes, opener: re.Match[bytes]) -> Value | None:
    """Return the value between two HTML entities for quotes, as in `&quot;value&quot;`; None if there is
    none."""
    stop = data.find(opener[0], opener.end(), opener.end() + LOOK)
    inside = b"\n" not in data[opener.end() : stop]
    return Value(opener.end(), stop, Style.QUOTED) if stop > opener.end() and inside else None
