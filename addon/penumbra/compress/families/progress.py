"""What began and was not seen to end: the line that says how far it came stays.

Receiving objects:  12% (1/8)
Receiving objects:  60% (5/8)         stays: nothing overtakes it
fatal: early EOF
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from penumbra.compress.families.patterns import Pattern


def unended(
    lines: Sequence[str], begun: Mapping[int, re.Match[str]], ended: Pattern | None
) -> Mapping[int, re.Match[str]]:
    """Of the lines that begin something, or go on with it, the last ones of what no later line ends.

    What it is, the group `of` of both says; a line without it stands for itself. A group `at`, if there is
    one, is a number that says how far it came: where it falls, it has begun anew.
    """
    if ended is None or not begun:
        return {}
    open_ones: dict[str, int] = {}
    last: dict[int, re.Match[str]] = {}
    ends = {place: match for place, match in enumerate(ended.matches(lines)) if match is not None}
    for position in sorted({*begun, *ends}):
        if position in ends:
            open_ones.pop(ends[position].group("of"), None)
            continue
        match = begun[position]
        if (of := match.group("of")) is None:
            continue
        before = open_ones.get(of)
        if before is not None and _at(begun[before]) > _at(match):
            last[before] = begun[before]
        open_ones[of] = position
    return last | {position: begun[position] for position in open_ones.values()}


def _at(match: re.Match[str]) -> int:
    return int(match.group("at") or 0) if "at" in match.re.groupindex else 0
