"""This module stores daily sums of sizes and counts, but no content. Several proxies write into one file, so
a row is read and written in one transaction. A record is a tree of sums with arbitrary names, so that a
release can add sums that other releases don't know."""

from __future__ import annotations

import functools
import hashlib
import sqlite3
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import zstandard

from penumbra.store import database_file
from penumbra.store.database import Database
from penumbra.store.database_file import Lifetime
from penumbra.store.key_file import Seal
from penumbra.store.table import Clock, compress, decompress

TABLE = "history"
DAYS = 92
"""The number of days whose sums are stored."""
MOST_CONVERSATIONS = 300
"""The greatest number of conversations that are stored for a day. The sums of all smaller conversations are
added up under `OTHERS`."""
OTHERS = "(others)"
_MOST_NAMES = 500
"""The greatest number of names in one branch of a tree."""
_SECONDS_A_DAY = 86_400.0
Tree = dict[str, Any]
"""A tree maps names to numbers, texts and trees."""


class History:
    """A `History` reads and writes the rows of the history. Rows expire by the clock `steady`, or by `clock`
    if `steady` is None."""

    def __init__(self, database: Database, clock: Clock = time.time, steady: Clock | None = None) -> None:
        self._database = database
        self._seal = database.seal(TABLE)
        self._clock = clock
        now = steady or clock
        database.add(TABLE, Lifetime(lambda: now() - DAYS * _SECONDS_A_DAY, leaves_last=True), self._merged)

    def today(self) -> str:
        """Return the name of today's row, by local time."""
        return time.strftime("%Y-%m-%d", time.localtime(self._clock()))

    def add(
        self, sums: Tree, conversations: Mapping[str, Tree], tools: Mapping[str, Tree] | None = None
    ) -> Future[None]:
        """Add to today's sums. `tools` has sums by project, agent and tool."""
        more = {"all": sums, "conversations": dict(conversations), "tools": dict(tools or {})}
        return self._database.submit(partial(self._add, self.today(), more))

    def last(self, count: int) -> Future[dict[str, Tree]]:
        """Return the records of the last `count` days by day, the latest last. Days without a record are left
        out."""
        names = days(self._clock(), count)
        return self._database.submit(partial(self._last, names))

    def _last(self, names: Sequence[str], connection: sqlite3.Connection) -> dict[str, Tree]:
        older = self._database.file.older
        days = read(connection, self._database.key, names)
        before: dict[str, Tree] = (
            older.read(lambda file: read(file, self._database.key, names), {}) if older is not None else {}
        )
        both = {name: added_up(before.get(name, {}), days.get(name, {})) for name in names}
        return {name: record for name, record in both.items() if record}

    def _merged(self, key: bytes, first: bytes, second: bytes) -> bytes:
        """Return a record with the sums of two records of one day. The second record was written to memory
        while the file failed."""
        trees = [
            orjson.loads(decompress(data))
            for record in (first, second)
            if (data := self._seal.open(key, record)) is not None
        ]
        record = functools.reduce(added_up, trees, Tree())
        _bound(record.setdefault("conversations", {}))
        return self._seal.close(key, compress(orjson.dumps(record)))

    def _add(self, day: str, more: Tree, connection: sqlite3.Connection) -> None:
        # The write lock is taken before the row is read, so that no other process writes in between.
        connection.execute("BEGIN IMMEDIATE")
        key = _key(self._database.key, day)
        there = read(connection, self._database.key, [day]).get(day, {})
        record = added_up(there, more)
        _bound(record["conversations"])
        row = (key, int(self._clock()), self._seal.close(key, compress(orjson.dumps(record))))
        connection.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?)", row)


def days(now: float, count: int) -> list[str]:
    """Return the names of the last days, the latest last."""
    noon = now - now % _SECONDS_A_DAY + _SECONDS_A_DAY / 2
    names = [time.strftime("%Y-%m-%d", time.localtime(noon - n * _SECONDS_A_DAY)) for n in range(count + 1)]
    today = time.strftime("%Y-%m-%d", time.localtime(now))
    return sorted({today, *(name for name in names if name <= today)})[-count:]


def read(connection: sqlite3.Connection, key: bytes, names: Sequence[str]) -> dict[str, Tree]:
    """Return the readable records of these days."""
    seal, records = Seal(key, TABLE), dict[str, Tree]()
    for name in names:
        row_key = _key(key, name)
        row = connection.execute(f"SELECT record FROM {TABLE} WHERE key = ?", (row_key,)).fetchone()
        if row is None or (data := seal.open(row_key, row[0])) is None:
            continue
        with suppress(zstandard.ZstdError, orjson.JSONDecodeError):
            if isinstance(record := orjson.loads(decompress(data)), dict):
                records[name] = record
    return records


def read_file(path: Path, key: bytes, count: int) -> dict[str, Tree]:
    """Return the records of the last days in a database that this process does not have open. Raises
    sqlite3.Error."""
    with closing(database_file.connect(path)) as connection:
        return read(connection, key, days(time.time(), count))


def _key(key: bytes, day: str) -> bytes:
    return hashlib.blake2b(f"day {day}".encode(), key=key[:64], digest_size=16).digest()


def added_up(first: Mapping[str, Any], second: Mapping[str, Any]) -> Tree:
    """Return the sum of two trees. Numbers are added. Of two texts, the second text stays."""
    both: Tree = dict(first)
    for name, value in second.items():
        before = both.get(name)
        if name not in both and len(both) >= _MOST_NAMES:
            continue
        if isinstance(value, Mapping):
            both[name] = added_up(before if isinstance(before, Mapping) else {}, value)
        elif isinstance(value, int | float) and isinstance(before, int | float):
            both[name] = before + value
        else:
            both[name] = value
    return both


def _bound(conversations: Tree) -> None:
    """Reduce the number of conversations to the limit, by adding up the smallest conversations."""
    if len(conversations) <= MOST_CONVERSATIONS:
        return
    others = conversations.pop(OTHERS, {})
    sizes = sorted(conversations, key=lambda name: conversations[name].get("requests", 0))
    for name in sizes[: len(conversations) - MOST_CONVERSATIONS + 1]:
        others = added_up(others, conversations.pop(name))
    for name in ("agent", "project"):
        others.pop(name, None)
    conversations[OTHERS] = others
