"""Paths and addresses that stand only in what an excerpt leaves out, named at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import re2

from penumbra.compress.windows import Span

MOST = 12
"""Names."""
_ROOM = 600
"""Bytes that the line may have."""
_SHARE = 8
"""It has no more than this part of an excerpt's room."""
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_NAME = re2.compile(
    rb"https?://[^\s\"'`<>()\[\]{},;\\]{4,}|(?:~|\.{1,2})?(?:/?[\w@+-][\w.@+-]*)+/[\w.@+-]*\.[A-Za-z]\w{0,7}\b",
    _OPTIONS,
)
_LONGEST = 160
"""Bytes of a name."""
_SEARCHED = 200_000
"""Bytes that are looked at."""


def room(of: int) -> int:
    """Bytes for the line within the room of an excerpt."""
    return min(_ROOM, of // _SHARE)


def line(data: bytes, spans: Sequence[Span], most: int) -> str:
    """`[what is left out names, among others: src/a.py, https://…]`, with the line end in front of it.

    `spans`: what is kept of `data`, in order; `most`: bytes. Empty if there are no such names.
    """
    kept = b"\n".join(data[start:end] for start, end in spans)
    names: list[bytes] = []
    left = most - len(_FORM)
    for name in dict.fromkeys(_left_out(data, spans)):
        if len(names) == MOST:
            break
        if len(name) <= _LONGEST and len(name) + 2 <= left and name not in kept:
            names.append(name)
            left -= len(name) + 2
    # A single name says too little for its line.
    return _FORM % b", ".join(names).decode("ascii", "replace") if len(names) > 1 else ""


_FORM = "\n[what is left out names, among others: %s]"


def _left_out(data: bytes, spans: Sequence[Span]) -> Iterator[bytes]:
    position = 0
    for start, end in (*spans, (len(data), len(data))):
        for match in _NAME.finditer(data, position, min(start, _SEARCHED)):
            yield match[0].rstrip(b".:")
        position = end
