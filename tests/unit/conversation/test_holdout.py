"""Conversations that go through as they come: which, to their end, and what is counted of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penumbra.config.options import Settings
from penumbra.conversation.holdout import in_its_arm, is_held_out
from penumbra.conversation.incoming import Accepted
from penumbra.conversation.model import Arm
from penumbra.expand.reference import Caller
from penumbra.store import records
from penumbra.store.conversations import SCHEMA as OF
from penumbra.store.conversations import Conversations
from penumbra.store.key_file import SharedPlace
from penumbra.store.records import HELD_OUT, SHORTENED
from support.engines import APIS, Callers, Turn, database

API = APIS[0]
LOG = "\n".join(f"2026-01-01 00:00:{n % 60:02d} INFO worker idle, nothing to do" for n in range(300))
CALL: tuple[Turn, ...] = (("call", "toolu_1", "docker logs worker"), ("result", "toolu_1", LOG))
BEGUN: tuple[Turn, ...] = (("user", "Which job is slow?"),)


@pytest.fixture
def callers(tmp_path: Path) -> Iterator[Callers]:
    made = Callers(database=database(tmp_path), holdout=1.0)
    yield made
    made.close()


def holds(callers: Callers, share: float, **more: Any) -> None:
    callers.settings = Settings(database=callers.settings.database, holdout=share, **more)


def sent(callers: Callers, *turns: Turn, key: str = "k", **headers: str) -> tuple[Accepted, bool]:
    """A request of a conversation, and whether it went as it came."""
    named = {"x-claude-code-session-id": "one", **{name.replace("_", "-"): v for name, v in headers.items()}}
    body = API.body([*BEGUN, *turns])
    accepted = callers.send(API, body, {**API.credential(key), **named})
    return accepted, accepted.rewritten.body == body


def test_part_of_the_conversations_is_drawn_and_always_the_same_ones() -> None:
    names = [bytes([n // 256, n % 256]) * 8 for n in range(2_000)]
    drawn = [is_held_out(name, b"key", 0.1) for name in names]
    assert 150 < sum(drawn) < 250
    assert drawn == [is_held_out(name, b"key", 0.1) for name in names]
    # More of them are those, and others; another installation draws others.
    more = [is_held_out(name, b"key", 0.2) for name in names]
    assert all(wide or not narrow for wide, narrow in zip(more, drawn, strict=True))
    assert drawn != [is_held_out(name, b"other", 0.1) for name in names]
    assert not any(is_held_out(name, b"key", 0.0) for name in names)
    assert all(is_held_out(name, b"key", 1.0) for name in names)


def test_a_conversation_held_out_stays_so_to_its_end(callers: Callers) -> None:
    first, as_it_came = sent(callers)
    assert as_it_came
    assert (first.request.arm.name, first.prepared) == (HELD_OUT, None)
    assert sent(callers, *CALL)[1]
    # Over a restart, with the setting gone, and from a sub-agent of its own.
    callers.restart()
    holds(callers, 0.0)
    accepted, as_it_came = sent(callers, *CALL, ("said", "All."), ("user", "Go on."))
    assert as_it_came
    assert accepted.request.arm == first.request.arm
    helper, as_it_came = sent(callers, *CALL, x_session_id="other", x_parent_session_id="one")
    assert as_it_came
    assert helper.request.arm == first.request.arm
    # What begins now is none of it.
    other, as_it_came = sent(callers, x_claude_code_session_id="two")
    assert not as_it_came
    assert other.request.arm.name == ""


def test_one_that_began_before_stays_as_it_was(callers: Callers) -> None:
    holds(callers, 0.0)
    begun, _ = sent(callers)
    tools = json.loads(begun.rewritten.body)["tools"]
    holds(callers, 1.0)
    again, as_it_came = sent(callers, *CALL)
    assert not as_it_came
    assert again.request.arm.name == ""
    assert json.loads(again.rewritten.body)["tools"] == tools
    # The same of one that came from elsewhere in the middle, also in its next turn.
    for turns in (CALL, (*CALL, ("said", "All."), ("user", "Go on."))):
        assert sent(callers, *turns, key="other")[0].request.arm.name == ""


def test_a_shortened_one_is_counted_but_for_what_a_pause_does(callers: Callers) -> None:
    holds(callers, 1e-9)
    first, as_it_came = sent(callers)
    assert not as_it_came
    assert first.request.arm.name == SHORTENED
    assert first.request.arm.is_counted
    callers.settings = callers.settings.untouched()
    paused, _ = sent(callers, *CALL)
    assert (paused.request.arm.name, paused.request.arm.is_counted) == (SHORTENED, False)


@pytest.mark.parametrize("call_id", ["toolu_018aVbNwTqPzKx3LmRdYfHcE", "1"])
def test_what_became_of_the_same_words_elsewhere_is_not_looked_up(callers: Callers, call_id: str) -> None:
    """An agent that is asked the same twice, once in each arm."""
    call = (("call", call_id, "docker logs worker"), ("result", call_id, LOG))
    later = (*call, ("said", "All."), ("user", "Go on."))
    holds(callers, 1e-9)
    begun, _ = sent(callers)
    callers.answer(begun, API, ("call", call_id, "docker logs worker"), shows=True)
    assert not sent(callers, *call)[1]
    holds(callers, 1.0)
    for turns in ((), call, later):
        assert sent(callers, *turns, x_claude_code_session_id="two")[1]
    # The first one is none the worse for it.
    again, as_it_came = sent(callers, *call)
    assert not as_it_came
    assert again.prepared is not None


def test_secrets_are_no_subject_of_it(callers: Callers) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    sent(callers)
    accepted, _ = sent(callers, CALL[0], ("result", "toolu_1", f"token={secret}\n{LOG}"))
    assert accepted.request.arm.name == HELD_OUT
    assert secret.encode() not in accepted.rewritten.body
    assert accepted.rewritten.body.count(b"worker idle") == 300


def test_histories_that_nothing_tells_apart_are_not_drawn(callers: Callers) -> None:
    responses = APIS[2]
    body = responses.body(BEGUN, store=True)
    accepted = callers.send(responses, body, responses.credential("k"))
    assert accepted.request.arm.name == ""
    assert accepted.rewritten.body != body


def test_an_arm_that_could_not_be_written_is_known_all_the_same(callers: Callers) -> None:
    pytest.importorskip("redis")
    from penumbra.store.shared_store import SharedStore
    from penumbra.store.shared_table import SharedTable

    request, going_on = sent(callers)[0].request, sent(callers, *CALL, ("said", "All."))[0].request
    caller = Caller(b"s" * 32, "one")

    async def both() -> list[str]:
        store = SharedStore(SharedPlace("unix:///nowhere/at/all", b"k" * 32))
        table, of = SharedTable(store, records.ARMS, 60), Conversations(SharedTable(store, OF, 60))
        told = []
        for each in (request, going_on):
            asked = replace(each, settings=callers.settings, arm=Arm())
            told.append((await in_its_arm(asked, caller, "id one", b"key", table, of)).arm.name)
        store.close()
        return told

    assert asyncio.run(both()) == [HELD_OUT, HELD_OUT]
