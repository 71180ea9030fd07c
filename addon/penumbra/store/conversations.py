"""What is remembered of a conversation: when and with what it was last sent, how large it may be.

A limit is learned from a refusal that a smaller request got past, so that later turns need no refusal
to know it. Times only ever decide what is sent; they never stand in it.
"""

from __future__ import annotations

import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import orjson

from penumbra.retry.refusals import Kind, Refusal
from penumbra.store.database import Database

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS conversations
    (key BLOB PRIMARY KEY, seen INTEGER NOT NULL, lesson TEXT NOT NULL, tool TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS conversations_seen ON conversations (seen)",
)
_MEMORY = 4_000
"""Conversations."""
_WRITE_SECONDS = 60.0
_PRUNE_EVERY = 200


@dataclass(frozen=True, slots=True)
class LearnedLimits:
    """How a request of this conversation has to be; sizes of 0: not known."""

    tokens: int = 0
    """Estimated tokens of the whole body."""
    bytes: int = 0
    """Bytes of the body."""
    most: int = 0
    """Characters of one result."""
    window: int = 0
    """Tokens of a request and its answer, by the provider's own count."""
    drop: bool = False
    """Reasoning in it is bound to another prefix: the provider has to be asked to drop it."""
    arguments: bool = False
    """Arguments of calls in it may have another form than they came in."""

    def learned(self, other: LearnedLimits) -> LearnedLimits:
        """What holds when both were learned: a newer limit takes the place of an older one."""
        return LearnedLimits(
            other.tokens or self.tokens,
            other.bytes or self.bytes,
            other.most or self.most,
            other.window or self.window,
            other.drop or self.drop,
            other.arguments or self.arguments,
        )


def learned_from(refusal: Refusal, estimated: int) -> LearnedLimits:
    """What a conversation's later requests have to keep to.

    `estimated`: tokens of the refused body, 0 where that is not all of what counts.
    """
    if refusal.kind is Kind.FIELD:
        return LearnedLimits(most=refusal.limit or 0)
    if refusal.kind is Kind.BYTES:
        return LearnedLimits(bytes=refusal.limit or 0)
    if refusal.limit is None or (refusal.have is not None and refusal.have <= refusal.limit):
        # Without numbers, or with some that can't be what the request was refused for.
        return LearnedLimits()
    if refusal.kind is Kind.RESERVE:
        return LearnedLimits(window=refusal.limit)
    window = 0 if refusal.kind is Kind.WINDOW else refusal.limit
    if not estimated:
        return LearnedLimits(window=window)
    if refusal.have:
        return LearnedLimits(tokens=estimated * refusal.limit // refusal.have, window=window)
    return LearnedLimits(tokens=min(refusal.limit, estimated), window=window)


@dataclass(frozen=True, slots=True)
class ConversationState:
    """What is known of a conversation when its next request comes."""

    idle: float | None = None
    """Seconds since its last request; None: there was none."""
    lesson: LearnedLimits = LearnedLimits()
    tool: str = ""
    """Name of the injected tool that its last request declared; empty if it declared none."""


@dataclass(frozen=True, slots=True)
class _Entry:
    seen: float
    lesson: LearnedLimits
    tool: str
    written: float


class Conversations:
    """Lessons and times by conversation, in memory and in the database. `ttl`: seconds."""

    def __init__(self, database: Database, ttl: float, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._ttl = ttl
        self._clock = clock
        self._memory: OrderedDict[bytes, _Entry] = OrderedDict()
        self._writes = 0

    async def past(self, key: bytes) -> ConversationState:
        """What is known of a conversation."""
        entry = self._memory.get(key)
        if entry is None:
            row = await self._database.run(lambda connection: _select(connection, key))
            if row is None:
                return ConversationState()
            entry = _Entry(row[0], LearnedLimits(**orjson.loads(row[1])), row[2], row[0])
            self._remember(key, entry)
        return ConversationState(max(0.0, self._clock() - entry.seen), entry.lesson, entry.tool)

    async def sent(self, key: bytes, tool: str = "") -> None:
        """A request of this conversation goes out, with this injected tool. Written at most once a minute."""
        now = self._clock()
        entry = self._memory.get(key) or _Entry(now, LearnedLimits(), tool, 0.0)
        due = now - entry.written > _WRITE_SECONDS or tool != entry.tool
        entry = _Entry(now, entry.lesson, tool, now if due else entry.written)
        self._remember(key, entry)
        if due:
            await self._write(key, entry)

    async def learn(self, key: bytes, lesson: LearnedLimits) -> None:
        """A limit was found; returns when it is safe from a restart."""
        now = self._clock()
        entry = self._memory.get(key) or _Entry(now, LearnedLimits(), "", 0.0)
        entry = replace(entry, lesson=entry.lesson.learned(lesson), written=now)
        self._remember(key, entry)
        await self._write(key, entry)

    async def inherit(self, earlier: bytes, key: bytes) -> None:
        """A conversation goes on as another one: what was learned of it holds, where nothing newer does."""
        lesson = (await self.past(earlier)).lesson
        if lesson != LearnedLimits():
            await self.learn(key, lesson.learned((await self.past(key)).lesson))

    async def _write(self, key: bytes, entry: _Entry) -> None:
        row = (key, int(entry.seen), orjson.dumps(asdict(entry.lesson)).decode(), entry.tool)
        prune = self._writes % _PRUNE_EVERY == 0
        self._writes += 1
        oldest = int(self._clock() - self._ttl)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO conversations VALUES (?, ?, ?, ?)", row)
            if prune:
                connection.execute("DELETE FROM conversations WHERE seen < ?", (oldest,))

        await self._database.run(work)

    def _remember(self, key: bytes, entry: _Entry) -> None:
        self._memory.pop(key, None)
        self._memory[key] = entry
        while len(self._memory) > _MEMORY:
            self._memory.popitem(last=False)


def _select(connection: sqlite3.Connection, key: bytes) -> tuple[int, str, str] | None:
    row: tuple[int, str, str] | None = connection.execute(
        "SELECT seen, lesson, tool FROM conversations WHERE key = ?", (key,)
    ).fetchone()
    return row
