"""Secrets in a text as the finders report them, and the other places of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import ahocorasick_rs


class Rank(IntEnum):
    """The rank of a rule. If several rules found a secret, the one with the highest rank names it."""

    GENERIC = 0
    """The secret has a telling name."""
    STRUCTURE = 1
    """The secret stands in a place for secrets: a URL, a header, a file format."""
    TOKEN = 2
    """The secret has a form of its own."""
    BLOCK = 3
    """The secret is a private key."""


class Span(NamedTuple):
    """A secret, at the bytes `start` to `end` of the scanned text. (A tuple, since a text may hold many.)"""

    start: int
    end: int
    label: str
    rule: str
    rank: Rank
    sure: bool = False
    """True if the value is a secret wherever it stands in the text."""
    quote: bytes = b""
    """Quotes that the placeholder of a bare JSON number needs around it."""

    def at(self, start: int, end: int) -> Span:
        """Return the same secret at another place."""
        return Span(start, end, self.label, self.rule, self.rank, self.sure, self.quote)


@dataclass(frozen=True, slots=True)
class Finder:
    """A function that knows a place of secrets which no single pattern describes."""

    id: str
    anchors: tuple[bytes, ...]
    """Texts in lower case; the function is called only if one of them is in the text."""
    find: Callable[[bytes, bytes, list[int]], Iterator[Span]]
    """(text, text in lower case, places of the anchors in order) -> secrets."""


_LEAST = 8
"""Bytes of the shortest value that is looked for elsewhere. A shorter one may be part of something else."""
_LONG = 16
"""Bytes of the shortest value that is recognised even where one of its ends runs into a word."""
_BATCH, _PIECE = 262_144, 1 << 20
"""Bytes of the values that are looked for at once, and of the text that they are looked for in."""
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def elsewhere(data: bytes, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the other places of the values that are secrets wherever they stand."""
    values: dict[bytes, Span] = {}
    for span in spans:
        if span.sure and span.end - span.start >= _LEAST:
            values.setdefault(data[span.start : span.end], span)
    if not values:
        return
    if len(values) == 1:
        yield from _others(data, *values.items())
        return
    # Sorted values share their beginnings with their neighbours, so the automaton is built faster.
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
    """Yield the values in batches, so small that building an automaton delays no other work."""
    some: list[bytes] = []
    size = 0
    for value in values:
        some.append(value)
        size += len(value)
        if size > _BATCH:
            yield some
            some, size = [], 0
    if some:
        yield some


def _in_pieces(
    automaton: ahocorasick_rs.BytesAhoCorasick, data: bytes, longest: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the matches in a text, which is searched piece by piece. No match is longer than `longest`."""
    at = 0
    while at < len(data):
        end = following = at + max(_PIECE, longest)
        for index, start, stop in automaton.find_matches_as_indexes(data[at : end + longest]):
            if at + start >= end:
                break
            yield index, at + start, at + stop
            following = max(end, at + stop)
        at = following


def _others(data: bytes, found: tuple[bytes, Span]) -> Iterator[Span]:
    """Yield all places of one value, without an automaton, which takes longer to build than one search."""
    value, span = found
    start = data.find(value)
    while start >= 0:
        end = start + len(value)
        if not is_part(data, start, end):
            yield span._replace(start=start, end=end, quote=b"")
        start = data.find(value, end)


def is_part(data: bytes, start: int, end: int) -> bool:
    """Return whether a value is part of a longer word. An escape before it is no part of a word."""
    before = start > 0 and data[start - 1] in _WORD and data[start - 2 : start - 1] not in (b"\\", b"[", b";")
    after = end < len(data) and data[end] in _WORD
    return (before and after) if end - start >= _LONG else (before or after)
