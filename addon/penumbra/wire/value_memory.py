"""What was read of the items of an array, remembered by whose they are and by their bytes.

Clients send their whole conversation again with every request, so nearly every message was read a turn ago.
What is remembered is a function of the bytes alone: without it all is the same, and slower. No scope meets
what another one has sent, and what was not used for the longest time goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from weakref import ref

from msgspec import Raw

_MOST = 64_000_000
_ENTRY_BYTES = 8_000
"""What an entry takes beside its bytes: its values, opened, and what was made of them."""

Key = tuple[bytes, bytes, int]
"""Scope, bytes, and how many values with these bytes stood in front of it."""


@dataclass(slots=True, eq=False, weakref_slot=True)
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
    next: ref[KnownValue] | None = None
    """What stood behind it the last time."""

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
        self.longest = most // _ENTRY_BYTES
        """More values than these are not remembered."""
        self._known: OrderedDict[Key, KnownValue] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def of(
        self, scope: bytes, sources: Sequence[bytes], make: Callable[[Key], KnownValue]
    ) -> tuple[list[KnownValue], int]:
        """The values with these bytes, which follow each other, and how many of the first were known.

        Each is another one, equal ones too, since each has a place of its own.
        """
        values: list[KnownValue] = []
        used, numbers = set[int](), dict[bytes, int]()
        known_before, previous = len(sources), None
        with self._lock:
            for source in sources:
                value = self._next(previous, source, used)
                while value is None:
                    number = numbers.get(source, 0)
                    numbers[source] = number + 1
                    value = self._known.get((scope, source, number))
                    if value is None:
                        value = self._put(make((scope, source, number)))
                        known_before = min(known_before, len(values))
                    elif id(value) in used:
                        value = None
                self._known.move_to_end(value.key)
                if previous is not None and (previous.next is None or previous.next() is not value):
                    previous.next = ref(value)
                used.add(id(value))
                values.append(value)
                previous = value
            while self._bytes > self._most:
                self._forget()
        return values, known_before

    def _put(self, value: KnownValue) -> KnownValue:
        self._known[value.key] = value
        self._bytes += _weight(value)
        return value

    def _next(self, previous: KnownValue | None, source: bytes, used: set[int]) -> KnownValue | None:
        """What followed a value the last time, if it does so again: comparing is cheaper than hashing."""
        known = previous.next() if previous is not None and previous.next is not None else None
        if known is None or known.data != source or id(known) in used:
            return None
        return known if self._known.get(known.key) is known else None

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
