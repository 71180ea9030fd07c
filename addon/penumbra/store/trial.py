"""What conversations that are compared have come to, a row each, over restarts. Sizes and counts only.

Several proxies write into one file, as in `history`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from pathlib import Path

import orjson

from penumbra.store import database_file
from penumbra.store.database import Database
from penumbra.store.eviction import Lifetime
from penumbra.store.history import DAYS, Tree, added_up
from penumbra.store.key_file import Seal
from penumbra.store.table import Clock

TABLE = "trial"
MOST = 4_000
"""Conversations; the ones that were heard of longest ago leave."""
_SECONDS_A_DAY = 86_400.0


class Trial:
    """A row for each conversation, by a hash of it. `steady`: by what rows grow old; None: by `clock`."""

    def __init__(self, database: Database, clock: Clock = time.time, steady: Clock | None = None) -> None:
        self._database = database
        self._seal = database.seal(TABLE)
        self._clock = clock
        now = steady or clock
        database.add(TABLE, Lifetime(lambda: now() - DAYS * _SECONDS_A_DAY, leaves_last=True), self._merged)

    def add(self, conversations: Mapping[bytes, Tree]) -> Future[None]:
        """Add to what they have come to: numbers are added, of texts the latest stays."""
        return self._database.submit(partial(self._add, dict(conversations)))

    def all(self) -> Future[dict[bytes, Tree]]:
        """Every row."""
        return self._database.submit(self._all)

    def _all(self, connection: sqlite3.Connection) -> dict[bytes, Tree]:
        older, key, before = self._database.file.older, self._database.key, dict[bytes, Tree]()
        if older is not None:
            before = older.read(lambda file: read(file, key), before)
        now = read(connection, key)
        return {name: added_up(before.get(name, {}), now.get(name, {})) for name in sorted({*before, *now})}

    def _merged(self, key: bytes, first: bytes, second: bytes) -> bytes:
        """The records of a conversation, of which the second was written while the file could not be."""
        trees = dict(_opened([(key, first)], self._seal)).get(key, {})
        return self._seal.close(
            key, orjson.dumps(added_up(trees, dict(_opened([(key, second)], self._seal)).get(key, {})))
        )

    def _add(self, conversations: Mapping[bytes, Tree], connection: sqlite3.Connection) -> None:
        # To wait for another process here, and not to fail where it has written in between.
        connection.execute("BEGIN IMMEDIATE")
        now = int(self._clock())
        for key, more in conversations.items():
            query = f"SELECT key, record FROM {TABLE} WHERE key = ?"
            there = dict(_opened(connection.execute(query, (key,)), self._seal)).get(key, {})
            row = (key, now, self._seal.close(key, orjson.dumps(added_up(there, more))))
            connection.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?)", row)
        (count,) = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
        if count > MOST:
            oldest = f"SELECT key FROM {TABLE} ORDER BY used LIMIT ?"
            connection.execute(f"DELETE FROM {TABLE} WHERE key IN ({oldest})", (count - MOST,))


def read(connection: sqlite3.Connection, key: bytes) -> dict[bytes, Tree]:
    """Every row; of what was written with another key there is nothing."""
    return dict(
        _opened(connection.execute(f"SELECT key, record FROM {TABLE} ORDER BY key"), Seal(key, TABLE))
    )


def read_file(path: Path, key: bytes) -> dict[bytes, Tree]:
    """The same of a database that this process does not have open. Raises sqlite3.Error."""
    with closing(database_file.connect(path)) as connection:
        return read(connection, key)


def _opened(rows: Iterable[tuple[bytes, bytes]], seal: Seal) -> Iterator[tuple[bytes, Tree]]:
    for key, sealed in rows:
        data = seal.open(key, sealed)
        try:
            record = orjson.loads(data) if data is not None else None
        except orjson.JSONDecodeError:
            continue
        if isinstance(record, dict):
            yield key, record
