"""The passages of a long text in which names stand that its conversation has used before.

The names that an agent looks for in a file stand mostly in earlier texts: the task, a search, a call. A name
that stands in many lines says nothing about any of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from penumbra.compress.size import size

NAME = re.compile(r"[^\W\d]\w{3,}")
"""Names, without short words, which are everywhere."""
_RARE = 6
"""Lines of the text in which a name may stand at most."""
_ABOVE = 6
_BELOW = 14
"""Lines of a passage around the one with the name."""
NUMBER = 10
"""Bytes for the number in front of a passage."""
_LONGEST = 4_000_000
"""Characters above which no passages are looked for."""


def choose(lines: Sequence[str], mentioned: Mapping[str, float], span: range, room: int) -> set[int]:
    """Positions of the lines within `span` that belong to passages, in at most `room` bytes.

    `mentioned`: the names, and how much each weighs. The lines whose names are rarest and weigh most
    come first.
    """
    kept: set[int] = set()
    for position in _telling(lines, mentioned):
        if position not in span:
            continue
        first, last = max(span.start, position - _ABOVE), min(span.stop, position + _BELOW + 1)
        new = [number for number in range(first, last) if number not in kept]
        needed = sum(size(lines[number]) + 1 for number in new) + NUMBER
        if needed <= room:
            room -= needed
            kept.update(new)
    return kept


def _telling(lines: Sequence[str], mentioned: Mapping[str, float]) -> list[int]:
    """Positions of the lines with such names, the most telling first."""
    if not mentioned or sum(map(len, lines)) > _LONGEST:
        return []
    # In the order of the text, so that sums of floats are the same everywhere.
    named = [
        [name for name in dict.fromkeys(NAME.findall(line)) if name in mentioned] if line else []
        for line in lines
    ]
    counts = Counter(name for names in named for name in names)
    weights = [
        sum(mentioned[name] / counts[name] for name in names if counts[name] <= _RARE) for names in named
    ]
    telling = (position for position, weight in enumerate(weights) if weight)
    return sorted(telling, key=lambda position: -weights[position])
