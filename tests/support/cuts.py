"""The places at which a stream is cut in two."""

import re
from collections.abc import Sequence

from support import examples

SHORT = 1_000
"""Greatest size in bytes of a stream that is cut at every byte."""
_TENDER = re.compile(rb"[\r\n\\\x80-\xff]")


def places(*streams: bytes) -> Sequence[int]:
    """Return places from 0 to the longest stream's length. For a long stream, return all places beside line
    ends, escapes and parts of characters, and further places for the part that runs."""
    end = max(map(len, streams))
    every = range(end + 1)
    if end <= SHORT:
        return every
    tender = {match.start() + side for data in streams for match in _TENDER.finditer(data) for side in (0, 1)}
    return sorted({0, *examples.some(every), *tender, end})
