"""Places of lines in earlier texts, and which lines of a forwarded text are lines of the tool's output.

Conversations have many lines, and most of them are never looked up: `LinePlaces` notes for each line which
texts contain it, and finds the positions within a text only when one of its lines is looked up.

Lines that mean something only below a legend or a head (values of a pattern, rows of a table, hits below
their file's name) and lines that Penumbra has written are no lines of the output: the same line under another
head says something else.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar

from penumbra.compress.calls import json_envelope
from penumbra.compress.calls.classify import Call
from penumbra.compress.stages import terminal

_KEEP_LINES = frozenset(
    {"redaction", "terminal", "envelope", "json_envelope", "own_path", "line_numbers", "json_minify"}
    | {"back_references"}
)
"""Stages after which each line still says by itself what a line of the output says."""


_CODED = re.compile(
    r"(?:<<<SHADOW:shadow_[0-9a-f]{18,32}>>>\n[^\n]{0,400}\n)?"
    r"(?:\[patterns; \"~A 1 2\" |(?:\{[^\n]{0,4000}\n)?\[table 1: [0-9]+ objects; )"
)
"""Beginnings of results that another proxy has coded."""


def keeps_lines(text: str, stages: Collection[str]) -> bool:
    """True if each line of what these stages made of a result says by itself what the output says."""
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
    after the lines before it. Of equal lines, the one directly after is meant, else the next one."""
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


T = TypeVar("T")
_TELLING = 12
"""Characters that a line must have (blanks aside) to be looked up."""
_MOST = 24
"""Places of one line that are looked at, the latest ones."""


def is_telling(line: str) -> bool:
    """True if a line is worth looking up."""
    return len(line) >= _TELLING and len(line.strip()) >= _TELLING


@dataclass(slots=True)
class _Placed(Generic[T]):
    text: T
    lines: Sequence[str | None]
    _positions: dict[str, list[int]] | None = None

    def positions(self, line: str) -> list[int]:
        """Where a line stands in the text, in order."""
        if self._positions is None:
            self._positions = {}
            for position, other in enumerate(self.lines):
                if other is not None:
                    self._positions.setdefault(other, []).append(position)
        return self._positions[line]


@dataclass(slots=True)
class LinePlaces(Generic[T]):
    """The places of the telling lines of some texts."""

    first: dict[str, int] = field(default_factory=dict)
    """The number of the first text that has a line, by line."""
    _others: dict[str, list[int]] = field(default_factory=dict)
    """The numbers of the texts after that one."""
    _texts: list[_Placed[T]] = field(default_factory=list)

    def note(self, text: T, lines: Sequence[str | None]) -> None:
        """Add a text. `lines` are not to be changed; None for those that are not looked up."""
        number = len(self._texts)
        self._texts.append(_Placed(text, lines))
        # `is_telling`, for every line of every text.
        telling = {
            line
            for line in lines
            if line is not None and len(line) >= _TELLING and len(line.strip()) >= _TELLING
        }
        again = telling & self.first.keys()
        for line in again:
            self._others.setdefault(line, []).append(number)
        self.first.update(dict.fromkeys(telling - again, number))

    def latest_first(self, line: str | None) -> Iterator[tuple[T, int]]:
        """The latest places of a line, text and position, the latest one first."""
        first = None if line is None else self.first.get(line)
        if line is None or first is None:
            return
        count = 0
        for number in chain(reversed(self._others.get(line, [])), [first]):
            text = self._texts[number]
            for position in text.positions(line)[::-1][: _MOST - count]:
                count += 1
                yield text.text, position
            if count == _MOST:
                return
