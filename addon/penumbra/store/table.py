"""This module has the tables in the database of this machine. Most tables also have their most recently used
values in memory.

Putting a value counts as a use, and so does reading. The time of last use is written only now and then, so
that the cost of a turn does not grow with the turn's history. Values are packed, sealed and read in the
database's thread. Expiry uses a clock that measures real time while the process runs, so that values don't
expire when the system's clock is set forward.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import filterfalse
from operator import attrgetter
from sqlite3 import Connection
from typing import TypeVar

import zstandard

from penumbra.store import database_file
from penumbra.store.database import Database, DiskAway, Work
from penumbra.store.database_file import Lifetime, Row
from penumbra.store.keyed_values import SOON, Entry, KeyedValues, Schema

Clock = Callable[[], float]
"""A function that returns a time in seconds."""
_SLEEPS_TOO: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def passed() -> float:
    """Return seconds since a fixed moment, including the time in which the machine slept."""
    return time.monotonic() if _SLEEPS_TOO is None else time.clock_gettime(_SLEEPS_TOO)


class SteadyTime:
    """A `SteadyTime` gives the time of the system's clock, up to a limit: the time at its creation plus the
    seconds that have passed since. Setting the system's clock forward does not raise this limit."""

    def __init__(self, clock: Clock = time.time, passed: Clock = passed) -> None:
        self._clock, self._passed = clock, passed
        self._offset = clock() - passed()

    def __call__(self) -> float:
        return min(self._clock(), self._offset + self._passed())


STEADY = SteadyTime()
"""A steady clock from the start of the process."""
V = TypeVar("V")
T = TypeVar("T")
D = TypeVar("D")
_ROW_BYTES = 500
"""The bytes of a row in memory in addition to its value."""
_VALUE, _USED = map(attrgetter, ("value", "used"))


