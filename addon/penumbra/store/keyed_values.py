"""Tables of typed values under keys, and the values used last, which stay in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")


class Entry(NamedTuple, Generic[V]):
    """A value in memory."""

    value: V
    used: float
    """Time at which the last use was written."""


class RecentValues(Generic[V]):
    """Values by key, in the order of their last use."""

    def __init__(self, most: int, weigh: Callable[[V], int]) -> None:
        """`most`: weight of all values together; 0: none is kept. A value heavier than that is kept alone."""
        self._most = most
        self._weigh = weigh
        self._entries: OrderedDict[bytes, Entry[V]] = OrderedDict()
        self._weights: dict[bytes, int] = {}
        self._total = 0

    def get(self, key: bytes) -> Entry[V] | None:
        if (entry := self._entries.get(key)) is not None:
            self._entries.move_to_end(key)
        return entry

    def find(self, keys: Iterable[bytes]) -> dict[bytes, Entry[V]]:
        """Values found under keys, in the order of the keys."""
        known = self._entries
        # Nothing is done for each of them by itself: a long conversation has thousands.
        found = {key: known[key] for key in filter(known.__contains__, keys)}
        deque(map(known.move_to_end, found), 0)
        return found

    def put(self, key: bytes, value: V, used: float) -> None:
        """Replace a value; values that were not used for the longest time are dropped."""
        if not self._most:
            return
        self.pop(key)
        weight = self._weights[key] = min(self._weigh(value), self._most)
        self._total += weight
        self._entries[key] = Entry(value, used)
        while self._total > self._most:
            self.pop(next(iter(self._entries)))

    def pop(self, key: bytes) -> None:
        if self._entries.pop(key, None) is not None:
            self._total -= self._weights.pop(key)

    def items(self) -> ItemsView[bytes, Entry[V]]:
        """All pairs, the one used last at the end."""
        return self._entries.items()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._entries)

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)


_REFRESH_SECONDS = 3_600.0
_REFRESHES_PER_TTL = 4


class News(Enum):
    """What proxies with a shared store tell each other of a value, for times in which they can't ask it."""

    NOTHING = "nothing"
    KEY = "key"
    """A value exists; a proxy with the same request makes the same one."""
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Schema(Generic[V]):
    """The contents of a table."""

    name: str
    """Name of the table, for which its records are sealed."""
    pack: Callable[[V], bytes]
    unpack: Callable[[bytes], V]
    """May raise what broken data raises: another release may have written it."""
    memory: int = 0
    """Weight of the values kept in memory, in the unit of `weigh`."""
    weigh: Callable[[V], int] = lambda value: 1
    leaves_last: bool = False
    """Beyond the size of the database, rows of all other tables go first."""
    news: Callable[[V], News] = lambda value: News.NOTHING
    passes: Callable[[V], bool] = lambda value: False
    """Of a value in memory: whether another proxy on the same file may well have put another one since. It is
    read again where the latest is asked for."""


class KeyedValues(ABC, Generic[V]):
    """Values of one type under keys. State: values in memory. Belongs to one event loop."""

    def __init__(self, schema: Schema[V], ttl: float, clock: Callable[[], float]) -> None:
        """`ttl`: seconds from the last use to expiry."""
        self._schema = schema
        self._name = schema.name
        self._ttl = ttl
        self._clock = clock
        self.refresh = min(_REFRESH_SECONDS, ttl / _REFRESHES_PER_TTL)
        """Seconds after which a use is written again."""
        self._memory: RecentValues[V] = RecentValues(schema.memory, schema.weigh)

    @abstractmethod
    async def get(self, keys: Iterable[bytes], *, latest: bool = False) -> dict[bytes, V]:
        """The values there are under these keys. `latest`: not what memory has, where others may have put
        another one since."""

    @abstractmethod
    async def put(self, values: Mapping[bytes, V], *, behind: bool = False) -> None:
        """Keep values in the place of those that were there; returns when they are safe from a restart.
        `behind`: whoever asks for them finds them at once, and when they are safe, `Stores.written` tells."""

    @abstractmethod
    async def add(self, values: Mapping[bytes, V]) -> None:
        """Keep values where there is none; what is there stays, and was used. For what is not in memory. When
        they are safe from a restart, `Stores.written` tells."""

    @abstractmethod
    async def settle(
        self, values: Mapping[bytes, V], over: Collection[bytes] = (), *, unasked: bool = False
    ) -> bool:
        """Keep values where nobody else was first; those of `over` take the place of what was there.

        Whether all of them hold. If not, what holds under these keys is found by `get`. When they are safe
        from a restart, `Stores.written` tells. `unasked`: they were made for a time in which nobody can be
        asked: they hold where nothing can be written, too.
        """

    @abstractmethod
    async def touch(self, keys: Sequence[bytes]) -> set[bytes]:
        """Mark values outside of memory as used without reading them, and return the keys found."""

    @abstractmethod
    async def is_empty(self) -> bool:
        """Whether no value was ever put."""

    @abstractmethod
    def note(self, values: Mapping[bytes, V]) -> None:
        """Keep values in memory only."""

    def elsewhere(self, keys: Iterable[bytes]) -> frozenset[bytes]:
        """Keys under which another proxy has put a value that this one lacks."""
        return frozenset()

    def forget(self, keys: Iterable[bytes]) -> None:
        """Drop values from memory, since others have replaced them."""
        for key in keys:
            self._memory.pop(key)

    def _remember(self, key: bytes, value: V, used: float) -> None:
        self._memory.put(key, value, used)
