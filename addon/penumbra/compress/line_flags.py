"""This module finds titles, search hits, hunks and other special lines. rules/lines.yaml has the form of
each."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain

from penumbra import rules


@dataclass(frozen=True, slots=True)
class _Form:
    """A `_Form` is the form of the lines that have one flag."""

    match: Callable[[str], re.Match[str] | None]
    begins: str
    """The characters with which a line of this form may begin; empty for any character."""
    longest: int

    def is_of(self, line: str) -> bool:
        return len(line) <= self.longest and self.match(line) is not None


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
        positions: dict[str, list[int]] = {}
        for at, line in enumerate(self.lines):
            positions.setdefault(line[:1], []).append(at)
        return positions

    def __getitem__(self, flag: str) -> Collection[int]:
        """Return the positions of the lines with a flag, in order."""
        if flag not in self._found:
            form, lines = _forms()[flag], self.lines
            positions: Iterable[int] = range(len(lines))
            if form.begins:
                positions = sorted(chain(*(self._by_beginning.get(one, ()) for one in form.begins)))
            self._found[flag] = dict.fromkeys([at for at in positions if form.is_of(lines[at])])
        return self._found[flag]

    def has(self, at: int, flag: str) -> bool:
        """Return whether the line at a position has a flag."""
        return 0 <= at < len(self.lines) and _forms()[flag].is_of(self.lines[at])
