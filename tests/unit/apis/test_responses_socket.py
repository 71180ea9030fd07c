"""Responses over WebSocket, without a socket: frames, histories of streams, and calls that were stored."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.apis import prefix_hash, responses_socket
from penumbra.apis.base import Failure, InjectedCall, MadeCall, Turn
from penumbra.apis.formats import FORMATS
from penumbra.apis.identity import Caller
from penumbra.apis.responses_socket import Envelope, SocketHistory, Transcript, envelope, item_done
from penumbra.expand.expansions import Expansions
from penumbra.expand.hidden_exchanges import Conditions, Original, Prepared
from penumbra.expand.loop import Ask, Done
from penumbra.redaction import RedactionError
from penumbra.store import exchanges, records
from penumbra.store.database import Database
from penumbra.store.records import Originals, ToolCallCache
from penumbra.store.table import Table
from penumbra.wire.document import Document
from support.examples import examples
from support.streams import responses_streams as streams

TOOL = {"type": "function", "name": "Bash", "parameters": {}}
CALL = "call_" + "1" * 24
CONDITIONS = Conditions(wanted=True, at_stake=False, hint=True)


@pytest.mark.parametrize(
    ("frame", "found"),
    [
        (b'{"type":"response.create","stream_id":"a","x":[1]}', Envelope("response.create", "a")),
        (b'{"type":"response.create","previous_response_id":null}', Envelope("response.create")),
        # Bytes outside of strings, and escapes that only some readers accept, hide no request.
        (b'{"type":"response.create","stream_id":5}', Envelope("response.create")),
        (b'{"a":"\\ud800","type":"response.create"}', Envelope("response.create")),
        (b'{"type":5}', None),
        (b'["response.create"]', None),
        (b'{"type":"response.create"} {}', None),
        (b"\x00\xff", None),
        (b"", None),
    ],
)
def test_the_outside_of_a_frame(frame: bytes, found: Envelope | None) -> None:
    assert envelope(frame) == found


@given(st.binary() | st.text().map(str.encode))
@settings(max_examples=examples(100))
def test_no_frame_is_too_odd(frame: bytes) -> None:
    found = envelope(frame)
    assert found is None or found.type
    assert responses_socket.renamed(frame, {"a": "b"}) == frame


SOCKET = FORMATS["openai_responses_socket"]


def test_frames_name_answers_by_other_ids() -> None:
    frame = b'{"type":"response.steer", "previous_response_id":"resp_1","input":"resp_1"}'
    assert responses_socket.renamed(frame, {"resp_2": "x"}) is frame
    renamed = responses_socket.renamed(frame, {"resp_1": "resp_2"})
    assert renamed == b'{"type":"response.steer", "previous_response_id":"resp_2","input":"resp_1"}'


def test_a_refusal_is_an_error_event() -> None:
    body = b'{"error":{"message":"no","type":"server_error"}}'
    error = {"type": "error", "status": 500, "error": {"message": "no", "type": "server_error"}}
    assert json.loads(responses_socket.refusal(500, body, "")) == error
    assert json.loads(responses_socket.refusal(500, body, "a")) == {**error, "stream_id": "a"}


@pytest.mark.parametrize("given", ['"hi"', '[{"role":"user","content":"hi"}]'])
@pytest.mark.parametrize(
    "before", [', "previous_response_id" : "resp_0"', ', "previous_response_id" : null', ""]
)
def test_a_turn_is_continued_from_its_own_id(given: str, before: str) -> None:
    frame = f'{{"type":"response.create", "input": {given}{before},"tools":[1.50]}}'.encode()
    extended = SOCKET.extended(frame, [b'{"type":"reasoning"},{"x":1}', b'{"r":1}', b'{"r":2}'], "resp_1")
    wanted = {**json.loads(frame), "input": [{"r": 1}, {"r": 2}], "previous_response_id": "resp_1"}
    assert json.loads(extended) == wanted
    assert b"[1.50]" in extended


def frames(*events: bytes) -> list[bytes]:
    """Return server-sent events as frames."""
    parts = b"".join(events).split(b"\n\n")
    return [part.split(b"data: ", 1)[1] for part in parts if b"data: " in part]


def test_an_answer_that_fails_ends_in_one_frame() -> None:
    stream = SOCKET.stream("expand_context")
    created = b'{"type":"response.created","response":{"id":"resp_1"},"sequence_number":0}'
    assert stream.feed(created) == created
    failed = json.loads(stream.fail(Failure(None, b"", "gone", reported=True)))
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 1)
    assert failed["response"]["error"]["message"] == "gone"


def made(clean: Callable[[str], Coroutine[Any, Any, str]] | None = None) -> tuple[Expansions, ToolCallCache]:
    async def nothing(text: str) -> str:
        return text

    database = Database(None, 1 << 26)
    calls = ToolCallCache(Table(database, records.TOOL_CALLS, 60), clean or nothing)
    kept = Originals(Table(database, records.ORIGINALS, 60))
    return Expansions(b"k" * 32, Table(database, exchanges.SCHEMA, 60), kept, calls), calls


async def test_calls_are_recorded_without_their_secrets() -> None:
    async def clean(text: str) -> str:
        if "unreadable" in text:
            raise RedactionError("no")
        return text.replace("secret", "[REDACTED]")

    _, cache = made(clean)
    calls = [
        MadeCall(CALL, "Bash", '{"command":"echo secret"}'),
        MadeCall(CALL + "2", "Bash", "unreadable"),
        MadeCall(CALL + "3", "Write", "x" * 64_001),
        MadeCall("call_0", "Bash", "{}"),
    ]
    await cache.record(b"p" * 32, calls)
    known = await cache.of_ids(b"p" * 32, [call.id for call in calls])
    assert {one: call.arguments for one, call in known.items()} == {
        CALL: '{"command":"echo [REDACTED]"}',
        CALL + "2": "",
        CALL + "3": "",
    }
    assert await cache.of_ids(b"q" * 32, [CALL]) == {}


def request(*items: Any, before: str = "", tools: Any = (TOOL,)) -> Document:
    frame = {"type": "response.create", "input": items, "tools": tools, "store": False}
    return Document(json.dumps({**frame, "previous_response_id": before} if before else frame).encode())


async def prepared(
    expansions: Expansions,
    document: Document,
    conditions: Conditions = CONDITIONS,
    format_name: str = "openai_responses_socket",
) -> Prepared | None:
    known = await expansions.look(format_name, document, Caller(b"p" * 32, "session"))
    assert known is not None
    return await expansions.prepare(known, document, conditions)


async def test_tools_of_a_former_request_are_still_there() -> None:
    """Only the first request declares the tools. Later requests name the response by its id."""
    expansions, _ = made()
    item = {"type": "additional_tools", "role": "developer", "tools": [TOOL]}
    first = await prepared(expansions, document := request(item, tools=[]))
    assert first is not None
    assert b"expand_context" in document.render()
    await expansions.remember(first, Done(b"", (CALL,), ids=("resp_1",)))
    again = await prepared(expansions, document := request(before="resp_1", tools=[]))
    assert again is not None
    assert again.tool == "expand_context"
    assert document.edits == []
    assert again.references.scope == first.references.scope
    assert await prepared(expansions, request(before="resp_unknown", tools=[])) is None
    # An unknown history never gets the injected tool.
    for _ in range(2):
        unknown = await prepared(expansions, request(before="resp_unknown"))
        assert unknown is not None
        assert not unknown.declared


async def test_a_request_without_a_decision_leaves_the_declaration_open() -> None:
    expansions, _ = made()
    await expansions.leave_undecided(Caller(b"p" * 32, "session"), "resp_1")
    found = await prepared(expansions, request({"role": "user", "content": "hi"}, before="resp_1"))
    assert found is not None
    alone = prefix_hash.of(request({"role": "user", "content": "hi"}))
    assert found.history.before == alone.history[-1]


async def test_places_go_on_from_request_to_request() -> None:
    """A response without calls is found in a whole history by the hash of everything before the response."""
    expansions, _ = made()
    warm = await prepared(expansions, request())
    assert warm is not None
    await expansions.remember(warm, Done(b"", ids=("resp_0",)))
    first = await prepared(expansions, request({"role": "user", "content": "hi"}, before="resp_0"))
    assert first is not None
    made_call = MadeCall(CALL, "Bash", "{}")
    await expansions.remember(first, Done(b"", (CALL,), "See.", ids=("resp_1",), made=(made_call,)))
    output = {"type": "function_call_output", "call_id": CALL, "output": "x"}
    second = await prepared(expansions, request(output, before="resp_1"))
    assert second is not None
    await expansions.remember(second, Done(b"", (), "Done.", ids=("resp_2",)))
    whole = request(
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": CALL, "name": "Bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": CALL, "output": "x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        {"role": "user", "content": "more"},
    )
    strict = Conditions(wanted=False, at_stake=True, hint=True)
    for left_out in (0, 2):
        document = json.loads(whole.data)
        kept = document["input"][:1] + document["input"][1 + left_out :]
        found = await prepared(expansions, request(*kept), strict, "openai_responses")
        assert (found is not None) is (left_out == 0)


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        (None, [3_990, 3_990, 23]),
        (13_000, [3_990, 3_990, 23]),
        (10_000, [3_300, 3_200, 23]),
        (3_000, [950, 800, 23]),
        (0, [140, 140, 23]),
    ],
)
async def test_texts_share_what_fits(limit: int | None, sizes: list[int]) -> None:
    """A text that is not longer than the note 'nothing fits' is always sent."""
    lines = "".join(f"line {n:04}\n" for n in range(399))

    async def find(ref: str) -> Original | None:
        return Original(lines)

    expansions, _ = made()
    found = await prepared(expansions, request({"role": "user", "content": "hi"}))
    assert found is not None
    queries = ({"id": "shadow_1"}, {"id": "shadow_2"}, {"id": "shadow_1", "lines": "7"})
    calls = tuple(InjectedCall(f"call_{n}", json.dumps(query)) for n, query in enumerate(queries))
    provided: set[str] = set()
    ask = Ask(calls, refused=False)
    texts, answered = await expansions.texts(found, find, ask, provided, limit)
    assert [one.sent for one in answered] == [len(text.encode()) for text in texts]
    assert all(len(text) <= size + 300 for text, size in zip(texts, sizes, strict=True))
    assert all(len(text) >= size for text, size in zip(texts, sizes, strict=True))
    assert texts[2] == "[Lines 7-7 of 399]\nline 0006\n"
    assert len(provided) == (1 if limit == 0 else 3)


def test_both_framings_show_the_same_answer() -> None:
    """Hidden turns in server-sent events and in frames. Each event of the provider gives at most one event."""
    turns = [
        streams.stream(1, streams.reasoning(1), streams.message(2, "Let me see."), streams.injected_tool(3)),
        streams.stream(2, streams.injected_tool(4), streams.injected_tool(5)),
        streams.stream(3, streams.custom(6), streams.message(7, "Done, ü.")),
    ]
    sent, framed = FORMATS["openai_responses"].stream(streams.PHANTOM), SOCKET.stream(streams.PHANTOM)
    shown: tuple[list[bytes], list[bytes]] = ([], [])
    for number, turn in enumerate(turns):
        shown[0].append(sent.feed(turn))
        shown[1].extend(filter(None, map(framed.feed, frames(turn))))
        assert sent.end_turn() == framed.end_turn()
        for answer, out in zip((sent, framed), shown, strict=True):
            out.append(answer.finish() if number == 2 else answer.go_on())
    assert shown[0][-1] == shown[1][-1] == b""
    assert frames(*shown[0]) == [frame for frame in shown[1] if frame]
    assert streams.PHANTOM.encode() not in b"".join(shown[1])


# Items that a client has sent and got on a socket, as one request

USER = {"role": "user", "content": "hi"}
ASKED = {"type": "function_call", "call_id": "call_1", "name": "Bash", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "x"}


def frame(items: Any, before: str | None = None, **more: Any) -> bytes:
    made = {"type": "response.create", "input": items, "store": False, **more}
    return json.dumps({**made, "previous_response_id": before} if before else made).encode()


def answered(history: SocketHistory, data: bytes, known_as: str, *items: Any) -> None:
    said = history.asked(data)
    said.known_as = known_as
    said.got += [json.dumps(item).encode() for item in items]
    history.answered(said)


def test_the_whole_of_it() -> None:
    history = SocketHistory()
    first = frame("hi", tools=[1.50])
    assert history.asked(first).whole() is first
    answered(history, first, "resp_1", ASKED)
    second = frame([RESULT], "resp_1", tools=[1.50])
    whole = history.asked(second).whole()
    assert whole is not None
    assert json.loads(whole) == {**json.loads(first), "input": [USER, ASKED, RESULT]}
    answered(history, second, "resp_2", {"type": "message", "x": 1})
    third = history.asked(frame([USER], "resp_2")).whole()
    assert third is not None
    assert json.loads(third)["input"] == [USER, ASKED, RESULT, {"type": "message", "x": 1}, USER]


def test_an_unknown_history_is_not_invented() -> None:
    history = SocketHistory()
    assert history.asked(frame([RESULT], "resp_0")).whole() is None
    answered(history, frame("hi"), "resp_1", ASKED)
    assert history.asked(frame([RESULT], "resp_0")).whole() is None
    history.lose()
    assert history.asked(frame([RESULT], "resp_1")).whole() is None
    # A request that continues such a response is also unknown. A new conversation is known.
    answered(history, frame([RESULT], "resp_1"), "resp_2")
    assert history.asked(frame([USER], "resp_2")).whole() is None
    answered(history, frame([USER]), "resp_3")
    assert history.asked(frame([USER], "resp_3")).whole() is not None
    assert history.asked(b"no JSON").input is None
    transcript = Transcript()
    transcript.answered(frame("hi"), Turn(response_id="resp_1"))
    assert transcript.whole(frame([RESULT], "resp_1")) is not None
    assert transcript.whole(b'{"previous_response_id":"resp_1","store":false}') is None


@pytest.mark.parametrize(("more", "stored"), [({}, False), ({"store": True}, True), ({"store": None}, True)])
def test_stored_calls_are_found(more: dict[str, Any], stored: bool) -> None:
    assert SocketHistory().asked(frame([USER], **more)).is_stored is stored


def test_items_of_an_answer() -> None:
    assert item_done(b'{"type":"response.output_item.done","item":{"a" : 1.0}}') == b'{"a" : 1.0}'
    assert item_done(b'{"type":"response.output_item.done"}') is None


@pytest.mark.parametrize(
    ("kind", "fails", "has_content"),
    [
        ("created", False, False),
        ("queued", False, False),
        ("completed", False, True),
        ("failed", True, False),
    ],
)
def test_each_kind_of_frame_has_its_effect(kind: str, fails: bool, has_content: bool) -> None:
    found = Envelope(f"response.{kind}")
    assert (found.fails, found.has_content) == (fails, has_content)
    assert not Envelope("codex.rate_limits").has_content
