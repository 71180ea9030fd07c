"""Decisions, taken from bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Source:
    """Decisions, taken from bytes until there are none left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def number(self, below: int) -> int:
        """A number from 0 on."""
        taken = self.bytes(1 if below <= 256 else 2)
        return int.from_bytes(taken, "big") % below

    def one(self, choices: Sequence[T]) -> T:
        return choices[self.number(len(choices))]

    def bytes(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def some(self, pieces: Sequence[T], own: Callable[[bytes], T], most: int = 200) -> Iterator[T]:
        """Some of the pieces, and some of the source's own."""
        for _ in range(most):
            if self.is_over:
                return
            choice = self.number(len(pieces) + 4)
            yield pieces[choice] if choice < len(pieces) else own(self.bytes(1 + self.number(8)))

    def cuts(self, data: bytes) -> Iterator[bytes]:
        """The data in pieces."""
        size = self.one((1, 2, 3, 7, 16, 61, 1 << 20))
        for at in range(0, len(data), size):
            yield data[at : at + size]


def as_text(taken: bytes) -> str:
    return taken.decode("utf-8", "replace")