class Table(KeyedValues[V]):
    def __init__(
        self,
        database: Database,
        schema: Schema[V],
        ttl: float,
        clock: Clock = time.time,
        steady: Clock | None = None,
    ) -> None:
        """`ttl` is the time in seconds from the last use of a value to its expiry. `steady` measures this
        time, or `clock` if `steady` is None. `clock` gives the time of a use."""
        super().__init__(schema, database.seal(schema.name), ttl, clock)
        self._database = database
        self._files = database.file.renewals
        self._was_empty: bool | None = None
        """True if a look-up found the table empty; None before the look-up."""
        self._steady = steady or clock
        database.add(schema.name, Lifetime(self._begin, schema.leaves_last))

    async def get(self, keys: Iterable[bytes], *, latest: bool = False) -> dict[bytes, V]:
        """See `KeyedValues.get`. A value in memory hides newer values in the file, unless `latest` is true
        and `Schema.passes` returns True for the value."""
        now = self._clock()
        if self._files != self._database.file.renewals:
            # A new file has replaced the file that had the rows of the values in memory.
            self._files = self._database.file.renewals
            known = {key: entry.value for key, entry in self._memory.items()}
            self._database.submit(partial(self._write, known, now))
        keys = list(dict.fromkeys(keys))
        entries = self._memory.find(keys)
        passing: dict[bytes, Entry[V]] = {}
        if latest:
            passing = {key: entry for key, entry in entries.items() if self._schema.passes(entry.value)}
            entries = {key: entry for key, entry in entries.items() if key not in passing}
        found: dict[bytes, V] = dict(zip(entries, map(_VALUE, entries.values()), strict=True))
        missing = list(filterfalse(entries.__contains__, keys)) if len(entries) < len(keys) else []
        stale: list[bytes] = []
        if now - min(map(_USED, entries.values()), default=now) > self.refresh:
            stale = [key for key, entry in entries.items() if now - entry.used > self.refresh]
            for key in stale:
                self._memory.put(key, found[key], now)
        if missing or stale:
            read: dict[bytes, V] = await self._asked(partial(self._read, missing, stale, now), {})
            # A newer value may have been set meanwhile.
            meanwhile = self._memory.find(missing)
            for key in filter((read.keys() | meanwhile).__contains__, missing):
                newer = meanwhile.get(key)
                if key in read and newer is passing.get(key):
                    found[key] = read[key]
                    self._memory.put(key, read[key], now)
                elif newer is not None:
                    found[key] = newer.value
        return found

    async def put(self, values: Mapping[bytes, V], *, pause: float | None = None) -> None:
        if not values:
            return
        self.note(values)
        self._later(self._write, values, SOON if pause is None else pause)
        if pause is None:
            await self._database.written()

    async def add(self, values: Mapping[bytes, V]) -> None:
        if values:
            self._database.filled.add(self._name)
            self._later(self._write_new, values)

    async def settle(
        self, values: Mapping[bytes, V], over: Collection[bytes] = (), *, unasked: bool = False
    ) -> bool:
        """See `KeyedValues.settle`. Without `unasked`, nothing is set while the disk does not answer in
        time."""
        if values and not (unasked or self._database.is_whole):
            return False
        await self.put(values, pause=SOON)
        return True

    async def touch(self, keys: Sequence[bytes]) -> set[bytes]:
        """See `KeyedValues.touch`. While the disk hangs, all keys count as present."""
        if not keys:
            return set()
        return await self._asked(partial(self._touch, keys, self._clock()), set(keys))

    def note(self, values: Mapping[bytes, V]) -> None:
        super().note(values)
        if values:
            self._database.filled.add(self._name)

    async def is_empty(self) -> bool:
        if self._was_empty is None:
            if (has_rows := await self._asked(self._has_rows, None)) is None:
                return False
            self._was_empty = not has_rows
        # Another `Table` may have filled the table of this name in the database meanwhile.
        return self._was_empty and self._name not in self._database.filled

    async def _asked(self, work: Work[T], otherwise: D) -> T | D:
        """Return the result of `work`, or `otherwise` if the disk does not answer."""
        try:
            return await self._database.run(work)
        except DiskAway:
            return otherwise

    def _later(
        self,
        write: Callable[[Mapping[bytes, V], float, Connection], None],
        values: Mapping[bytes, V],
        pause: float = SOON,
    ) -> None:
        size = _ROW_BYTES * len(values) + sum(map(self._schema.weigh, values.values()))
        self._database.later(partial(write, dict(values), self._clock()), size, len(values), pause)

    # Functions that run in the database's thread

    def _begin(self) -> float:
        """Return the time of last use before which values are expired."""
        return self._steady() - self._ttl

    def _has_rows(self, connection: Connection) -> bool:
        def look(connection: Connection) -> bool:
            return connection.execute(f"SELECT 1 FROM {self._name} LIMIT 1").fetchone() is not None

        older = self._database.file.older
        return look(connection) or (older is not None and older.read(look, False))

    def _read(
        self, missing: Sequence[bytes], stale: Sequence[bytes], now: float, connection: Connection
    ) -> dict[bytes, V]:
        there = list(database_file.find(connection, self._name, missing, self._begin()))
        rows = [*there, *self._moved(missing, there, connection)]
        values = self._unpacked((key, record) for key, _, record in rows)
        read_late = (key for key, last, _ in rows if key in values and now - last > self.refresh)
        if used := [(int(now), key) for key in (*stale, *read_late)]:
            connection.executemany(f"UPDATE {self._name} SET used = ? WHERE key = ?", used)
        return values

    def _moved(self, keys: Sequence[bytes], there: Sequence[Row], connection: Connection) -> list[Row]:
        """Copy rows of these keys from an earlier file if this file lacks them, and return the copies."""
        if self._database.file.older is None or len(there) == len(keys):
            return []
        known = {key for key, _, _ in there}
        rest = [key for key in keys if key not in known]
        rows = self._database.file.older.find(self._name, rest, self._begin())
        database_file.write(connection, self._name, rows)
        return rows

    def _touch(self, keys: Sequence[bytes], now: float, connection: Connection) -> set[bytes]:
        rows = list(database_file.find(connection, self._name, keys, self._begin(), "''"))
        rows += self._moved(keys, rows, connection)
        there = {key: used for key, used, _ in rows}
        stale = [(int(now), key) for key, used in there.items() if now - used > self.refresh]
        if stale:
            connection.executemany(f"UPDATE {self._name} SET used = ? WHERE key = ?", stale)
        return set(there)

    def _write(self, values: Mapping[bytes, V], now: float, connection: Connection) -> None:
        rows = [(key, int(now), self._packed(key, value)) for key, value in values.items()]
        database_file.write(connection, self._name, rows)

    def _write_new(self, values: Mapping[bytes, V], now: float, connection: Connection) -> None:
        touch = f"UPDATE {self._name} SET used = ? WHERE key = ? AND used >= ?"
        new = {
            key: value
            for key, value in values.items()
            if not connection.execute(touch, (int(now), key, self._begin())).rowcount
        }
        self._write(new, now, connection)


class _Codecs(threading.local):
    """A `_Codecs` keeps the codecs of one thread, since making one takes longer than most uses."""

    def __init__(self) -> None:
        # Level 1 takes a third of the default level's time, and its output is only 5% larger.
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_codecs = _Codecs()


def compress(data: bytes) -> bytes:
    return _codecs.compressor.compress(data)


def decompress(data: bytes) -> bytes:
    """Return the bytes that `compress` has compressed. Raises zstandard.ZstdError."""
    return _codecs.decompressor.decompress(data)


def pack_text(text: str) -> bytes:
    """Return a compressed text. Unpaired surrogates are preserved."""
    return compress(text.encode("utf-8", "surrogatepass"))


def unpack_text(data: bytes) -> str:
    return decompress(data).decode("utf-8", "surrogatepass")
