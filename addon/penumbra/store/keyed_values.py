"""This module defines tables that map keys to typed values, and the cache of their recently used values."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Coroutine, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import zstandard

from penumbra.store.key_file import Seal

V = TypeVar("V")


class Entry(NamedTuple, Generic[V]):
    value: V
    used: float
    """Time in seconds at which the value was put, or a use of the value was last written to the store."""
    weight: int


class RecentValues(Generic[V]):
    """A `RecentValues` keeps values by key, in the order of their last use."""

    def __init__(self, most: int, weigh: Callable[[V], int]) -> None:
        """`most` limits the weight of all values together; if it is 0, no value is kept. A value that is
        heavier than `most` is kept alone."""
        self._most = most
        self._weigh = weigh
        self._entries: OrderedDict[bytes, Entry[V]] = OrderedDict()
        self._total = 0

    def get(self, key: bytes) -> Entry[V] | None:
        if (entry := self._entries.get(key)) is not None:
            self._entries.move_to_end(key)
        return entry

    def find(self, keys: Iterable[bytes]) -> dict[bytes, Entry[V]]:
        """Return the values found under keys, in the order of the keys."""
        known = self._entries
        # `filter` tests all keys in C, since a long conversation has thousands of keys.
        found = {key: known[key] for key in filter(known.__contains__, keys)}
        deque(map(known.move_to_end, found), 0)
        return found

    def put(self, key: bytes, value: V, used: float) -> None:
        """Set a value, and drop the least recently used values beyond the limit."""
        if not self._most:
            return
        self.pop(key)
        entry = self._entries[key] = Entry(value, used, min(self._weigh(value), self._most))
        self._total += entry.weight
        while self._total > self._most:
            self.pop(next(iter(self._entries)))

    def pop(self, key: bytes) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._total -= entry.weight

    def items(self) -> ItemsView[bytes, Entry[V]]:
        """Return all pairs of key and entry; the most recently used pair is the last."""
        return self._entries.items()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._entries)

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)


def begun(work: Coroutine[Any, Any, V]) -> asyncio.Task[V]:
    """Return a task that has run up to its first wait, so that several look-ups share a round trip. Before
    Python 3.12, the task begins when the caller waits."""
    loop = asyncio.get_running_loop()
    if sys.version_info < (3, 12):
        return loop.create_task(work)
    return asyncio.Task(work, loop=loop, eager_start=True)


UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, zstandard.ZstdError, msgspec.MsgspecError)
"""Errors of `Schema.unpack` on broken data."""
SOON = 0.005
"""Seconds by which writes are delayed. A request can then be sent before its decisions are packed, since both
tasks need Python's interpreter lock."""
LATE = 1.0
"""Seconds by which writes are delayed that can wait for the transaction of other writes."""
_REFRESH_SECONDS = 3_600.0
_REFRESHES_PER_TTL = 4


class News(Enum):
    """A `News` is the kind of announcement that a proxy makes to the other proxies when it sets a value. The
    others use announcements while the store can't be reached."""

    NOTHING = "nothing"
    KEY = "key"
    """Only the key is announced, since each proxy makes the same value from the same request."""
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Schema(Generic[V]):
    """A `Schema` describes the contents of a table."""

    name: str
    """The name of the table. The key that seals the table's records is derived from this name."""
    pack: Callable[[V], bytes]
    unpack: Callable[[bytes], V]
    """A function that may raise any error in `UNREADABLE`, since another release may have written the
    record."""
    memory: int = 0
    """Greatest weight of the values in memory, in the unit of `weigh`."""
    weigh: Callable[[V], int] = lambda value: 1
    leaves_last: bool = False
    """True if rows of tables without this flag are deleted first when the database is too large."""
    news: Callable[[V], News] = lambda value: News.NOTHING
    passes: Callable[[V], bool] = lambda value: False
    """A function that returns whether other proxies may replace a value. `get(latest=True)` then reads the
    value again, even if it is in memory."""


class KeyedValues(ABC, Generic[V]):
    """A `KeyedValues` is a table for one event loop. All values have the same type. The latest values are
    also in memory, up to `Schema.memory`."""

    def __init__(self, schema: Schema[V], seal: Seal, ttl: float, clock: Callable[[], float]) -> None:
        """`seal` encrypts the records. `ttl` is the time in seconds from the last use of a value to its
        expiry."""
        self._schema = schema
        self._seal = seal
        self._name = schema.name
        self._ttl = ttl
        self._clock = clock
        self.refresh = min(_REFRESH_SECONDS, ttl / _REFRESHES_PER_TTL)
        """The seconds after which a use is written to the store again."""
        self._memory: RecentValues[V] = RecentValues(schema.memory, schema.weigh)

    @abstractmethod
    async def get(self, keys: Iterable[bytes], *, latest: bool = False) -> dict[bytes, V]:
        """Return the values of these keys. With `latest`, values that other proxies may have replaced are
        read again."""

    @abstractmethod
    async def put(self, values: Mapping[bytes, V], *, pause: float | None = None) -> None:
        """Set values, and return when they are stored durably or the store has failed. With `pause`, return
        at once, and write the values after at most this number of seconds. `Stores.written` waits for the
        write if `pause` is `SOON`. Until the write, only memory has the values."""

    @abstractmethod
    async def add(self, values: Mapping[bytes, V]) -> None:
        """Set values of keys that have none, and mark present values as used. The keys must not be in memory.
        `Stores.written` waits until the values are stored durably."""

    @abstractmethod
    async def settle(
        self, values: Mapping[bytes, V], over: Collection[bytes] = (), *, unasked: bool = False
    ) -> bool:
        """Set the values of keys that have none, and replace the values of the keys in `over`. Return whether
        all given values are valid now. If not, another proxy was first or nothing can be written, and `get`
        returns the valid values. `Stores.written` waits until the values are stored durably. With `unasked`,
        the values were made during an outage, and are valid even if nothing can be written."""

    @abstractmethod
    async def touch(self, keys: Sequence[bytes]) -> set[bytes]:
        """Mark values as used without reading them, and return the keys found. The values must not be in
        memory."""

    @abstractmethod
    async def is_empty(self) -> bool:
        """Return whether the table has no value; False if unknown."""

    def note(self, values: Mapping[bytes, V]) -> None:
        """Store values in memory only."""
        now = self._clock()
        for key, value in values.items():
            self._memory.put(key, value, now)

    def recent(self, keys: Iterable[bytes]) -> dict[bytes, V]:
        return {key: entry.value for key, entry in self._memory.find(keys).items()}

    def elsewhere(self, keys: Iterable[bytes]) -> frozenset[bytes]:
        """Return the keys with a value that another proxy has announced and this proxy doesn't have."""
        return frozenset()

    def forget(self, keys: Iterable[bytes]) -> None:
        """Drop values from memory because other proxies have replaced them."""
        for key in keys:
            self._memory.pop(key)

    def _packed(self, key: bytes, value: V) -> bytes:
        return self._seal.close(key, self._schema.pack(value))

    def _unpacked(self, records: Iterable[tuple[bytes, bytes]]) -> dict[bytes, V]:
        """Return the values in records. Records with another key or of another release are left out."""
        values: dict[bytes, V] = {}
        for key, record in records:
            try:
                if (data := self._seal.open(key, record)) is not None:
                    values[key] = self._schema.unpack(data)
            except UNREADABLE:
                continue
        return values
