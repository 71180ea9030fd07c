"""Originals of shortened results, for requests that no longer carry them.

Clients send originals again on every turn, so this is the second place to look: for histories that a
provider keeps, and for clients that clear old results. Only redacted texts come here. What was not
used for a time, and what is beyond a total size, leaves.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import zstandard

from penumbra.store.database import Database

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS originals
    (scope BLOB NOT NULL, ref TEXT NOT NULL, used INTEGER NOT NULL, size INTEGER NOT NULL, text BLOB NOT NULL,
    PRIMARY KEY (scope, ref)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS originals_used ON originals (used)",
)
_PRUNE_EVERY = 50
_TOUCHES_PER_TTL = 4


class Originals(Protocol):
    """Texts by scope and reference."""

    async def put(self, scope: bytes, texts: Mapping[str, str]) -> None:
        """Keep texts; one that is there already is used again."""
        ...

    async def get(self, scope: bytes, ref: str) -> str | None:
        """The text, which counts as a use; None if it is not there, or not any more."""
        ...


class StoredOriginals:
    """Originals in the database: in its file, or in memory where there is none.

    `ttl`: seconds since the last use; `max_bytes`: of all texts, compressed.
    """

    def __init__(
        self, database: Database, ttl: float, max_bytes: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._seal = database.seal("originals")
        self._ttl = ttl
        self._max_bytes = max_bytes
        self._clock = clock
        self._writes = 0

    async def put(self, scope: bytes, texts: Mapping[str, str]) -> None:
        if not texts:
            return
        prune = self._writes % _PRUNE_EVERY == 0
        self._writes += 1
        await self._database.run(lambda connection: self._put(connection, scope, texts, prune))

    async def get(self, scope: bytes, ref: str) -> str | None:
        return await self._database.run(lambda connection: self._get(connection, scope, ref))

    def _put(
        self, connection: sqlite3.Connection, scope: bytes, texts: Mapping[str, str], prune: bool
    ) -> None:
        now = int(self._clock())
        encoder = zstandard.ZstdCompressor(level=3)
        for ref, text in texts.items():
            row = _row(scope, ref)
            touched = connection.execute(
                "UPDATE originals SET used = ? WHERE scope = ? AND ref = ?", (now, scope, row)
            ).rowcount
            if not touched:
                data = encoder.compress(text.encode("utf-8", "surrogatepass"))
                data = self._seal.close(row.encode(), data)
                connection.execute(
                    "INSERT INTO originals VALUES (?, ?, ?, ?, ?)", (scope, row, now, len(data), data)
                )
        if prune:
            self._prune(connection, now)

    def _get(self, connection: sqlite3.Connection, scope: bytes, ref: str) -> str | None:
        now, name = int(self._clock()), _row(scope, ref)
        row = connection.execute(
            "SELECT text, used FROM originals WHERE scope = ? AND ref = ?", (scope, name)
        ).fetchone()
        if row is None or row[1] < now - self._ttl:
            return None
        if now - row[1] > self._ttl / _TOUCHES_PER_TTL:
            connection.execute(
                "UPDATE originals SET used = ? WHERE scope = ? AND ref = ?", (now, scope, name)
            )
        data = self._seal.open(name.encode(), row[0])
        if data is None:
            return None
        return zstandard.ZstdDecompressor().decompress(data).decode("utf-8", "surrogatepass")

    def _prune(self, connection: sqlite3.Connection, now: int) -> None:
        connection.execute("DELETE FROM originals WHERE used < ?", (int(now - self._ttl),))
        total = connection.execute("SELECT coalesce(sum(size), 0) FROM originals").fetchone()[0]
        while total > self._max_bytes:
            oldest = connection.execute(
                "SELECT scope, ref, size FROM originals ORDER BY used LIMIT 100"
            ).fetchall()
            for scope, ref, size in oldest:
                if total > self._max_bytes:
                    connection.execute("DELETE FROM originals WHERE scope = ? AND ref = ?", (scope, ref))
                    total -= size


def _row(scope: bytes, ref: str) -> str:
    """What a text is found by: references stand in conversations, and those are nobody else's business."""
    return hashlib.blake2b(ref.encode("utf-8", "replace"), key=scope[:64], digest_size=16).hexdigest()
