"""Histories that the provider keeps: each request names an answer and carries only what is new."""

import json
from typing import Any

import pytest

from penumbra.apis.identity import Caller
from penumbra.expand import reference
from penumbra.expand.expansions import Expansions
from penumbra.expand.hidden_exchanges import Answered, Conditions, Original, Prepared
from penumbra.expand.loop import Ask, Continue, Done, ToolLoop
from penumbra.expand.query import PROVIDED
from penumbra.metrics.events import expansion_event
from penumbra.store import exchanges, records
from penumbra.store.database import Database
from penumbra.store.records import Originals, ToolCallCache
from penumbra.store.table import Table
from penumbra.wire.document import Document
from support.streams.anthropic_streams import MIXED, PHANTOM, call, end, start, text

SECRET = "hunter2-and-more"
CONDITIONS = Conditions(wanted=True, at_stake=True, hint=True)


async def clean(text: str) -> str:
    return text


def made() -> Expansions:
    database = Database(None, 1 << 26)
    kept = Originals(Table(database, records.ORIGINALS, 60))
    calls = ToolCallCache(Table(database, records.TOOL_CALLS, 60), clean)
    return Expansions(b"k" * 32, Table(database, exchanges.SCHEMA, 60), kept, calls)


def body(*messages: Any, **more: Any) -> Document:
    tools = [{"name": "Bash", "input_schema": {}}]
    return Document(json.dumps({"tools": tools, **more, "messages": messages}).encode())


def request(thread: dict[str, Any], *messages: Any) -> Document:
    return body(*messages, thread=thread)


async def prepared(
    expansions: Expansions, document: Document, opening: str, conditions: Conditions = CONDITIONS
) -> Prepared:
    known = await expansions.look("anthropic", document, Caller(b"p" * 32, opening))
    assert known is not None
    found = await expansions.prepare(known, document, conditions)
    assert found is not None
    return found


async def begun() -> tuple[Expansions, Document, Prepared]:
    """Return the first request of a thread, which gets the tool."""
    expansions, document = made(), request({"type": "create"}, {"role": "user", "content": "hello"})
    return expansions, document, await prepared(expansions, document, "hello")


async def nothing(ref: str) -> Original | None:
    return None


async def answers(
    expansions: Expansions,
    prepared: Prepared,
    document: Document,
    data: bytes,
    provided: set[str] | None = None,
) -> tuple[ToolLoop, list[str], list[Answered]]:
    """Return the loop after a turn that asks for originals, and the texts for it. `provided` has the queries
    that were answered in earlier turns of the response."""
    exchange = ToolLoop(prepared.wire, prepared.wire.stream(prepared.tool), document.render())
    exchange.feed(data)
    ask = exchange.end_turn()
    assert isinstance(ask, Ask)
    return exchange, *await expansions.texts(prepared, nothing, ask, set() if provided is None else provided)


def asking(*refs: str) -> bytes:
    calls = [call(n, PHANTOM, f"toolu_{n}", json.dumps({"id": ref})) for n, ref in enumerate(refs)]
    return start(1) + b"".join(calls) + end("tool_use", 1)


async def test_malformed_references_are_stored_nowhere() -> None:
    """The model may pass any text as a reference."""
    expansions, document, first = await begun()
    unknown = "shadow_" + "0" * 18
    data = asking(f"the password is {SECRET}", f"<<<SHADOW:{unknown}>>>")
    _, texts, answered = await answers(expansions, first, document, data)
    assert [each.ref for each in answered] == ["", unknown]
    assert SECRET not in "".join(texts)
    event = expansion_event(flow_id="f", conversation=b"c", answered=answered, calls=1, tokens=[], sound=True)
    assert SECRET not in json.dumps(event)


async def test_references_of_earlier_releases_are_found() -> None:
    expansions, document, first = await begun()
    long = first.references.whole("BEFORE")
    now = reference.brief(first.references.whole("NOW"))
    await expansions.keep(first, {long: "BEFORE", now: "NOW"})
    wrong = f"shadow_{int(now.removeprefix('shadow_')):032x}"
    asked = {long: "BEFORE", first.references.whole("NOW"): "NOW", now: "NOW", wrong: "not available"}
    _, texts, _ = await answers(expansions, first, document, asking(*asked))
    assert all(part in text for part, text in zip(asked.values(), texts, strict=True)), texts


async def test_a_query_is_answered_once_in_a_response() -> None:
    expansions, document, first = await begun()
    originals = {first.references.ref(text): text for text in ("ONE", "OTHER")}
    await expansions.keep(first, originals)
    one, other = originals
    provided: set[str] = set()
    _, texts, _ = await answers(expansions, first, document, asking(one, other, one), provided)
    assert texts == ["ONE", "OTHER", PROVIDED]
    _, texts, answered = await answers(expansions, first, document, asking(other), provided)
    assert (texts, [each.found for each in answered]) == ([PROVIDED], [True])
    _, texts, _ = await answers(expansions, first, document, asking(other))
    assert texts == ["OTHER"]


