"""What was decided for each result, remembered: the first forwarded form is final.

A decision is looked up by a keyed hash of caller, call, text and, where the call's id does not tell, of
what was called before it. Decisions of conversations under
way stay in memory; the database keeps them over restarts. The time of last use is written at most
once an hour, so that a turn's cost does not grow with the length of its history.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import orjson
import zstandard

from penumbra.store.database import Database, size_in_bytes

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS decisions
    (key BLOB PRIMARY KEY, used INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS decisions_used ON decisions (used)",
)
_MEMORY_CHARACTERS = 32_000_000
_TOUCH_SECONDS = 3_600
_PRUNE_EVERY = 500
_BATCH = 400
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is shown of a decision. Sizes are those of the text itself, before and after."""

    how: str = "kept"
    """`kept` (as it came), `shortened`, `duplicate`, `adopted` (already seen raw by the provider),
    `superseded` (made useless by a later result) or `recovered` (shortened so that the request fits)."""
    loss: int = 0
    stages: tuple[str, ...] = ()
    family: str = ""
    referents: tuple[str, ...] = ()
    """Keys (hex) of the earlier texts that this one refers to."""
    ref: str = ""
    """Shadow reference in front of the text; empty if nothing was left out."""
    bytes_before: int = 0
    bytes_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    redactions: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    """Stages that were passed over because the time was over."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The form in which one text is forwarded; None: as it came."""

    text: str | None
    facts: Facts


class Ledger:
    """Decisions by key, in memory and in the database."""

    def __init__(self, database: Database, ttl: float, max_bytes: int) -> None:
        self._database = database
        self._seal = database.seal("decisions")
        self._ttl = ttl
        self._max_bytes = max_bytes
        self._memory: OrderedDict[bytes, tuple[Decision, float]] = OrderedDict()
        self._characters = 0
        self._writes = 0

    async def known(self, keys: Iterable[bytes]) -> dict[bytes, Decision]:
        """The decisions there are for these keys."""
        now = time.time()
        found: dict[bytes, Decision] = {}
        missing: list[bytes] = []
        stale: list[bytes] = []
        for key in keys:
            entry = self._memory.get(key)
            if entry is None:
                missing.append(key)
                continue
            found[key] = entry[0]
            self._memory.move_to_end(key)
            if now - entry[1] > _TOUCH_SECONDS:
                self._memory[key] = (entry[0], now)
                stale.append(key)
        if missing:
            rows = await self._database.run(lambda connection: _select(connection, missing))
            for key, (used, record) in rows.items():
                if (decision := _unpack(self._seal.open(key, record))) is None:
                    continue
                found[key] = decision
                self._remember(key, decision, now)
                if now - used > _TOUCH_SECONDS:
                    stale.append(key)
        if stale:
            await self._database.run(lambda connection: _touch(connection, stale, int(now)))
        return found

    async def record(self, decisions: Mapping[bytes, Decision]) -> None:
        """Keep decisions; returns when they are safe from a restart."""
        if not decisions:
            return
        now = time.time()
        rows = [
            (key, int(now), self._seal.close(key, _pack(decision))) for key, decision in decisions.items()
        ]
        for key, decision in decisions.items():
            self._remember(key, decision, now)
        prune = self._writes % _PRUNE_EVERY == 0
        self._writes += 1
        await self._database.run(lambda connection: self._write(connection, rows, prune))

    def _write(self, connection: sqlite3.Connection, rows: list[tuple[Any, ...]], prune: bool) -> None:
        connection.executemany("INSERT OR REPLACE INTO decisions VALUES (?, ?, ?)", rows)
        if prune:
            self._prune(connection)

    def _prune(self, connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM decisions WHERE used < ?", (int(time.time() - self._ttl),))
        while size_in_bytes(connection) > self._max_bytes:
            removed = connection.execute(
                "DELETE FROM decisions WHERE key IN"
                " (SELECT key FROM decisions ORDER BY used LIMIT (SELECT count(*) / 10 + 1 FROM decisions))"
            ).rowcount
            if removed <= 0:
                break
        connection.execute("PRAGMA incremental_vacuum")

    def _remember(self, key: bytes, decision: Decision, used: float) -> None:
        previous = self._memory.pop(key, None)
        if previous:
            self._characters -= _weight(previous[0])
        self._memory[key] = (decision, used)
        self._characters += _weight(decision)
        while self._characters > _MEMORY_CHARACTERS and len(self._memory) > 1:
            _, (oldest, _) = self._memory.popitem(last=False)
            self._characters -= _weight(oldest)


def _weight(decision: Decision) -> int:
    return 500 + len(decision.text or "")


def _pack(decision: Decision) -> bytes:
    """The size of the facts, the facts, and the form if it has one of its own."""
    facts, form = orjson.dumps(decision.facts), b""
    if decision.text is not None:
        form = zstandard.ZstdCompressor(level=3).compress(decision.text.encode("utf-8", "surrogatepass"))
    return len(facts).to_bytes(4, "big") + facts + form


def _unpack(record: bytes | None) -> Decision | None:
    """None for what can't be read: another release may have written it."""
    if record is None:
        return None
    end = 4 + int.from_bytes(record[:4], "big")
    try:
        facts, form = _read_facts(orjson.loads(record[4:end])), record[end:]
        data = zstandard.ZstdDecompressor().decompress(form) if form else None
    except (ValueError, TypeError, AttributeError, zstandard.ZstdError):
        return None
    return Decision(None if data is None else data.decode("utf-8", "surrogatepass"), facts)


def _select(connection: sqlite3.Connection, keys: list[bytes]) -> dict[bytes, tuple[float, bytes]]:
    found: dict[bytes, tuple[float, bytes]] = {}
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        marks = ",".join("?" * len(batch))
        rows = connection.execute(f"SELECT key, used, record FROM decisions WHERE key IN ({marks})", batch)
        found |= {key: (used, record) for key, used, record in rows}
    return found


def _read_facts(written: Mapping[str, Any]) -> Facts:
    """Facts as any release wrote them: what is not known is left out, what is missing has its default."""
    names = {one.name for one in fields(Facts)}
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in written.items()
        if name in names
    }
    return Facts(**known)


def _touch(connection: sqlite3.Connection, keys: list[bytes], now: int) -> None:
    connection.executemany("UPDATE decisions SET used = ? WHERE key = ?", [(now, key) for key in keys])
