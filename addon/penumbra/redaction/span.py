"""A stretch of a text that is a secret, as the finders report it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Rank(IntEnum):
    """Who names a secret that several rules found: the one that knows most about it."""

    GENERIC = 0
    """A telling name."""
    STRUCTURE = 1
    """A place where secrets stand: a URL, a header, a file format."""
    TOKEN = 2
    """The secret's own form."""
    BLOCK = 3
    """A private key."""


class Span(NamedTuple):
    """Bytes `start` to `end` of the scanned text are a secret. A tuple: a text full of secrets has many."""

    start: int
    end: int
    label: str
    rule: str
    rank: Rank
    sure: bool = False
    """Its value may be taken out wherever else it stands in the text."""
    quote: bytes = b""
    """A bare JSON number: the placeholder needs these quotes around it."""

    def at(self, start: int, end: int) -> Span:
        """The same secret at another place."""
        return Span(start, end, self.label, self.rule, self.rank, self.sure, self.quote)


@dataclass(frozen=True, slots=True)
class Finder:
    """Code that knows a place where secrets stand which no single pattern describes."""

    id: str
    anchors: tuple[bytes, ...]
    """Lower case; the code runs only if one of them is in the text."""
    find: Callable[[bytes, bytes, list[int]], Iterator[Span]]
    """(text, text in lower case, places of the anchors) -> secrets."""
