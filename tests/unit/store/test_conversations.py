"""States of conversations: idle times, limits, and the injected tool."""

import asyncio
from dataclasses import replace
from pathlib import Path

from penumbra.store.conversations import SCHEMA, Conversations, ConversationState, LearnedLimits
from penumbra.store.database import Database
from penumbra.store.table import Table
from support.clock import Clock


def opened(database: Database, ttl: float, clock: Clock) -> Conversations:
    return Conversations(Table(database, SCHEMA, ttl, clock), clock)


def test_idle_times_and_lessons_survive_a_restart(tmp_path: Path) -> None:
    clock = Clock()

    async def first() -> None:
        database = Database(tmp_path / "x.sqlite", 1 << 26)
        known = opened(database, 86_400, clock)
        assert await known.past(b"a") == ConversationState()
        await known.sent(b"a", "expand_context")
        await known.learn(b"a", LearnedLimits(tokens=9))
        clock.now += 30
        state = await known.past(b"a")
        assert replace(state, revision="") == ConversationState(
            30.0, LearnedLimits(tokens=9), "expand_context"
        )
        await known.learn(b"a", LearnedLimits(most=512))
        database.close()

    async def second() -> None:
        database = Database(tmp_path / "x.sqlite", 1 << 26)
        known = opened(database, 86_400, clock)
        past = await known.past(b"a")
        assert (past.limits, past.tool) == (LearnedLimits(tokens=9, most=512), "expand_context")
        assert past.idle is not None
        assert 600 <= past.idle <= 700
        assert await known.past(b"b") == ConversationState()
        database.close()

    asyncio.run(first())
    clock.now += 600
    asyncio.run(second())


async def test_one_of_several_proxies_on_a_file_declares_the_tool_for_all(tmp_path: Path) -> None:
    """A tool that is declared in some turns only costs the provider's cache at each change."""
    clock = Clock()
    ours, theirs = (Database(tmp_path / "x.sqlite", 1 << 26) for _ in range(2))
    here, there = (opened(database, 86_400, clock) for database in (ours, theirs))
    await here.sent(b"a", waits=True)
    await ours.written()
    assert (await there.past(b"a")).waits
    clock.now += 5
    await there.sent(b"a", "expand_context")
    await theirs.written()
    clock.now += 2
    assert await here.past(b"a") == ConversationState(2.0, tool="expand_context")
    # A proxy finds its own values, written or not.
    await here.sent(b"b", waits=True)
    clock.now += 3
    await here.sent(b"b", waits=True)
    assert (await here.past(b"b")).idle == 0.0
    for database in (ours, theirs):
        database.close()
