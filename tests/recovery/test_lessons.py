"""What is remembered of conversations, and the first events of streams."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from penumbra.recovery.first_events import FirstEvents, Verdict
from penumbra.recovery.lessons import SCHEMA, Conversations, Lesson, Past
from penumbra.shadow.database import Database


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_idle_times_and_lessons_survive_a_restart(tmp_path: Path) -> None:
    clock = Clock()

    async def first() -> None:
        database = Database(tmp_path / "x.sqlite", SCHEMA)
        known = Conversations(database, 86_400, clock)
        assert await known.past(b"a") == Past()
        await known.sent(b"a", "expand_context")
        await known.learn(b"a", Lesson(tokens=9))
        clock.now += 30
        assert await known.past(b"a") == Past(30.0, Lesson(tokens=9), "expand_context")
        await known.learn(b"a", Lesson(most=512))
        database.close()

    async def second() -> None:
        database = Database(tmp_path / "x.sqlite", SCHEMA)
        known = Conversations(database, 86_400, clock)
        past = await known.past(b"a")
        assert (past.lesson, past.tool) == (Lesson(tokens=9, most=512), "expand_context")
        assert past.idle is not None
        assert 600 <= past.idle <= 700
        assert await known.past(b"b") == Past()
        database.close()

    asyncio.run(first())
    clock.now += 600
    asyncio.run(second())


def test_what_was_not_used_for_long_is_forgotten() -> None:
    clock = Clock()

    async def run() -> None:
        database = Database(None, SCHEMA)
        known = Conversations(database, 100, clock)
        await known.sent(b"old")
        clock.now += 1000
        for number in range(250):
            await known.sent(b"new %d" % number)
        assert await Conversations(database, 100, clock).past(b"old") == Past()
        assert (await Conversations(database, 100, clock).past(b"new 0")).idle is not None
        database.close()

    asyncio.run(run())


# First events


def event(value: Any, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


ERROR = event({"type": "error", "error": {"message": "x"}}, "error")
START = event({"type": "message_start", "message": {}}, "message_start")
CREATED = event({"type": "response.created", "response": {"error": None}}, "response.created")
FAILED = event({"type": "response.failed", "response": {"error": {"code": "context_length_exceeded"}}})
ROLE = event({"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
WORDS = event({"choices": [{"delta": {"content": "hi"}}]})
BLOCK = event({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}})

CASES = [
    (False, ERROR, Verdict.ERROR),
    (True, ERROR, Verdict.ERROR),
    (False, START + ERROR, Verdict.GO),
    (True, START + ERROR, Verdict.ERROR),
    (True, CREATED + FAILED, Verdict.ERROR),
    (True, CREATED, Verdict.WAIT),
    (True, START + BLOCK + ERROR, Verdict.GO),
    (True, ROLE, Verdict.WAIT),
    (True, ROLE + WORDS, Verdict.GO),
    (True, ROLE + event({"error": {"message": "x"}}), Verdict.ERROR),
    (True, b": ping\n\n" + ERROR, Verdict.ERROR),
    (False, b": ping\n\n", Verdict.GO),
    (True, event(b"[DONE]"), Verdict.GO),
    (True, event({"choices": [{"delta": {}, "finish_reason": "stop"}]}), Verdict.GO),
    (True, event({"base_resp": {"status_code": 1039, "status_msg": "token limit"}}), Verdict.ERROR),
    (True, event({"base_resp": {"status_code": 0}, "choices": [{"delta": {"content": "x"}}]}), Verdict.GO),
    (True, event([1]), Verdict.GO),
    (True, b"x" * 70_000, Verdict.GO),
]


@pytest.mark.parametrize(("patient", "data", "verdict"), CASES)
def test_the_verdict_is_the_same_however_the_stream_is_cut(
    patient: bool, data: bytes, verdict: Verdict
) -> None:
    for size in (len(data), 7):
        events = FirstEvents(patient, lambda piece: piece)
        found = Verdict.WAIT
        for start in range(0, len(data), size):
            found = events.feed(data[start : start + size])
            if found is not Verdict.WAIT:
                break
        assert found is verdict
        assert bool(events.error) is (verdict is Verdict.ERROR)


def test_what_can_not_be_decoded_goes_on() -> None:
    assert FirstEvents(True, None).feed(ERROR) is Verdict.GO

    def broken(piece: bytes) -> bytes:
        raise ValueError(piece)

    assert FirstEvents(True, broken).feed(ERROR) is Verdict.GO
