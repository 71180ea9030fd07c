"""A sample of what a web search found: title and address of every hit, then as much of their texts as fits.

1. [Title](https://example.com/a)
first words of the hit [310 characters left out]
2. [Other title](https://example.com/b)
[12 more hits]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penumbra.compress.size import counted, cut, head, size

_HEAD = re.compile(
    r"[ \t]{0,8}(?:(?:#{1,6}|[-*•]|[0-9]{1,3}[.)]) {1,4})?(?:\[[^\]\n]{1,400}\]\(https?://[^\s)]{1,800}\)"
    r"|(?:\*\*)?(?:Title|URL|Url|Link|Source|title|url|link)(?:\*\*)?: {0,4}\S)"
)
_FIRST = re.compile(r"[ \t]{0,8}1[.)] ")
"""The first of a numbered list: what stands directly above it is the list's heading."""
_ADDRESS = re.compile(r"https?://[^\s)\]>\"]{1,800}")
_LEAST = 5
"""Hits below which a text is a page and no list of hits."""
_LOOKED_AT = 60_000
"""Characters in which they must stand."""
_LONGEST = 400
"""Characters of a line that are shown."""
_NOTE = 40
"""Bytes of what is said about lines that are not shown."""


@dataclass(slots=True)
class _Hit:
    """Title and address of a hit, and the lines below them; what stands in front of the first is one, too."""

    heads: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    shown: int = 0
    """The number of shown lines."""


def is_hits(text: str) -> bool:
    """True if the text lists what a search found."""
    hits = _hits(text[:_LOOKED_AT].split("\n"))
    found = sum(any(_ADDRESS.search(line) for line in hit.heads) for hit in hits)
    return found >= _LEAST


def sample(text: str, room: int) -> str:
    """The hits that fit into `room` bytes, all of their titles and addresses before any of their texts."""
    hits = _hits(text.split("\n"))
    room -= _NOTE
    named: list[_Hit] = []
    for hit in hits:
        room -= sum(size(_short(line)) + 1 for line in hit.heads) + (_NOTE if hit.lines else 0)
        if room < 0:
            break
        named.append(hit)
    _fill(named, room)
    written = [line for hit in named for line in _written(hit)]
    if len(named) < len(hits):
        written.append(f"[{counted(len(hits) - len(named), 'more hit')}]")
    return "\n".join(written)


def _hits(lines: list[str]) -> list[_Hit]:
    hits = [_Hit()]
    for line in lines:
        if _HEAD.match(line):
            if hits[-1].lines:
                above = [hits[-1].lines.pop()] if hits[-1].heads and _FIRST.match(line) else []
                hits.append(_Hit(heads=above))
            hits[-1].heads.append(line)
        elif line.strip():
            hits[-1].lines.append(line)
    return hits


def _fill(hits: list[_Hit], room: int) -> None:
    """Show lines: the first of each hit, the second of each, and so on while they fit."""
    still = hits
    while still:
        following = []
        for hit in still:
            if hit.shown == len(hit.lines):
                continue
            room -= size(_short(hit.lines[hit.shown])) + 1
            if room < 0:
                return
            hit.shown += 1
            following.append(hit)
        still = following


def _written(hit: _Hit) -> list[str]:
    lines = [_short(line) for line in (*hit.heads, *hit.lines[: hit.shown])]
    left = len(hit.lines) - hit.shown
    return [*lines, f"[{counted(left, 'line')} left out]"] if left else lines


def _short(line: str) -> str:
    if len(line) <= _LONGEST:
        return line
    return cut(line, len(head(line[: _LONGEST - 60], 2 * _LONGEST)))
