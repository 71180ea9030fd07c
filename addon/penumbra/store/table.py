"""Values of one kind under keys: in memory those that were used last, in the database all.

A value is used when it is put and when it is asked for. The time of last use is written at most once an
hour, so that a turn's cost does not grow with the length of its history. Packing, sealing and their
reverse are done in the database's thread.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import zstandard

from penumbra.store.database import Database
from penumbra.store.eviction import Lifetime
from penumbra.store.keyed_values import Entry, KeyedValues, Schema

V = TypeVar("V")
_BATCH = 400
"""Keys of one look-up."""
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, zstandard.ZstdError, msgspec.MsgspecError)
"""What `Schema.unpack` raises of broken data."""


class Table(KeyedValues[V]):
    """On the database of this machine."""

    def __init__(
        self, database: Database, schema: Schema[V], ttl: float, clock: Callable[[], float] = time.time
    ) -> None:
        """`ttl`: seconds since the last use after which a value is gone."""
        super().__init__(schema, ttl, clock)
        self._database = database
        self._seal = database.seal(schema.name)
        self._was_empty: bool | None = None
        """When the database was asked; None: it was not."""
        database.add(schema.name, Lifetime(lambda: clock() - ttl, schema.leaves_last))

    async def get(self, keys: Iterable[bytes], *, latest: bool = False) -> dict[bytes, V]:
        """See `KeyedValues.get`: of proxies on one file, each goes by what it has in memory."""
        now = self._clock()
        found: dict[bytes, V] = {}
        missing: list[bytes] = []
        stale: list[bytes] = []
        for key in dict.fromkeys(keys):
            if (entry := self._memory.get(key)) is None:
                missing.append(key)
                continue
            found[key] = entry.value
            if now - entry.used > self.refresh:
                self._memory[key] = Entry(entry.value, now)
                stale.append(key)
        if missing or stale:
            read = await self._database.run(partial(self._read, missing, stale, now))
            for key, value in read.items():
                # Somebody may have put another one meanwhile.
                newer = self._memory.get(key)
                found[key] = value if newer is None else newer.value
                if newer is None:
                    self._remember(key, value, now)
        return found

    async def put(self, values: Mapping[bytes, V]) -> None:
        """See `KeyedValues.put`."""
        if values:
            self.note(values)
            await self._database.run(partial(self._write, dict(values), self._clock()))

    async def add(self, values: Mapping[bytes, V]) -> None:
        """See `KeyedValues.add`."""
        if values:
            self._database.filled.add(self._name)
            await self._database.run(partial(self._write_new, dict(values), self._clock()))

    async def settle(
        self, values: Mapping[bytes, V], over: Collection[bytes] = (), *, unasked: bool = False
    ) -> bool:
        """See `KeyedValues.settle`."""
        await self.put(values)
        return True

    async def touch(self, keys: Sequence[bytes]) -> set[bytes]:
        """See `KeyedValues.touch`."""
        if not keys:
            return set()
        return await self._database.run(partial(self._touch, keys, self._clock()))

    def note(self, values: Mapping[bytes, V]) -> None:
        """See `KeyedValues.note`."""
        now = self._clock()
        for key, value in values.items():
            self._remember(key, value, now)
        if values:
            self._database.filled.add(self._name)

    async def is_empty(self) -> bool:
        """See `KeyedValues.is_empty`."""
        if self._was_empty is None:
            query = f"SELECT 1 FROM {self._name} LIMIT 1"
            row = await self._database.run(lambda connection: connection.execute(query).fetchone())
            self._was_empty = row is None
        # Another table of the name on the same database may have been filled since.
        return self._was_empty and self._name not in self._database.filled

    # In the database's thread

    def _read(
        self, missing: Sequence[bytes], stale: Sequence[bytes], now: float, connection: sqlite3.Connection
    ) -> dict[bytes, V]:
        values: dict[bytes, V] = {}
        used = [(int(now), key) for key in stale]
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, used, record FROM {self._name} WHERE used >= ? AND key IN ({marks})"
            for key, last, record in connection.execute(query, (now - self._ttl, *batch)).fetchall():
                try:
                    if (data := self._seal.open(key, record)) is None:
                        continue
                    values[key] = self._schema.unpack(data)
                except UNREADABLE:
                    continue
                if now - last > self.refresh:
                    used.append((int(now), key))
        if used:
            connection.executemany(f"UPDATE {self._name} SET used = ? WHERE key = ?", used)
        return values

    def _touch(self, keys: Sequence[bytes], now: float, connection: sqlite3.Connection) -> set[bytes]:
        there: dict[bytes, float] = {}
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, used FROM {self._name} WHERE used >= ? AND key IN ({marks})"
            there.update(connection.execute(query, (now - self._ttl, *batch)).fetchall())
        stale = [(int(now), key) for key, used in there.items() if now - used > self.refresh]
        if stale:
            connection.executemany(f"UPDATE {self._name} SET used = ? WHERE key = ?", stale)
        return set(there)

    def _write(self, values: Mapping[bytes, V], now: float, connection: sqlite3.Connection) -> None:
        rows = [(key, int(now), self._packed(key, value)) for key, value in values.items()]
        connection.executemany(f"INSERT OR REPLACE INTO {self._name} VALUES (?, ?, ?)", rows)

    def _write_new(self, values: Mapping[bytes, V], now: float, connection: sqlite3.Connection) -> None:
        touch = f"UPDATE {self._name} SET used = ? WHERE key = ? AND used >= ?"
        new = {
            key: value
            for key, value in values.items()
            if not connection.execute(touch, (int(now), key, now - self._ttl)).rowcount
        }
        self._write(new, now, connection)

    def _packed(self, key: bytes, value: V) -> bytes:
        return self._seal.close(key, self._schema.pack(value))


def compress(data: bytes) -> bytes:
    """For `pack`: zstd's default level."""
    return zstandard.ZstdCompressor(level=3).compress(data)


def decompress(data: bytes) -> bytes:
    """For `unpack`. Raises zstandard.ZstdError."""
    return zstandard.ZstdDecompressor().decompress(data)


def pack_text(text: str) -> bytes:
    """A text, compressed; lone surrogates stay."""
    return compress(text.encode("utf-8", "surrogatepass"))


def unpack_text(data: bytes) -> str:
    """What `pack_text` was given."""
    return decompress(data).decode("utf-8", "surrogatepass")
