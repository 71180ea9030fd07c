"""This module defines the `Span` of a secret, and finds the other places of a known secret."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import ahocorasick_rs


class Rank(IntEnum):
    """The rank of a rule. If several rules find a secret, its label is that of the rule with the highest
    rank."""

    GENERIC = 0
    """A name such as `password` marks the secret."""
    STRUCTURE = 1
    """The secret is in a part of a URL, a header or a file format. This part is meant for secrets."""
    TOKEN = 2
    """The characters of the secret show its kind, as the prefix `ghp_` does."""
    BLOCK = 3
    """The secret is a private key."""


class Span(NamedTuple):
    """A `Span` is a secret at the bytes `start` to `end` of a text."""

    start: int
    end: int
    label: str
    rule: str
    rank: Rank
    sure: bool = False
    """True if the value is a secret wherever it occurs in the text."""
    quote: bytes = b""
    """The quotes that the placeholder gets if the secret is a JSON number; otherwise empty."""

    def at(self, start: int, end: int) -> Span:
        """Return a copy of the span with another range."""
        return Span(start, end, self.label, self.rule, self.rank, self.sure, self.quote)


Search = Callable[[bytes, bytes, list[int]], Iterator[Span]]


@dataclass(frozen=True, slots=True)
class Finder:
    """A `Finder` has a function that finds secrets of a kind for which one pattern is not enough."""

    id: str
    anchors: tuple[bytes, ...]
    """Strings in lower case. The function is called only if the text contains one of them."""
    find: Search
    """The function, which gets the text, the text in lower case, and the sorted offsets of the anchors."""


_LEAST = 8
"""A shorter value, in bytes, is not searched for in the other parts of the text."""
_LONG = 16
"""A shorter value, in bytes, is not found if a letter, digit or `_` is next to it."""
BATCH, PIECE = 262_144, 1 << 20
"""One search is for values of about `BATCH` bytes together, in about `PIECE` bytes of text."""
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def elsewhere(data: bytes, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the other places of the values of long `sure` spans. Parts of longer words are left out."""
    values: dict[bytes, Span] = {}
    for span in spans:
        if span.sure and span.end - span.start >= _LEAST:
            values.setdefault(data[span.start : span.end], span)
    if not values:
        return
    if len(values) == 1:
        yield from _others(data, *values.items())
        return
    # The automaton is built faster from sorted values.
    for some in _batches(sorted(values)):
        automaton = ahocorasick_rs.BytesAhoCorasick(
            some,
            implementation=ahocorasick_rs.Implementation.ContiguousNFA,
            matchkind=ahocorasick_rs.MatchKind.LeftmostLongest,
        )
        for index, start, end in _in_pieces(automaton, data, max(map(len, some))):
            if not is_part(data, start, end):
                yield values[some[index]]._replace(start=start, end=end, quote=b"")


def _batches(values: list[bytes]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    size = 0
    for value in values:
        some.append(value)
        size += len(value)
        if size > BATCH:
            yield some
            some, size = [], 0
    if some:
        yield some


def _in_pieces(
    automaton: ahocorasick_rs.BytesAhoCorasick, data: bytes, longest: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the index, start and end of each match. The text is searched in pieces. No match is longer than
    `longest`."""
    at = 0
    while at < len(data):
        end = following = at + max(PIECE, longest)
        for index, start, stop in automaton.find_matches_as_indexes(data[at : end + longest]):
            if at + start >= end:
                break
            yield index, at + start, at + stop
            following = max(end, at + stop)
        at = following


def _others(data: bytes, found: tuple[bytes, Span]) -> Iterator[Span]:
    value, span = found
    start = data.find(value)
    while start >= 0:
        end = start + len(value)
        if not is_part(data, start, end):
            yield span._replace(start=start, end=end, quote=b"")
        start = data.find(value, end)


def is_part(data: bytes, start: int, end: int) -> bool:
    """Return whether the range is part of a longer word. A letter that ends an escape such as `\\n` does not
    count. A long value is part of a word only if the word continues at both ends."""
    before = start > 0 and data[start - 1] in _WORD and data[start - 2 : start - 1] not in (b"\\", b"[", b";")
    after = end < len(data) and data[end] in _WORD
    return (before and after) if end - start >= _LONG else (before or after)
