"""One pass over a text that says where to look closer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import ahocorasick_rs

Owner = TypeVar("Owner")


class Anchors(Generic[Owner]):
    """Fixed strings, each with what it is to those who want to know where it stands.

    `brief`: few texts will be searched, so that what is built soon is better than what searches fast.
    """

    def __init__(self, owners: Mapping[bytes, Owner], *, brief: bool = False) -> None:
        kinds = ahocorasick_rs.Implementation
        self._owners = list(owners.values())
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            list(owners) or [b"\x00"], implementation=kinds.ContiguousNFA if brief else kinds.DFA
        )

    def find(self, low: bytes) -> tuple[list[Owner], list[tuple[int, int, int]]]:
        """The owners; and for every place of every anchor in a text in lower case which of them is its own,
        its start and its end."""
        return self._owners, self._automaton.find_matches_as_indexes(low, overlapping=True)
