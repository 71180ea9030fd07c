"""At which places a stream is cut in two."""

from __future__ import annotations

import re
from collections.abc import Sequence

EVERYWHERE = False
"""Set by `scripts/test --all`: long streams are cut at every byte too."""
FEW = False
"""Set by `scripts/test --fast`: of the places every eighth."""
SHORT = 1_000
"""Bytes; a stream of no more is always cut at every byte."""
_STEP = 17
_TENDER = re.compile(rb"[\r\n\\\x80-\xff]")


def places(*streams: bytes) -> Sequence[int]:
    """The places, from 0 to the longest stream's length. Of a long one: around all line ends, escapes and
    parts of characters, and every 17th."""
    usual = _places(streams)
    return [*usual[::8], usual[-1]] if FEW else usual


def _places(streams: Sequence[bytes]) -> Sequence[int]:
    end = max(map(len, streams))
    if EVERYWHERE or end <= SHORT:
        return range(end + 1)
    tender = {match.start() + side for data in streams for match in _TENDER.finditer(data) for side in (0, 1)}
    return sorted({*range(0, end, _STEP), *tender, end})
