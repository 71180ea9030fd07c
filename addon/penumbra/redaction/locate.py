"""One pass over a text that says where to look closer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

import ahocorasick_rs

Owner = TypeVar("Owner")


class Anchors(Generic[Owner]):
    """Fixed strings, each with those who want to know where it stands."""

    def __init__(self, pairs: Iterable[tuple[bytes, Owner]]) -> None:
        owners: dict[bytes, list[Owner]] = {}
        for anchor, owner in pairs:
            owners.setdefault(anchor, []).append(owner)
        self._owners = list(owners.values())
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            list(owners) or [b"\x00"], implementation=ahocorasick_rs.Implementation.DFA
        )

    def find(self, low: bytes) -> list[tuple[list[Owner], int]]:
        """(owners, start) for every place of every anchor in a text in lower case."""
        owners = self._owners
        places = self._automaton.find_matches_as_indexes(low, overlapping=True)
        return [(owners[index], start) for index, start, _ in places]
