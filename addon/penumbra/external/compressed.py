"""Answers of strategies, kept for a long time: the same text for the same question is asked once.

The key holds all that an answer depends on, so a changed model or ratio, or another question, never
gets what was made for a different one.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Sequence

import zstandard

from penumbra.external.strategy import Strategy, Task
from penumbra.store.database import Database

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS compressed
    (key BLOB PRIMARY KEY, used INTEGER NOT NULL, text BLOB NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS compressed_used ON compressed (used)",
)
TTL = 24 * 3_600.0
"""Seconds since the last use."""
MAX_BYTES = 64 * 1024 * 1024
"""Of all texts, compressed."""
_BATCH = 400
_PRUNE_EVERY = 50


def key(secret: bytes, strategy: Strategy, task: Task) -> bytes:
    """What the answer to a task is found by; 20 bytes. `secret` is the installation's key."""
    digest = hashlib.blake2b(key=secret[:64], digest_size=20, person=b"penumbra short")
    owner = task.credential.owner.hex() if task.credential else ""
    owner += task.scope.hex()
    parts = (
        strategy.name,
        strategy.identity,
        repr(task.ratio),
        owner,
        task.tool,
        task.intent,
        task.question,
        task.text,
    )
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


class Compressed:
    """Answers by key, in the database."""

    def __init__(
        self,
        database: Database,
        ttl: float = TTL,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._seal = database.seal("compressed")
        self._ttl = ttl
        self._max_bytes = max_bytes
        self._clock = clock
        self._writes = 0

    async def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """The texts there are; being read counts as a use."""
        return await self._database.run(lambda connection: self._get(connection, keys)) if keys else {}

    async def put(self, key: bytes, text: str) -> None:
        """Keep an answer; the first one stays, so that all who ask get the same."""
        prune = self._writes % _PRUNE_EVERY == 0
        self._writes += 1
        await self._database.run(lambda connection: self._put(connection, key, text, prune))

    def _get(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, str]:
        now = int(self._clock())
        found: dict[bytes, str] = {}
        for start in range(0, len(keys), _BATCH):
            batch = list(keys[start : start + _BATCH])
            marks = ",".join("?" * len(batch))
            rows = connection.execute(
                f"SELECT key, text FROM compressed WHERE used >= ? AND key IN ({marks})",
                [now - self._ttl, *batch],
            )
            opened = ((key, self._seal.open(key, text)) for key, text in rows)
            found.update((key, _unpack(text)) for key, text in opened if text is not None)
        used = [(now, key) for key in found]
        connection.executemany("UPDATE compressed SET used = ? WHERE key = ?", used)
        return found

    def _put(self, connection: sqlite3.Connection, key: bytes, text: str, prune: bool) -> None:
        now = int(self._clock())
        connection.execute("DELETE FROM compressed WHERE key = ? AND used < ?", (key, now - self._ttl))
        data = zstandard.ZstdCompressor(level=3).compress(text.encode("utf-8", "surrogatepass"))
        data = self._seal.close(key, data)
        connection.execute("INSERT OR IGNORE INTO compressed VALUES (?, ?, ?)", (key, now, data))
        if prune:
            self._prune(connection, now)

    def _prune(self, connection: sqlite3.Connection, now: int) -> None:
        connection.execute("DELETE FROM compressed WHERE used < ?", (now - self._ttl,))
        total = connection.execute("SELECT coalesce(sum(length(text)), 0) FROM compressed").fetchone()[0]
        while total > self._max_bytes:
            oldest = connection.execute(
                "SELECT key, length(text) FROM compressed ORDER BY used LIMIT 100"
            ).fetchall()
            for key, size in oldest:
                if total > self._max_bytes:
                    connection.execute("DELETE FROM compressed WHERE key = ?", (key,))
                    total -= size


def _unpack(data: bytes) -> str:
    return zstandard.ZstdDecompressor().decompress(data).decode("utf-8", "surrogatepass")
