"""Histories that only a provider has, and sessions that join: what another tenant gets of them by an id, a name
or a reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.apis import APIS, Api
from support.engines import Callers, shown
from support.tenants import ASK, FORGERIES, LOG, every_api, jwt, result

RESPONSES = APIS[2]
RESPONSE = "resp_0123456789abcdef0123456789"
CALL = ("call", "call_0123456789abcdef0123456789", "cat parts of-the-victim")
TEXT = "\n".join(f"part {number} of it, {number * 7919 % 1009}" for number in range(40))
SESSION = {"_forge": {"tool_output_compression": {"session_id": "s"}}}
ELSE = ("user", "Something else.")


@pytest.fixture
def callers() -> Iterator[Callers]:
    made = Callers(adopt="compress")
    yield made
    made.close()


def held(callers: Callers, headers: dict[str, str]) -> str:
    """A chain whose provider has a long log; the reference to it."""
    first = callers.send(RESPONSES, RESPONSES.body([ASK], store=True), headers)
    callers.answer(first, RESPONSES, CALL, shows=True, ids=(RESPONSE,))
    sent = goes_on(callers, headers, ("result", CALL[1], TEXT))
    callers.answer(sent, RESPONSES, ("call", CALL[1] + "1", "cat log"), shows=True, ids=(RESPONSE + "1",))
    sent = goes_on(callers, headers, ("result", CALL[1] + "1", LOG), before=RESPONSE + "1")
    callers.answer(sent, RESPONSES, ("call", CALL[1] + "2", CALL[2]), shows=True, ids=(RESPONSE + "2",))
    [ref] = shown(sent)
    return ref


def goes_on(
    callers: Callers, headers: dict[str, str], *turns: tuple[str, ...], before: str = RESPONSE, **more: Any
) -> Any:
    body = RESPONSES.body(turns, store=True, previous_response_id=before, **more)
    return callers.send(RESPONSES, body, headers)


@pytest.mark.parametrize("name", FORGERIES)
def test_the_id_of_a_response_tells_nobody_else_what_stands_before_it(name: str, callers: Callers) -> None:
    """Neither that a text is there, nor the name of its call, nor an original."""
    victim, attacker = FORGERIES[name]
    ref = held(callers, victim)
    same = ("result", CALL[1] + "2", TEXT)
    mine = goes_on(callers, victim, same, before=RESPONSE + "2").rewritten.body
    assert b"of-the-victim" in mine
    for more in ({}, SESSION):
        try:
            theirs = goes_on(callers, attacker, same, before=RESPONSE + "2", **more)
        except AssertionError:
            assert more, "it was refused without a wish for duplicates"
            continue
        assert b"of-the-victim" not in theirs.rewritten.body
        assert b"Duplicate of" not in theirs.rewritten.body
        assert theirs.prepared is None or callers.stored(theirs, ref) is None


@every_api
def test_the_name_of_a_session_joins_nobody_else(api: Api, callers: Callers) -> None:
    key, other = api.credential("one key"), api.credential("another key")
    mine = callers.send(api, api.body([ASK, ("call", "call_0", "cat log"), result(LOG)], **SESSION), key)
    callers.answer(mine, api, ("said", "So."), shows=True)
    refs = list(shown(mine))
    joined = callers.send(api, api.body([ELSE], **SESSION), key)
    theirs = callers.send(api, api.body([ELSE], **SESSION), other)
    elsewhere = callers.send(api, api.body([ELSE], **SESSION), key, host="evil.example.com:443")
    for ref in refs:
        assert callers.stored(joined, ref) == LOG
        assert callers.stored(theirs, ref) is None
        assert callers.stored(elsewhere, ref) is None


def test_a_session_joins_nothing_without_a_credential(callers: Callers) -> None:
    """Not even at the same address, and with an answer of one's own."""
    ref = held(callers, {})
    turns = [ASK, ("call", "call_0", "cat log"), result(LOG)]
    callers.send(RESPONSES, RESPONSES.body(turns, **SESSION), {})
    stranger = callers.send(RESPONSES, RESPONSES.body([ELSE], **SESSION), {})
    assert callers.stored(stranger, ref) is None
    assert stranger.prepared is not None
    assert stranger.prepared.scopes == (stranger.prepared.references.scope,)


def test_no_conversation_has_the_name_of_a_session(callers: Callers) -> None:
    """Of one key, too: a header can't name what a session is kept by."""
    api = RESPONSES
    key = api.credential("one key")
    turns = [ASK, ("call", "call_0", "cat log"), result(LOG)]
    [ref] = shown(callers.send(api, api.body(turns, **SESSION), key))
    for name in ("s", "session s", "id s"):
        named = callers.send(api, api.body([ELSE]), {**key, "session_id": name})
        assert callers.stored(named, ref) is None
    assert callers.stored(callers.send(api, api.body([("user", "session s")]), key), ref) is None


def test_what_a_forged_login_brings_along_is_its_own(callers: Callers) -> None:
    """It has the same claim, and sends the same result: the reference is kept for it, and nothing else is."""
    api = APIS[0]
    victim, attacker = ({"authorization": jwt("me", name)} for name in ("one", "two"))
    secret = LOG.replace("worker", "hidden")
    turns = [ASK, ("call", "call_0", "cat log"), result(LOG), ("call", "call_1", "cat it")]
    turns += [("result", "call_1", secret)]
    first = callers.send(api, api.body(turns[:3]), victim)
    callers.answer(first, api, turns[3], shows=True)
    [mine] = shown(first)
    [theirs] = set(shown(callers.send(api, api.body(turns), victim))) - {mine}
    again = callers.send(api, api.body([*turns[:3], ("said", "Well."), ELSE]), attacker)
    callers.answer(again, api, ("said", "So."), shows=True)
    assert callers.stored(again, theirs) is None
    assert callers.stored(again, mine) == LOG
