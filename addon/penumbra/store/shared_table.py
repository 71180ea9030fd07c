"""Values of one kind that many proxies have in common: in memory those that were used last here, all in the
shared store.

While the store can't be relied on, memory is all there is, and what is put is owed to the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from cachetools import LRUCache

from penumbra.store.keyed_values import KeyedValues, News, Schema
from penumbra.store.outage import Row
from penumbra.store.shared_store import SharedStore
from penumbra.store.table import UNREADABLE

V = TypeVar("V")
T = TypeVar("T")
_INLINE = 20
"""Values that are packed or unpacked on the event loop at once."""
_MOST_DOUBTFUL = 10_000
_LEAST_PRUNED = 1_000
_EMPTY_SECONDS = 5.0
"""Seconds for which an empty table counts as empty."""


class SharedTable(KeyedValues[V]):
    """See `KeyedValues`."""

    def __init__(
        self, store: SharedStore, schema: Schema[V], ttl: float, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(schema, ttl, clock)
        self._store = store
        self._seal = store.seal(schema.name)
        self._milliseconds = int(ttl * 1000)
        self._marker = store.name("filled", schema.name.encode())
        self._marked = float("-inf")
        """Time of the last such write, in seconds."""
        self._empty_until = 0.0
        self._doubtful: LRUCache[bytes, None] = LRUCache(_MOST_DOUBTFUL)
        """Keys of values that may or may not be written; the valid ones must replace them."""
        self._unwritten: set[bytes] = set()
        """Keys of what is in memory and was not written at once: another proxy may be first. What has left
        memory leaves here too, in time."""
        store.on_return(self._return)

    async def get(self, keys: Iterable[bytes], *, latest: bool = False) -> dict[bytes, V]:
        """See `KeyedValues.get`. While the store can't be reached, what memory has."""
        now = self._clock()
        keys = list(dict.fromkeys(keys))
        memory = self._memory.find(keys)
        found = {key: entry.value for key, entry in memory.items()}
        stale = [key for key, entry in memory.items() if now - entry.used > self.refresh]
        asked = keys if latest else list({*stale, *(key for key in keys if key not in found)})
        records = await self._store.read([self._named(key) for key in asked], self._milliseconds)
        if records is None:
            told = {key: self._told(key) for key in asked if key not in found}
            return found | self._unpacked({key: record for key, record in told.items() if record})
        there = {key: record for key, record in zip(asked, records, strict=True) if record is not None}
        # A full store has not got what other proxies have told.
        for key in asked:
            if key not in there and key not in found and (record := self._told(key)):
                there[key] = record
        for key, value in (await self._worked(len(there), lambda: self._unpacked(there))).items():
            found[key] = value
            self._remember(key, value, now)
        return found

    async def put(self, values: Mapping[bytes, V], *, behind: bool = False) -> None:
        """See `KeyedValues.put`. Never delayed, since others may ask; failed writes are made later."""
        if values:
            self.note(values)
            rows = await self._rows(values)
            put = [*rows, *self._mark()]
            news = self._news(values, rows)
            written = await self._store.write(put=put, news=news)
            if written is not None:
                self._store.filled.add(self._name)
            if written is None:
                self._late(values)
                self._store.owe(put, over=True)
                if news:
                    # Others can't do without it: they find it if the store was late only.
                    await self._store.look_again()

    async def add(self, values: Mapping[bytes, V]) -> None:
        if not values:
            return
        rows = await self._rows(values)
        names = [row.name for row in rows]
        written, _used = await asyncio.gather(
            self._store.write(add=rows), self._store.use(names, self._milliseconds)
        )
        if written is None:
            self._store.owe(rows, over=False)

    async def settle(
        self, values: Mapping[bytes, V], over: Collection[bytes] = (), *, unasked: bool = False
    ) -> bool:
        """See `KeyedValues.settle`. Values that can't be written are not kept."""
        if not values:
            return True
        first = [key for key in values if key not in over]
        rows = dict(zip(values, await self._rows(values), strict=True))
        former = {row.name: row.record for row in await self._held(over)}
        if not self._store.is_whole:
            if not unasked:
                return False
            self.note(values)
            self._late(values)
            doubtful = [key for key in values if key in over or key in self._doubtful]
            self._store.owe([*(rows[key] for key in doubtful), *self._mark()], over=True)
            self._store.owe([rows[key] for key in values if key not in doubtful], over=False)
            return True
        added = await self._store.write(
            add=[rows[key] for key in first],
            put=[*(rows[key] for key in values if key in over), *self._mark()],
            news=self._news(values, rows.values()),
            former=former,
        )
        if added is None:
            # It may have been written, and won't be sent: what memory has under a key is what holds.
            self._doubtful.update(dict.fromkeys(values))
            self._store.owe(await self._held(values), over=True)
            return False
        self._store.filled.add(self._name)
        self.note({key: value for key, value in values.items() if key in over})
        self.note({key: values[key] for key, is_ours in zip(first, added, strict=True) if is_ours})
        others = [key for key, is_ours in zip(first, added, strict=True) if not is_ours]
        return not others or await self._give_way(others, values)

    async def touch(self, keys: Sequence[bytes]) -> set[bytes]:
        """See `KeyedValues.touch`. While the store can't be reached, they count as there."""
        used = await self._store.use([self._named(key) for key in keys], self._milliseconds)
        if used is None:
            return set(keys)
        return {key for key, there in zip(keys, used, strict=True) if there}

    def elsewhere(self, keys: Iterable[bytes]) -> frozenset[bytes]:
        return frozenset(key for key in keys if key not in self._memory and self._told(key) is not None)

    def note(self, values: Mapping[bytes, V]) -> None:
        now = self._clock()
        for key, value in values.items():
            self._remember(key, value, now)

    async def is_empty(self) -> bool:
        """See `KeyedValues.is_empty`; true for some seconds after another proxy has put the first."""
        if self._name in self._store.filled:
            return False
        now = self._clock()
        if now >= self._empty_until:
            marked = await self._store.read([self._marker], self._milliseconds)
            if marked is None or marked[0] is not None:
                return False
            self._empty_until = now + _EMPTY_SECONDS
        return True

    async def _give_way(self, keys: Sequence[bytes], values: Mapping[bytes, V]) -> bool:
        """Take another proxy's value if it was first, and return whether it is the same."""
        self.forget(keys)
        there = await self.get(keys)
        if unreadable := {key: values[key] for key in keys if key not in there}:
            await self.put(unreadable)
        lost = [key for key in there if there[key] != values[key]]
        self._store.figures.conflicts += len(lost)
        return not lost

    async def _held(self, keys: Iterable[bytes]) -> list[Row]:
        return await self._rows({key: entry.value for key, entry in self._memory.find(keys).items()})

    def _late(self, keys: Iterable[bytes]) -> None:
        """Keys in memory that are not written yet."""
        self._unwritten.update(keys)
        if len(self._unwritten) > 2 * len(self._memory) + _LEAST_PRUNED:
            # What is not in memory is read from the store, whoever was first.
            self._unwritten = {key for key in self._unwritten if key in self._memory}

    def _return(self) -> None:
        """After an outage, keep the store's values, whichever proxy was first."""
        self.forget(self._unwritten)
        self._unwritten.clear()
        self._doubtful.clear()

    def _told(self, key: bytes) -> bytes | None:
        """Announcements about a key; our own too, which we took back."""
        return None if key in self._doubtful else self._store.news.record(self._named(key))

    def _news(self, values: Mapping[bytes, V], rows: Iterable[Row]) -> list[tuple[bytes, bytes]]:
        """The announcement for other proxies."""
        return [
            (row.name, row.record if news is News.VALUE else b"")
            for value, row in zip(values.values(), rows, strict=True)
            if (news := self._schema.news(value)) is not News.NOTHING
        ]

    def _mark(self) -> list[Row]:
        """Mark the table as filled for other proxies, where the mark is missing or old."""
        now = self._clock()
        if self._name in self._store.filled and now - self._marked < self.refresh:
            return []
        self._marked = now
        return [Row(self._marker, b"1", self._milliseconds)]

    def _named(self, key: bytes) -> bytes:
        return self._store.name(self._name, key)

    async def _rows(self, values: Mapping[bytes, V]) -> list[Row]:
        return await self._worked(len(values), lambda: self._packed(values))

    async def _worked(self, count: int, work: Callable[[], T]) -> T:
        """Run work on large texts, or on many values, outside of the event loop."""
        if count <= _INLINE and (self._schema.memory or not count):
            return work()
        return await asyncio.to_thread(work)

    def _packed(self, values: Mapping[bytes, V]) -> list[Row]:
        return [
            Row(self._named(key), self._seal.close(key, self._schema.pack(value)), self._milliseconds)
            for key, value in values.items()
        ]

    def _unpacked(self, records: Mapping[bytes, bytes]) -> dict[bytes, V]:
        values: dict[bytes, V] = {}
        for key, record in records.items():
            try:
                if (data := self._seal.open(key, record)) is not None:
                    values[key] = self._schema.unpack(data)
            except UNREADABLE:
                continue
        return values
