"""This module makes the placeholders that replace secrets, and finds placeholders in texts and calls."""

from __future__ import annotations

import hmac
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import ahocorasick_rs

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.prompt import Kind
from penumbra.redaction.span import Span
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson

_BODY = r"REDACTED:[a-z0-9][a-z0-9-]{0,39}:[a-z2-7]{6}"
PATTERN = re.compile(rf"\[{_BODY}\]")
"""This pattern matches a placeholder."""
PATTERN_BYTES = re.compile(rf"\[{_BODY}\]".encode())
# `re` finds a bracket at the beginning of a pattern faster than elsewhere.
WITHIN_WORD = re.compile(rf"\[(?:(?<=[\w+/-]\[)(?<!\\[nrt]\[){_BODY}\]|{_BODY}\](?=[\w+/-]))".encode())
"""This pattern matches a placeholder that replaces a part of a word."""
BESIDE = re.compile(
    rf"\[(?:(?:(?<![^0-9=+/!#$%&*?.-][=:]\[)|(?<=[\w+/-]{{24}}[=:]\[))"
    rf"(?<![=:][ \"']\[)(?<![=:] [\"']\[){_BODY}\]"
    rf"|{_BODY}\](?![\"'][,}}]|[\"']?(?:,?[\r\n]|\Z)))".encode()
)
"""This pattern matches a placeholder that may be a part of a longer secret. The whole value of an assignment,
up to a quote or the end of the line, is no such part. After a sign, a digit or a long word, `=` or `:` may be
a part of a secret instead, as in base64."""
ALONE = (
    rf"[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?:\[{_BODY}\](?=[\r\n]|\Z)"
    rf"|([\"'])\[{_BODY}\]\1(?![ \t]{{1,4}}(?:->|\xe2)))"
).encode("latin-1")
"""The pattern of an operator and a value that is only a placeholder. No arrow to a new value follows."""
MAX_LENGTH = len("[REDACTED::]") + 40 + 6
"""The number of characters in the longest placeholder."""
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [one + other for one in _BASE32 for other in _BASE32]
"""The two base32 letters of each number of ten bits."""
MARK = b"[REDACTED:"
"""The beginning of each placeholder."""
_MARKS = ahocorasick_rs.BytesAhoCorasick([MARK])
"""An automaton that finds the beginnings of placeholders."""


def fingerprint(key: bytes, value: bytes) -> str:
    """Return six base32 characters of a keyed hash. Equal values have equal fingerprints."""
    keyed = _keyed(key).copy()
    keyed.update(value)
    bits = int.from_bytes(keyed.digest()[:4], "big") >> 2
    return _PAIRS[bits >> 20] + _PAIRS[bits >> 10 & 0x3FF] + _PAIRS[bits & 0x3FF]


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod="sha256")


def make(label: str, key: bytes, value: bytes) -> str:
    """Return `[REDACTED:<label>:<fingerprint>]`."""
    return f"[REDACTED:{label}:{fingerprint(key, value)}]"


def ends(data: bytes, at: int) -> bool:
    """Return whether a placeholder ends at `at`."""
    start = data.rfind(MARK, max(0, at - MAX_LENGTH), at)
    return start >= 0 and PATTERN_BYTES.fullmatch(data, start, at) is not None


def has_name(data: bytes, start: int) -> bool:
    """Return whether the word that begins at `start` is the label of a placeholder."""
    return PATTERN_BYTES.match(data, start - len(MARK)) is not None


def is_in(data: bytes) -> bool:
    """Return whether a text contains a placeholder."""
    found = _MARKS.find_matches_as_indexes(data)
    return any(PATTERN_BYTES.match(data, start) is not None for _, start, _ in found)


def spans(data: bytes) -> list[tuple[int, int]]:
    """Return the spans of placeholders, in order."""
    if MARK not in data:
        return []
    return [match.span() for match in PATTERN_BYTES.finditer(data)]


_LEAST = 4
"""Shorter parts of a span, before or after a placeholder, are dropped."""
_WORD = re.compile(rb"\w*")


def around(spans: Iterable[Span], taken: Sequence[tuple[int, int]], data: bytes) -> Iterator[Span]:
    """Yield the parts of the spans that are outside of placeholders. `taken` has the placeholders."""
    ends = [end for _, end in taken]
    for span in spans:
        index, start, pieces = bisect_right(ends, span.start), span.start, 0
        while index < len(taken) and taken[index][0] < span.end:
            yield from _piece(span, start, taken[index][0], data)
            start, index, pieces = taken[index][1], index + 1, pieces + 1
        if not pieces:
            yield span
        elif start < span.end:
            yield from _piece(span, start, span.end, data)


def _piece(span: Span, start: int, end: int, data: bytes) -> Iterator[Span]:
    value = data[start:end]
    start += len(value) - len(value.lstrip())
    end -= len(value) - len(value.rstrip())
    if end - start >= _LEAST:
        yield span._replace(start=start, end=end, quote=b"")


def cut(spans: Iterable[Span], taken: Sequence[tuple[int, int]], text: bytes) -> Iterator[Span]:
    """Yield the spans of `text` that contained or adjoined placeholders. These placeholders, at `taken`, were
    removed from `text`. A span with a placeholder at its beginning is extended to the end of its word,
    because the end of the word would look like another secret."""
    gaps: list[int] = []
    gone = 0
    for start, end in taken:
        gaps.append(start - gone)
        gone += end - start
    for span in spans:
        index = bisect_left(gaps, span.start)
        if index == len(gaps) or gaps[index] > span.end:
            continue
        rest = _WORD.match(text, span.end) if gaps[index] == span.start else None
        yield span._replace(end=rest.end()) if rest else span


# A tool that gets a placeholder as an argument uses it like a real value.
NOTE = (
    "[Note: the arguments of this call hold a [REDACTED:…] placeholder: the tool got those very characters, "
    "not the secret, and so did any file that it wrote them to.]"
)
"""The line that is added for the model to a result. The arguments of the call had a placeholder."""


def calls(wire: ApiFormat, body: bytes, *, stream: bool) -> int:
    """Return the number of calls in a response that have a placeholder in their arguments. `body` is the
    response that the client got, without content coding."""
    response = wire.stream("") if stream else wire.body("")
    response.feed(body)
    return within(wire, response.end_turn().message)


def within(wire: ApiFormat, message: bytes | None) -> int:
    """Return the number of calls in a message that have a placeholder in their arguments. The message is in
    the form that a request has."""
    if message is None or PATTERN.search(message.decode("utf-8", "replace")) is None:
        return 0
    try:
        # Some formats write a message as several items.
        document = Document(b"[" + message + b"]")
    except NotJson:
        return 0
    messages = (wire.message(document, item) for item in document.items(document.root))
    made = (part for turn in messages for part in turn.of(Kind.CALL) if part.arguments is not None)
    return sum(any(marks(document.plain(part.arguments))) for part in made)


def marks(arguments: Any) -> Iterator[str]:
    """Yield the placeholders in decoded arguments."""
    waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield from PATTERN.findall(value)
        waiting += value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