async def test_a_thread_from_its_first_request_on() -> None:
    expansions, document, first = await begun()
    ref = first.references.ref("THE ORIGINAL")
    await expansions.keep(first, {ref: "THE ORIGINAL"})
    exchange, texts, _ = await answers(expansions, first, document, asking(ref))
    assert texts == ["THE ORIGINAL"]
    step = exchange.answered(texts)
    assert isinstance(step, Continue)
    assert json.loads(step.request)["thread"] == {"type": "continue", "previous_message_id": "msg_1"}
    assert len(json.loads(step.request)["messages"]) == 1
    exchange.feed(start(2) + text(0, "Done.") + end("end_turn", 1))
    done = exchange.end_turn()
    assert isinstance(done, Done)
    await expansions.remember(first, done)

    # The client knows the id of the first turn only.
    named = {"type": "continue", "previous_message_id": "msg_1"}
    document = request(named, {"role": "user", "content": "go on"})
    second = await prepared(expansions, document, "go on")
    body = json.loads(document.render())
    assert body["thread"]["previous_message_id"] == "msg_2"
    assert [tool["name"] for tool in body["tools"]] == ["Bash", PHANTOM]
    assert second.references.ref("THE ORIGINAL") == ref
    mixed = MIXED.replace(b"msg_0", b"msg_3").replace(b"shadow_0", ref.encode())
    exchange, texts, _ = await answers(expansions, second, document, mixed)
    done = exchange.answered(texts)
    assert isinstance(done, Done)
    await expansions.remember(second, done)

    result = {"type": "tool_result", "tool_use_id": "toolu_r0", "content": "out"}
    named = {"type": "continue", "previous_message_id": "msg_3"}
    document = request(named, {"role": "user", "content": [result]})
    await prepared(expansions, document, "")
    body = json.loads(document.render())
    hidden = {"type": "tool_result", "tool_use_id": "toolu_p0", "content": "THE ORIGINAL"}
    assert body["messages"][0]["content"] == [hidden, result]
    assert body["thread"]["previous_message_id"] == "msg_3"


THREAD = {"type": "continue", "previous_message_id": "msg_9"}
NAMING = f"call {PHANTOM}"


@pytest.mark.parametrize(
    ("thread", "words", "is_watched"),
    [(THREAD, "x", True), (None, NAMING, True), (None, "x", False)],
    ids=["known to the provider", "named in the request", "unknown"],
)
async def test_a_conversation_that_began_without_the_proxy_is_left_alone(
    thread: Any, words: str, is_watched: bool
) -> None:
    """A model that knows the tool may call the tool, and the client does not see the call."""
    history = [{"role": "user", "content": words}, {"role": "assistant", "content": "y"}] * (not thread)
    expansions, new = made(), {"role": "user", "content": "z"}
    document = request(thread, *history, new) if thread else body(*history, new)
    known = await expansions.look("anthropic", document, Caller(b"p" * 32, ""))
    assert known is not None
    found = await expansions.prepare(known, document, CONDITIONS)
    assert document.edits == []
    assert (found is not None) == is_watched
    if found is None:
        return
    assert not found.declared
    loop, texts, _ = await answers(expansions, found, document, asking("shadow_" + "0" * 18))
    step = loop.answered(texts)
    assert isinstance(step, Continue)
    assert b"tool_result" in step.request
    shown = step.out + loop.feed(start(2) + text(0, "so") + end("end_turn", 2))
    done = loop.end_turn()
    assert isinstance(done, Done)
    assert PHANTOM.encode() not in shown + done.out
    await expansions.remember(found, done)
    # The next request has the hidden exchange, and still no tool.
    said = [*history, new, {"role": "assistant", "content": done.text}, {"role": "user", "content": "?"}]
    later = body(*said) if not thread else request({**thread, "previous_message_id": done.ids[0]}, new)
    again = await prepared(expansions, later, "")
    assert not again.declared
    assert len(again.replayed.exchanges) == 1
    assert len(json.loads(later.render())["tools"]) == 1


@pytest.mark.parametrize("editing", [False, True], ids=["secrets stay away", "secrets are put back"])
@pytest.mark.parametrize("name", ["expand_context", "expand_original"])
async def test_the_name_that_the_model_knows_is_watched(name: str, editing: bool) -> None:
    history = [{"role": "user", "content": f"call {name}"}, {"role": "assistant", "content": "y"}]
    expansions, document = made(), body(*history, {"role": "user", "content": "z"})
    conditions = Conditions(wanted=True, at_stake=True, hint=True, editing=editing)
    found = await prepared(expansions, document, "", conditions)
    assert (found.tool, found.declared) == (name, "")
