"""This module stores the state of each conversation: the time and the tool of the last request, and learned
limits. If the provider refuses a request and accepts a smaller request, the limit is stored for later
requests. Times influence the choice of forms, but no form contains a time."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import orjson

from penumbra.store.keyed_values import SOON, KeyedValues, News, Schema
from penumbra.store.table import Clock

_MEMORY = 4_000
_WRITE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LearnedLimits:
    """A `LearnedLimits` has the limits on later requests of a conversation. A size of 0 means that the limit
    is unknown."""

    tokens: int = 0
    """The greatest number of estimated tokens of the whole body."""
    bytes: int = 0
    """The greatest number of bytes of the body."""
    most: int = 0
    """The greatest number of characters of one result."""
    window: int = 0
    """The greatest number of tokens of a request and its response together, by the provider's count."""
    drop: bool = False
    """True if the provider must be asked to drop reasoning, because the reasoning is bound to another
    prefix."""
    arguments: bool = False
    """True if arguments of calls may be shortened."""
    tools_first: bool = False
    """True if the provider refuses the declaration of a tool after a message."""

    def learned(self, other: LearnedLimits) -> LearnedLimits:
        """Return the known limits of `other`, which is newer. A limit that is unknown there is taken from
        this object."""
        if other is NO_LIMITS:
            return self
        return LearnedLimits(*(getattr(other, name) or getattr(self, name) for name in _LIMITS))


NO_LIMITS = LearnedLimits()
_LIMITS = tuple(member.name for member in fields(LearnedLimits))


@dataclass(frozen=True, slots=True)
class ConversationState:
    """A `ConversationState` is the state of a conversation at its next request. All fields but `idle` and
    `written` are stored."""

    idle: float | None = None
    """Seconds since the last request or response; None if there was no request. The value is 0 during the
    cache life that the last request asked for."""
    limits: LearnedLimits = NO_LIMITS
    tool: str = ""
    """The name of the injected tool that the last request declared; empty if it declared none."""
    revision: str = ""
    """A random value that changes whenever decisions replace earlier decisions."""
    waits: bool = False
    """True if the conversation has no injected tool yet because it began small."""
    seen: float = field(default=0.0, compare=False)
    """Time of the last request or response."""
    life: float = field(default=0.0, compare=False)
    """The seconds that the provider may keep its cache."""
    written: float = field(default=0.0, compare=False)
    """Time of the last write to the database."""


class Conversations:
    """A `Conversations` stores the states of all conversations, by key."""

    def __init__(
        self, table: KeyedValues[ConversationState], clock: Clock = time.time, steady: Clock | None = None
    ) -> None:
        """`steady` is the clock for `idle`; None stands for `clock`."""
        self._table = table
        self.clock = clock
        self.steady = steady or clock

    async def past(self, key: bytes, start: bytes = b"") -> ConversationState:
        """Return the state of a conversation. `start` is a key that all conversations with the same beginning
        share, or empty. A request of any of these conversations keeps the beginning in the provider's
        cache."""
        entries = await self._table.get([key, start] if start else [key], latest=True)
        if (entry := entries.get(key)) is None:
            return ConversationState()
        now = self.steady()
        idle = min([now - each.seen if now - each.seen > each.life else 0.0 for each in entries.values()])
        return replace(entry, idle=idle)

    async def sent(
        self,
        key: bytes,
        tool: str = "",
        *,
        start: bytes = b"",
        is_new: bool = False,
        waits: bool = False,
        revised: bool = False,
        life: float = 0.0,
    ) -> None:
        """Store the state after a request of this conversation. The request declares the injected tool
        `tool`, or no such tool while `waits` is true. The provider caches the request for `life` seconds at
        most. `start` is the key that `past` describes. The state under this key has no tool. If `past` has
        just found no state, `is_new` is true, and this call looks only in memory.

        A state is usually written at most once a minute. A state is written at once if `waits` is true, if
        `tool`, `waits` or `life` has changed, or if decisions replaced earlier ones (`revised`).
        `Stores.written` waits until the state is on disk or in the shared store.
        """
        now, keys = self.clock(), [key, start] if start else [key]
        known = self._table.recent(keys)
        if key not in known and not is_new:
            known = await self._table.get(keys)
        blank = ConversationState(seen=now)
        states = {key: _after(known.get(key, blank), now, life, tool, waits=waits, revised=revised)}
        if start:
            states[start] = _after(known.get(start, blank), now, life)
        self._table.note(states)
        due = {each: state for each, state in states.items() if state.written == now}
        await self._table.put(due, pause=SOON)

    async def answered(self, key: bytes) -> None:
        """Store the time at which a response ended. The provider has used its cache until then."""
        if (entry := await self._entry(key)) is not None:
            self._table.note({key: replace(entry, seen=self.clock())})

    async def learn(self, key: bytes, limits: LearnedLimits) -> None:
        """Store limits that may change decisions, and return once a restart can't lose them."""
        now = self.clock()
        entry = await self._entry(key, latest=True) or ConversationState(seen=now)
        entry = replace(entry, limits=entry.limits.learned(limits), written=now)
        await self._table.put({key: replace(entry, revision=secrets.token_hex(8))})

    async def inherit(self, earlier: bytes, key: bytes) -> None:
        """Copy the limits of the conversation `earlier` to its continuation. Limits that the continuation has
        already learned stay."""
        limits = (await self.past(earlier)).limits
        if limits != LearnedLimits():
            await self.learn(key, limits.learned((await self.past(key)).limits))

    async def _entry(self, key: bytes, *, latest: bool = False) -> ConversationState | None:
        return (await self._table.get([key], latest=latest)).get(key)


def _after(
    entry: ConversationState,
    now: float,
    life: float,
    tool: str = "",
    *,
    waits: bool = False,
    revised: bool = False,
) -> ConversationState:
    """Return the state after a request that is sent `now`. If the state must be written, its `written` is
    `now`."""
    life = max(life, entry.life if now - entry.seen <= entry.life else 0.0)
    changed = (tool, waits, life) != (entry.tool, entry.waits, entry.life)
    due = revised or waits or changed or now - entry.written > _WRITE_SECONDS
    revision = secrets.token_hex(8) if revised else entry.revision
    written = now if due else entry.written
    return ConversationState(None, entry.limits, tool, revision, waits, now, life, written)


def _pack(entry: ConversationState) -> bytes:
    record = {"seen": entry.seen, "lesson": entry.limits, "tool": entry.tool, "revision": entry.revision}
    record["life"] = entry.life
    return orjson.dumps({**record, "waits": True} if entry.waits else record)


def _unpack(record: bytes) -> ConversationState:
    """Return the state in a record of any release: unknown members are ignored, missing ones get defaults."""
    written: Mapping[str, Any] = orjson.loads(record)
    limits = {name: value for name, value in written["lesson"].items() if name in _LIMITS}
    return ConversationState(
        None,
        LearnedLimits(**limits),
        str(written["tool"]),
        str(written.get("revision", "")),
        bool(written.get("waits")),
        seen=float(written["seen"]),
        life=float(written.get("life", 0.0)),
        written=float(written["seen"]),
    )


SCHEMA = Schema(
    "conversations",
    _pack,
    _unpack,
    _MEMORY,
    news=lambda entry: News.VALUE,
    # If another proxy has declared the tool meanwhile, the tool must stay declared.
    passes=lambda entry: entry.waits,
)
