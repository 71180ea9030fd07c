"""This module finds titles, search hits, hunks and other special lines. rules/lines.yaml has the form of
each."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, compress, groupby, repeat
from typing import NamedTuple

from penumbra import rules


class _Form(NamedTuple):
    """A `_Form` is the form of the lines that have one flag."""

    match: Callable[[str], re.Match[str] | None]
    begins: str
    """The characters with which a line of this form may begin; empty for any character."""
    longest: int


@cache
def _forms() -> Mapping[str, _Form]:
    return {
        flag: _Form(
            re.compile("|".join(rule["patterns"])).match,
            rule.get("begins", ""),
            rule.get("longest", sys.maxsize),
        )
        for flag, rule in rules.table("lines.yaml")["flags"].items()
    }


class LineFlags:
    """A `LineFlags` finds the lines with a flag when a caller first asks for this flag."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._found: dict[str, dict[int, None]] = {}

    @cached_property
    def _by_beginning(self) -> Mapping[str, list[int]]:
        beginning = [line[:1] for line in self.lines].__getitem__
        order = sorted(range(len(self.lines)), key=beginning)
        return {first: [*positions] for first, positions in groupby(order, beginning)}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.lines), default=0)

    def __getitem__(self, flag: str) -> Collection[int]:
        """Return the positions of the lines with a flag, in order."""
        if flag not in self._found:
            (match, begins, longest), lines = _forms()[flag], self.lines
            positions: Sequence[int] = range(len(lines))
            if begins:
                positions = sorted(chain(*map(self._by_beginning.get, begins, repeat(()))))
            if longest < self._longest:
                positions = [at for at in positions if len(lines[at]) <= longest]
            self._found[flag] = dict.fromkeys(
                compress(positions, map(match, map(lines.__getitem__, positions)))
            )
        return self._found[flag]

    def has(self, at: int, flag: str) -> bool:
        """Return whether the line at a position has a flag."""
        match, _, longest = _forms()[flag]
        return 0 <= at < len(self.lines) and len(self.lines[at]) <= longest and bool(match(self.lines[at]))
