"""A secret that is known from one place is taken out wherever else it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import ahocorasick_rs

from penumbra.redaction.span import Span

_LEAST = 8
"""Bytes: a shorter value may be part of something else."""
_LONG = 16
"""Bytes: from here on a value is known even where one of its ends runs into a word."""
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def elsewhere(data: bytes, spans: Iterable[Span]) -> Iterator[Span]:
    """The other places of the values that are surely secrets."""
    values: dict[bytes, Span] = {}
    for span in spans:
        if span.sure and span.end - span.start >= _LEAST:
            values.setdefault(data[span.start : span.end], span)
    if not values:
        return
    if len(values) == 1:
        yield from _others(data, *values.items())
        return
    values_found = list(values)
    automaton = ahocorasick_rs.BytesAhoCorasick(
        values_found,
        implementation=ahocorasick_rs.Implementation.ContiguousNFA,
        matchkind=ahocorasick_rs.MatchKind.LeftmostLongest,
    )
    for index, start, end in automaton.find_matches_as_indexes(data):
        if not is_part(data, start, end):
            yield values[values_found[index]]._replace(start=start, end=end, quote=b"")


def _others(data: bytes, found: tuple[bytes, Span]) -> Iterator[Span]:
    """All places of one value: to build what looks for many would take longer than to look."""
    value, span = found
    start = data.find(value)
    while start >= 0:
        end = start + len(value)
        if not is_part(data, start, end):
            yield span._replace(start=start, end=end, quote=b"")
        start = data.find(value, end)


def is_part(data: bytes, start: int, end: int) -> bool:
    """Whether a value is part of a longer word, escapes aside."""
    before = start > 0 and data[start - 1] in _WORD and data[start - 2 : start - 1] not in (b"\\", b"[", b";")
    after = end < len(data) and data[end] in _WORD
    return (before and after) if end - start >= _LONG else (before or after)
