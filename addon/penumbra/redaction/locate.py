"""One pass over a text that says where to look closer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import ahocorasick_rs

Owner = TypeVar("Owner")


class Anchors(Generic[Owner]):
    """Fixed strings, each with what it is to those who want to know where it stands."""

    def __init__(self, owners: Mapping[bytes, Owner]) -> None:
        self._owners = list(owners.values())
        # A DFA of all rules takes 17 MB instead of 2, and is built in 27 ms instead of 4; it spares 0.2 ms of
        # the 3 that redaction takes for 100 KB.
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            list(owners) or [b"\x00"], implementation=ahocorasick_rs.Implementation.ContiguousNFA
        )

    def find(self, low: bytes) -> tuple[list[Owner], list[tuple[int, int, int]]]:
        """The owners; and for every place of every anchor in a text in lower case which of them is its own,
        its start and its end."""
        return self._owners, self._automaton.find_matches_as_indexes(low, overlapping=True)
