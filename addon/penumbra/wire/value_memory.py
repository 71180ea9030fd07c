"""What was read of the items of an array, remembered by whose they are and by their bytes.

Clients send their whole conversation again with every request, so nearly every message was read a turn ago.
What is remembered is a function of the bytes alone: without it all is the same, and slower. No scope meets
what another one has sent, and what was not used for the longest time goes first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from msgspec import Raw

_MOST = 64_000_000
_ENTRY_BYTES = 8_000
"""What an entry takes beside its bytes: its values, opened, and what was made of them."""

Key = tuple[bytes, bytes, int]


@dataclass(slots=True, eq=False)
class KnownValue:
    """One value with bytes of its own, and what was read of it. Shared between requests and threads: what is
    put into its dicts stays there, unchanged."""

    key: Key
    data: bytes
    root: Raw
    address: int
    """Of the bytes that its values are views of."""
    objects: dict[int, tuple[Raw, dict[str, Raw]]] = field(default_factory=dict)
    arrays: dict[int, tuple[Raw, list[Raw]]] = field(default_factory=dict)
    """What was opened, by the identity of its value."""
    opened: int = 0
    """Bytes of all that was opened."""
    made: dict[Hashable, Any] = field(default_factory=dict)
    """What was made of it, by what makes it."""
    beginning: Beginning | None = None
    """Of which it is the last."""

    def holds(self, address: int) -> bool:
        """Whether bytes are its own."""
        return self.address <= address < self.address + len(self.data)


@dataclass(slots=True, eq=False)
class Beginning:
    """The first values of an array, and what was made of them one after the other. Shared, too."""

    values: tuple[KnownValue, ...]
    states: dict[Hashable, Any] = field(default_factory=dict)
    """By what makes them; each is as it was behind the last of the values, and stays so."""


class ValueMemory:
    """Known values of all scopes. Safe between threads."""

    def __init__(self, most: int = _MOST) -> None:
        """`most`: bytes that it may take, roughly."""
        self._most = most
        self._known: OrderedDict[Key, KnownValue] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @staticmethod
    def keys(scope: bytes, values: Sequence[bytes]) -> list[Key]:
        """What the items of an array are known by. The second of two equal ones is another value, for its
        place is another."""
        if len(set(values)) == len(values):
            return [(scope, value, 0) for value in values]
        seen: Counter[bytes] = Counter()
        keys: list[Key] = []
        for value in values:
            keys.append((scope, value, seen[value]))
            seen[value] += 1
        return keys

    def get(self, keys: Sequence[Key]) -> list[KnownValue | None]:
        """What is known of each of these values."""
        with self._lock:
            found = [self._known.get(key) for key in keys]
            for known in found:
                if known is not None:
                    self._known.move_to_end(known.key)
        return found

    def put(self, values: Sequence[KnownValue]) -> None:
        """Remember values."""
        with self._lock:
            for value in values:
                if self._known.setdefault(value.key, value) is value:
                    self._bytes += _weight(value)
            while self._bytes > self._most:
                self._forget()

    def forget(self, count: int) -> None:
        """Let so many go."""
        with self._lock:
            for _ in range(min(count, len(self._known))):
                self._forget()

    def _forget(self) -> None:
        _, oldest = self._known.popitem(last=False)
        self._bytes -= _weight(oldest)
        oldest.beginning = None

    def __len__(self) -> int:
        return len(self._known)


def _weight(value: KnownValue) -> int:
    return _ENTRY_BYTES + 2 * len(value.data)
