"""Values that were used last, as many as there is room for. A request asks for all of its history at once."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, ItemsView, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")


class Entry(NamedTuple, Generic[V]):
    """What is in memory of a value."""

    value: V
    used: float
    """When its last use was written."""


class RecentValues(Generic[V]):
    """By key. Who is asked for was used."""

    def __init__(self, most: int, weigh: Callable[[V], int]) -> None:
        """`most`: what all may weigh together; 0: none is kept. One that weighs more stays alone."""
        self._most = most
        self._weigh = weigh
        self._entries: OrderedDict[bytes, Entry[V]] = OrderedDict()
        self._weights: dict[bytes, int] = {}
        self._total = 0

    def get(self, key: bytes) -> Entry[V] | None:
        """What is there under a key."""
        if (entry := self._entries.get(key)) is not None:
            self._entries.move_to_end(key)
        return entry

    def find(self, keys: Iterable[bytes]) -> dict[bytes, Entry[V]]:
        """What is there under keys, in their order."""
        known = self._entries
        # Nothing is done for each of them by itself: a long conversation has thousands.
        found = {key: known[key] for key in filter(known.__contains__, keys)}
        deque(map(known.move_to_end, found), 0)
        return found

    def put(self, key: bytes, value: V, used: float) -> None:
        """In the place of what was there; what was not used for the longest time makes room."""
        if not self._most:
            return
        self.pop(key)
        weight = self._weights[key] = min(self._weigh(value), self._most)
        self._total += weight
        self._entries[key] = Entry(value, used)
        while self._total > self._most:
            self.pop(next(iter(self._entries)))

    def pop(self, key: bytes) -> None:
        """Nothing is there any more."""
        if self._entries.pop(key, None) is not None:
            self._total -= self._weights.pop(key)

    def items(self) -> ItemsView[bytes, Entry[V]]:
        """All, the one that was used last at the end."""
        return self._entries.items()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._entries)

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
