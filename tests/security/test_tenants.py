"""Possession or credential, never a claim, gives access to what belongs to a tenant, over every API."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from penumbra.apis.base import Hidden
from support.apis import APIS, Api
from support.engines import HIDDEN, Callers, database, shown
from support.tenants import ASK, CALL, DONE, FORGERIES, LOG, NEXT, OTHER, begun, every_api, jwt, result


@every_api
def test_a_hidden_exchange_is_put_back_after_an_equal_history_only(api: Api, callers: Callers) -> None:
    """Another session with the same key, the same opening and common ids never gets the exchange."""
    key = api.credential("one key")
    begun(callers, api, key)
    mine = callers.send(api, api.body([ASK, CALL, result(LOG), NEXT, DONE]), key)
    assert HIDDEN.encode() in mine.rewritten.body
    for turns in (
        [ASK, CALL, result(OTHER), NEXT, DONE],
        [ASK, NEXT, DONE],
        [("user", "Something else."), CALL, result(LOG), NEXT, DONE],
        [ASK, ("call", "call_0", "cat other"), result(LOG), NEXT, DONE],
        [ASK, ("said", "Hm."), ASK, CALL, result(LOG), NEXT, DONE],
    ):
        assert HIDDEN.encode() not in callers.send(api, api.body(turns), key).rewritten.body


@every_api
def test_two_sessions_at_once_each_get_their_own(api: Api, callers: Callers) -> None:
    key = api.credential("one key")
    begun(callers, api, key)
    begun(callers, api, key, OTHER)
    for log in (LOG, OTHER):
        again = callers.send(api, api.body([ASK, CALL, result(log), NEXT, DONE]), key)
        assert HIDDEN.encode() in again.rewritten.body


@every_api
def test_another_key_gets_nothing_of_it(api: Api, callers: Callers) -> None:
    asked = begun(callers, api, api.credential("one key"))
    other = callers.send(api, api.body([ASK, CALL, result(LOG), NEXT, DONE]), api.credential("another key"))
    assert HIDDEN.encode() not in other.rewritten.body
    fresh = callers.send(api, api.body([ASK]), api.credential("another key"))
    for ref in shown(asked):
        assert callers.stored(asked, ref) == LOG
        assert callers.stored(fresh, ref) is None


@every_api
@pytest.mark.parametrize("name", FORGERIES)
def test_a_claim_reads_no_original(api: Api, name: str, callers: Callers) -> None:
    victim, attacker = FORGERIES[name]
    asked = begun(callers, api, victim)
    refs = list(shown(asked))
    assert refs
    if victim:
        assert callers.stored(asked, refs[0]) == LOG
    forged = callers.send(api, api.body([ASK]), attacker)
    assert callers.stored(forged, refs[0]) is None


def test_an_account_in_a_body_reads_no_original(callers: Callers) -> None:
    api = APIS[0]
    metadata = {"metadata": {"user_id": json.dumps({"account_uuid": "victim", "session_id": "s"})}}
    victim, attacker = ({"authorization": f"Bearer sk-ant-oat01-{name}"} for name in ("victim", "attacker"))
    callers.answer(callers.send(api, api.body([ASK], **metadata), victim), api, CALL, shows=True)
    asked = callers.send(api, api.body([ASK, CALL, result(LOG)], **metadata), victim)
    (ref,) = shown(asked)
    assert callers.stored(asked, ref) == LOG
    assert callers.stored(callers.send(api, api.body([ASK], **metadata), attacker), ref) is None


@every_api
def test_another_host_reads_no_original(api: Api, callers: Callers) -> None:
    key = api.credential("one key")
    asked = begun(callers, api, key)
    (ref,) = shown(asked)
    body = api.body([ASK, CALL, result(LOG), NEXT, DONE])
    other = callers.send(api, body, key, host="evil.example.com:443")
    assert HIDDEN.encode() not in other.rewritten.body
    assert callers.stored(callers.send(api, api.body([ASK]), key, host="evil.example.com:443"), ref) is None


@every_api
def test_without_a_credential_only_possession_counts(api: Api, callers: Callers) -> None:
    asked = begun(callers, api, {})
    (ref,) = shown(asked)
    assert callers.stored(asked, ref) is None
    assert (
        HIDDEN.encode()
        not in callers.send(api, api.body([ASK, CALL, result(OTHER), NEXT, DONE]), {}).rewritten.body
    )
    mine = callers.send(api, api.body([ASK, CALL, result(LOG), NEXT, DONE]), {})
    assert HIDDEN.encode() in mine.rewritten.body


def renewed(number: int) -> dict[str, str]:
    return {"authorization": jwt("me", f"signature{number}")}


@every_api
def test_a_renewed_token_goes_on_with_its_conversation(api: Api, tmp_path: Path) -> None:
    """A renewed token gets the same bytes as before, in a new process, too, and originals once the provider
    has taken it."""
    callers = Callers(database=database(tmp_path))
    try:
        asked = begun(callers, api, renewed(1))
        (ref,) = shown(asked)
        body = api.body([ASK, CALL, result(LOG), NEXT, DONE])
        same = callers.send(api, body, renewed(1)).rewritten.body
        callers.restart()
        again = callers.send(api, body, renewed(2))
        assert again.rewritten.body == same
        assert callers.stored(again, ref) is None
        callers.answer(again, api, ("said", "It is."), shows=True)
        assert callers.stored(again, ref) == LOG
        # The client has cleared the log meanwhile, and the store alone has it.
        assert again.conversation != asked.conversation
        later = callers.send(api, api.body([ASK, CALL, result("[cleared]"), NEXT, DONE]), renewed(2))
        assert callers.stored(later, ref) == LOG
        assert callers.stored(callers.send(api, api.body([ASK]), renewed(3)), ref) is None
    finally:
        callers.close()


@every_api
def test_a_renewed_token_inherits_nothing_from_an_answer_that_failed(api: Api, callers: Callers) -> None:
    asked = begun(callers, api, renewed(1))
    (ref,) = shown(asked)
    again = callers.send(api, api.body([ASK, CALL, result(LOG), NEXT, DONE]), renewed(2))
    callers.answer(again, api, ("said", ""), shows=True, sound=False)
    assert callers.stored(again, ref) is None


@pytest.mark.parametrize("api", [one for one in APIS if one.id != "gemini"], ids=lambda api: api.id)
def test_histories_in_another_shape_are_the_same(api: Api, callers: Callers) -> None:
    key = api.credential("one key")
    begun(callers, api, key)
    body = json.loads(api.body([ASK, CALL, result(LOG + "\n"), NEXT, DONE]))
    for message in body[api.member]:
        if isinstance(message.get("content"), str) and api.id != "ollama-chat":
            message["content"] = [{"type": "text", "text": message["content"], "cache_control": None}]
    body[api.member] = [dict(reversed(message.items())) for message in body[api.member]]
    if api.id != "bedrock-converse":
        body[api.member].insert(0, {"role": "system", "content": "branch: main"})
    found = callers.send(api, json.dumps(body).encode(), key)
    assert HIDDEN.encode() in found.rewritten.body


def test_a_line_index_belongs_to_one_caller(callers: Callers) -> None:
    """Two tenants have calls of the same id and results of the same size; a text that only one of them has
    read is not referred to for the other."""
    api = APIS[1]
    written, theirs = (
        "\n".join(f"{sha256(b'%s %d' % (who, number)).hexdigest()} is part {number}" for number in range(40))
        for who in (b"a", b"b")
    )
    assert len(written) == len(theirs)
    for name, said in (("a", written), ("b", theirs)):
        write = ("call", "call_00000000000000000001", f"cat > x <<E\n{said}\nE; cat x")
        turns = [ASK, write, ("result", write[1], written)]
        sent = callers.send(api, api.body(turns), api.credential(name)).rewritten.body
        refers = written.split("\n")[20] not in json.loads(sent)["messages"][-1]["content"]
        assert refers == (name == "a")


def test_a_provider_that_keeps_histories_decides_by_its_ids(callers: Callers) -> None:
    """Requests have new items only, so the id and the credential identify the conversation."""
    api = APIS[2]
    response_id = "resp_0123456789abcdef0123456789"
    tools = {"store": True}
    item = b'{"type":"function_call_output","call_id":"call_p","output":"THE ORIGINAL"}'

    def asked(headers: dict[str, str], socket: bool) -> Any:
        more = {"store": True, "previous_response_id": response_id}
        return callers.send(api, api.body([DONE], **more), headers, socket=socket)

    for socket in (False, True):
        first = callers.send(api, api.body([ASK], **tools), renewed(1), socket=socket)
        callers.answer(first, api, NEXT, ids=(response_id,), hidden=Hidden((), None, (item,)))
        assert b"THE ORIGINAL" in asked(renewed(1), socket).rewritten.body
        # The calls need results, but another credential gets no original.
        other = asked(renewed(2), socket).rewritten.body
        assert b"THE ORIGINAL" not in other
        assert json.loads(other)["input"][0]["call_id"] == "call_p"
        for stranger in ({"x-api-key": "k"}, {}, {"authorization": jwt("you", "signature1")}):
            assert b"call_p" not in asked(stranger, socket).rewritten.body


def test_guessable_ids_are_bound_to_the_credential(callers: Callers) -> None:
    api = APIS[2]
    first = callers.send(api, api.body([ASK], store=True), renewed(1))
    callers.answer(first, api, NEXT, shows=True, ids=("resp_1",))
    more = {"store": True, "previous_response_id": "resp_1"}
    for headers, known in ((renewed(1), True), (renewed(2), False)):
        found = callers.send(api, api.body([DONE], **more), headers)
        assert found.prepared is not None
        assert (found.prepared.is_offered, found.prepared.is_followed) == (known, known)


RESPONSES = APIS[2]
RESPONSE = "resp_0123456789abcdef0123456789"
KEPT_CALL = ("call", "call_0123456789abcdef0123456789", "cat parts of-the-victim")
TEXT = "\n".join(f"part {number} of it, {number * 7919 % 1009}" for number in range(40))
SESSION = {"_forge": {"tool_output_compression": {"session_id": "s"}}}
ELSE = ("user", "Something else.")


@pytest.fixture
def callers() -> Iterator[Callers]:
    made = Callers(adopt="compress")
    yield made
    made.close()


def stored_log(callers: Callers, headers: dict[str, str]) -> str:
    """Return the reference to a long log in a chain that is stored at the provider."""
    first = callers.send(RESPONSES, RESPONSES.body([ASK], store=True), headers)
    callers.answer(first, RESPONSES, KEPT_CALL, shows=True, ids=(RESPONSE,))
    sent = goes_on(callers, headers, ("result", KEPT_CALL[1], TEXT))
    callers.answer(
        sent, RESPONSES, ("call", KEPT_CALL[1] + "1", "cat log"), shows=True, ids=(RESPONSE + "1",)
    )
    sent = goes_on(callers, headers, ("result", KEPT_CALL[1] + "1", LOG), before=RESPONSE + "1")
    callers.answer(
        sent, RESPONSES, ("call", KEPT_CALL[1] + "2", KEPT_CALL[2]), shows=True, ids=(RESPONSE + "2",)
    )
    [ref] = shown(sent)
    return ref


def goes_on(
    callers: Callers, headers: dict[str, str], *turns: tuple[str, ...], before: str = RESPONSE, **more: Any
) -> Any:
    body = RESPONSES.body(turns, store=True, previous_response_id=before, **more)
    return callers.send(RESPONSES, body, headers)


@pytest.mark.parametrize("name", FORGERIES)
def test_the_id_of_a_response_reveals_its_history_to_its_caller_only(name: str, callers: Callers) -> None:
    """Another caller learns neither that a text exists, nor the name of its call, nor an original."""
    victim, attacker = FORGERIES[name]
    ref = stored_log(callers, victim)
    same = ("result", KEPT_CALL[1] + "2", TEXT)
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
def test_a_session_name_joins_no_other_caller(api: Api, callers: Callers) -> None:
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
    """A session joins nothing even at the same address, and with an answer of its own."""
    ref = stored_log(callers, {})
    turns = [ASK, ("call", "call_0", "cat log"), result(LOG)]
    callers.send(RESPONSES, RESPONSES.body(turns, **SESSION), {})
    stranger = callers.send(RESPONSES, RESPONSES.body([ELSE], **SESSION), {})
    assert callers.stored(stranger, ref) is None
    assert stranger.prepared is not None
    assert stranger.prepared.scopes == (stranger.prepared.references.scope,)


def test_no_conversation_has_the_name_of_a_session(callers: Callers) -> None:
    """A header can't name a session's key, even for the same credential."""
    api = RESPONSES
    key = api.credential("one key")
    turns = [ASK, ("call", "call_0", "cat log"), result(LOG)]
    [ref] = shown(callers.send(api, api.body(turns, **SESSION), key))
    for name in ("s", "session s", "id s"):
        named = callers.send(api, api.body([ELSE]), {**key, "session_id": name})
        assert callers.stored(named, ref) is None
    assert callers.stored(callers.send(api, api.body([("user", "session s")]), key), ref) is None


def test_a_forged_login_has_a_scope_of_its_own(callers: Callers) -> None:
    """A forged login with the same claim and the same result keeps that result's reference, and no other."""
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
