"""Which lines of a forwarded text are lines of the output that it was made of, and which ones.

Lines that mean something only together with a legend or a head (values of a pattern, rows of a table, hits
below their file's name), and those that we have written, are none: the same line under another head says
something else.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from penumbra.compress.calls import json_envelope
from penumbra.compress.calls.classify import Call
from penumbra.compress.stages import terminal

_KEEP_LINES = frozenset(
    {"redaction", "terminal", "envelope", "json_envelope", "own_path", "line_numbers", "json_minify"}
    | {"table_whitespace", "back_references"}
)
"""Stages behind which each line still says by itself what a line of the output says."""


_CODED = re.compile(
    r"(?:<<<SHADOW:shadow_[0-9a-f]{18,32}>>>\n[^\n]{0,400}\n)?"
    r"(?:\[patterns; \"~A 1 2\" |(?:\{[^\n]{0,4000}\n)?\[table 1: [0-9]+ objects; )"
)
"""How results begin that were coded before they came, by another proxy."""


def keeps_lines(text: str, stages: Collection[str]) -> bool:
    """Whether each line of what these stages made of a result says by itself what the output says."""
    return _KEEP_LINES.issuperset(stages) and _CODED.match(text) is None


def output_of(text: str, call: Call) -> str:
    """The output in a result as it came: what a screen would show, without JSON around it; nothing of what
    was coded before."""
    if _CODED.match(text):
        return ""
    alone = json_envelope.alone(text)
    output = text if alone is None else alone
    if not terminal.may_act(output) or call.shows_files or call.is_coloured:
        return output
    return terminal.render(output, moves=not call.is_quoted)


def standing(lines: Sequence[str], original: Sequence[str]) -> list[str | None]:
    """The lines that stand in the original too; None for all others."""
    there = {line.rstrip() for line in original}
    return [line if line.rstrip() in there else None for line in lines]


def numbers(lines: Sequence[str | None], original: Sequence[str]) -> list[int]:
    """The number of each line in the original, counted from 1 and rising; 0 for what is not found there
    behind the lines before it. Of equal lines, the one directly behind is meant, else the next one."""
    wanted = {line.rstrip() for line in lines if line is not None}
    places: dict[str, list[int]] = defaultdict(list)
    for position in range(len(original) - 1, -1, -1):
        bare = original[position].rstrip()
        if bare in wanted:
            places[bare].append(position)
    found: list[int] = []
    behind = 0
    for line in lines:
        following = [] if line is None else places.get(line.rstrip(), [])
        while following and following[-1] < behind:
            following.pop()
        behind = following[-1] + 1 if following else behind
        found.append(behind if following else 0)
    return found
