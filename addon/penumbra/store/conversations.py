"""What is remembered of a conversation: when and with what it was last sent, how large it may be.

A limit is learned from a refusal that a smaller request got past, so that later turns need no refusal
to know it. Times only ever decide what is sent; they never stand in it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import orjson

from penumbra.store.keyed_values import KeyedValues, News, Schema
from penumbra.store.table import Clock

_MEMORY = 4_000
"""Conversations."""
_WRITE_SECONDS = 60.0


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
    """Tokens of a request and its response, by the provider's own count."""
    drop: bool = False
    """Reasoning in it is bound to another prefix: the provider has to be asked to drop it."""
    arguments: bool = False
    """Arguments of calls in it may have another form than they came in."""
    tools_first: bool = False
    """The provider has refused a tool that was declared after a message."""

    def learned(self, other: LearnedLimits) -> LearnedLimits:
        """What holds when both were learned: a newer limit takes the place of an older one."""
        if other is NO_LIMITS:
            return self
        return LearnedLimits(
            other.tokens or self.tokens,
            other.bytes or self.bytes,
            other.most or self.most,
            other.window or self.window,
            other.drop or self.drop,
            other.arguments or self.arguments,
            other.tools_first or self.tools_first,
        )


NO_LIMITS = LearnedLimits()


@dataclass(frozen=True, slots=True)
class ConversationState:
    """What is known of a conversation when its next request comes."""

    idle: float | None = None
    """Seconds since its last request or response, 0 while the provider was asked to keep what it has cached;
    None: there was none."""
    limits: LearnedLimits = NO_LIMITS
    tool: str = ""
    """Name of the injected tool that its last request declared; empty if it declared none."""
    revision: str = ""
    """Another one each time that decisions took the place of earlier ones."""
    waits: bool = False
    """It has no injected tool yet because it began small."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of a conversation."""

    seen: float
    limits: LearnedLimits = NO_LIMITS
    tool: str = ""
    written: float = 0.0
    """When it was written to the database last."""
    revision: str = ""
    """See `ConversationState`."""
    waits: bool = False
    """See there."""
    life: float = 0.0
    """Seconds that the provider may keep what it has cached."""


class Conversations:
    """Lessons and times by conversation."""

    def __init__(
        self, table: KeyedValues[Entry], clock: Clock = time.time, steady: Clock | None = None
    ) -> None:
        """`steady`: what it goes by that a conversation has rested; None: by the same clock."""
        self._table = table
        self._clock = clock
        self._steady = steady or clock

    async def past(self, key: bytes) -> ConversationState:
        """What is known of a conversation."""
        entry = await self._entry(key, latest=True)
        if entry is None:
            return ConversationState()
        idle = max(0.0, self._steady() - entry.seen)
        idle = idle if idle > entry.life else 0.0
        return ConversationState(idle, entry.limits, entry.tool, entry.revision, entry.waits)

    async def sent(
        self, key: bytes, tool: str = "", *, waits: bool = False, revised: bool = False, life: float = 0.0
    ) -> None:
        """A request of this conversation goes out, with this injected tool, or without one for which it
        `waits`; the provider keeps it for `life` seconds at most. Written at most once a minute; each time
        while it waits, when that is another than before, and when it is `revised`: decisions took the place
        of earlier ones. When that is safe from a restart, `Stores.written` tells."""
        now = self._clock()
        entry = await self._entry(key) or Entry(now)
        life = max(life, entry.life if now - entry.seen <= entry.life else 0.0)
        changed = (tool, waits, life) != (entry.tool, entry.waits, entry.life)
        due = revised or waits or changed or now - entry.written > _WRITE_SECONDS
        revision = secrets.token_hex(8) if revised else entry.revision
        entry = Entry(now, entry.limits, tool, now if due else entry.written, revision, waits, life)
        if due:
            await self._table.put({key: entry}, behind=True)
        else:
            self._table.note({key: entry})

    async def answered(self, key: bytes) -> None:
        """The response to a request of this conversation has ended: until then its cache was in use."""
        if (entry := await self._entry(key)) is not None:
            self._table.note({key: replace(entry, seen=self._clock())})

    async def learn(self, key: bytes, limits: LearnedLimits) -> None:
        """A limit was found, by which decisions may have changed; returns when it is safe from a restart."""
        now = self._clock()
        entry = await self._entry(key, latest=True) or Entry(now)
        entry = replace(entry, limits=entry.limits.learned(limits), written=now)
        await self._table.put({key: replace(entry, revision=secrets.token_hex(8))})

    async def inherit(self, earlier: bytes, key: bytes) -> None:
        """A conversation goes on as another one: what was learned of it holds, where nothing newer does."""
        limits = (await self.past(earlier)).limits
        if limits != LearnedLimits():
            await self.learn(key, limits.learned((await self.past(key)).limits))

    async def _entry(self, key: bytes, *, latest: bool = False) -> Entry | None:
        return (await self._table.get([key], latest=latest)).get(key)


def _pack(entry: Entry) -> bytes:
    lesson = asdict(entry.limits)
    record = {"seen": entry.seen, "lesson": lesson, "tool": entry.tool, "revision": entry.revision}
    record["life"] = entry.life
    return orjson.dumps({**record, "waits": True} if entry.waits else record)


def _unpack(record: bytes) -> Entry:
    """As any release wrote it: what is not known is left out, what is missing has its default."""
    written: Mapping[str, Any] = orjson.loads(record)
    names = {field.name for field in fields(LearnedLimits)}
    limits = {name: value for name, value in written["lesson"].items() if name in names}
    seen = float(written["seen"])
    revision = str(written.get("revision", ""))
    waits = bool(written.get("waits"))
    life = float(written.get("life", 0.0))
    return Entry(seen, LearnedLimits(**limits), str(written["tool"]), seen, revision, waits, life)


SCHEMA = Schema(
    "conversations",
    _pack,
    _unpack,
    _MEMORY,
    news=lambda entry: News.VALUE,
    # Another proxy may have declared the tool, which then stays.
    passes=lambda entry: entry.waits,
)
