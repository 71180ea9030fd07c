"""Responses of Anthropic: the client sees one sound message, the provider's turns are kept exactly."""

import json
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from penumbra.apis.base import Failure, InjectedCall
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from support.cuts import places
from support.streams.anthropic_streams import (
    FIRST,
    PHANTOM,
    SECOND,
    block,
    call,
    end,
    event,
    start,
    text,
    thinking,
)
from support.streams.drive import byte_by_byte, chunks, drive, every_cut


def stream() -> Response:
    return FORMATS["anthropic"].stream(PHANTOM)


def events(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(part.split(b"data: ", 1)[1]) for part in data.split(b"\n\n") if part]


def sdk_message(data: bytes) -> dict[str, Any]:
    """Return the message that Anthropic's SDK assembles from a stream."""
    import anthropic  # This import is slow.

    httpx: Any = import_module("httpx2" if find_spec("httpx2") else "httpx")
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, headers=headers, content=data))
    with anthropic.Anthropic(api_key="key", http_client=httpx.Client(transport=transport)) as client:
        messages = [{"role": "user", "content": "x"}]
        with client.messages.stream(model="m", max_tokens=9, messages=messages) as answer:
            return json.loads(answer.get_final_message().to_json())


def test_every_kind_of_block_is_rebuilt() -> None:
    citation = {"type": "char_location", "cited_text": "x", "document_index": 0}
    search = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"encrypted_content": "E"}]}
    compaction = {"type": "compaction", "content": None}
    data = (
        start()
        + block(0, {"type": "redacted_thinking", "data": "opaque"})
        + block(
            1,
            {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query": 10000000000000000000000'},
            {"type": "input_json_delta", "partial_json": "}"},
        )
        + block(2, search)
        + block(
            3,
            {"type": "text", "text": "", "citations": []},
            {"type": "citations_delta", "citation": citation},
            {"type": "text_delta", "text": "so"},
        )
        + text(4, " \n")
        + block(5, compaction, {"type": "compaction_delta", "content": "sum"})
        + call(6, PHANTOM, "toolu_p", "{}")
        + end("tool_use", 3)
    )
    out, (turn,) = every_cut(stream, [data])
    assert turn.message is not None
    content = json.loads(turn.message)["content"]
    assert [part["type"] for part in content] == [
        *("redacted_thinking", "server_tool_use", "web_search_tool_result", "text", "compaction"),
        "tool_use",
    ]
    assert b'"input":{"query": 10000000000000000000000}' in turn.message
    assert content[2] == search
    assert content[3] == {"type": "text", "text": "so", "citations": [citation]}
    assert content[4] == {"type": "compaction", "content": "sum"}
    assert turn.signatures == ("opaque",)
    assert events(out)[-2]["delta"]["stop_reason"] == "end_turn"


def test_pings_pass_while_events_are_delayed() -> None:
    data = FIRST.replace(b"event: message_delta", event("ping") + b"event: message_delta")
    out, _ = drive(stream(), [data], lambda data: chunks(data, 9))
    assert out.count(b"event: ping") == 2


@pytest.mark.parametrize(
    ("arguments", "kept"), [('{"id": "shad', {}), ("[1]", {}), ("", {}), ('{"id": 1}', {"id": 1}), ("\\", {})]
)
def test_malformed_arguments_are_kept_for_the_answer_but_not_sent_back(arguments: str, kept: object) -> None:
    data = start() + call(0, PHANTOM, "toolu_p", arguments) + end("max_tokens", 1)
    _, (turn,) = drive(stream(), [data], lambda data: chunks(data, 5))
    assert turn.injected == (InjectedCall("toolu_p", arguments or "{}"),)
    assert turn.message is not None
    assert json.loads(turn.message)["content"][0]["input"] == kept


def test_an_error_of_the_same_kind_ends_the_answer() -> None:
    answer = stream()
    answer.feed(FIRST)
    answer.end_turn()
    answer.go_on()
    error = {"type": "overloaded_error", "message": f"{PHANTOM} is too much"}
    own = {"type": "error", "error": error, "request_id": "r"}
    failure = Failure(529, json.dumps(own, indent=1).encode(), "status 529", 7.0, reported=True)
    message = "status 529. Please try again in 7s."
    told = {"type": "error", "error": {"type": "overloaded_error", "message": message}}
    assert events(answer.fail(failure)) == [told]
    for status, kind in (
        (429, "rate_limit_error"),
        (400, "invalid_request_error"),
        (503, "overloaded_error"),
    ):
        (other,) = events(answer.fail(Failure(status, b"<html>", "x", reported=True)))
        assert other["error"] == {"type": kind, "message": "x"}
    # The client has got no error yet, so the stream breaks off.
    assert answer.fail(Failure(502, b"<html>", "the upstream answered 502")) == b""


def test_a_refusal_is_not_continued() -> None:
    data = start() + call(0, PHANTOM, "toolu_p", "{}") + end("refusal", 1)
    _, (turn,) = drive(stream(), [data], lambda data: chunks(data, 50))
    assert not turn.continuable


@pytest.mark.parametrize(
    "odd",
    [
        b"data: 7\n\n",
        b"data: {\n\n",
        b'data: {"type":["x"]}\n\n',
        b"data\n\n",
        event("content_block_start"),
        event("content_block_delta", index="x"),
        event("content_block_start", index=1, content_block=None),
        event("content_block_delta", index=9, delta={"type": "text_delta", "text": "x"}),
        event("message_delta"),
        event("message_start"),
    ],
)
def test_odd_events_pass(odd: bytes) -> None:
    out, _ = every_cut(stream, [odd + SECOND])
    assert out.startswith(odd)


NEWER: dict[str, Any] = {
    "container": {"id": "container_1", "expires_at": "2026-11-21T00:00:00Z"},
    "context_management": {
        "applied_edits": [{"type": "clear_thinking_20251015", "cleared_thinking_turns": 1}]
    },
    "input_transformations": [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
    ],
}


def test_newer_members_of_answers_stay() -> None:
    ends = [
        {"delta": {"stop_reason": reason, "stop_sequence": None, "container": NEWER["container"]}}
        for reason in ("tool_use", "end_turn")
    ]
    first, last = (
        event(
            "message_delta", **one, usage={"output_tokens": 1}, context_management=NEWER["context_management"]
        )
        + event("message_stop")
        for one in ends
    )
    begins = start(0).replace(b'"content": []', b'"content": [], ' + json.dumps(NEWER)[1:-1].encode())
    plain = begins + text(0, "Hello.") + last
    assert byte_by_byte(stream, [plain])[0] == plain
    out, _ = byte_by_byte(
        stream, [begins + call(0, PHANTOM, "toolu_p", "{}") + first, start(1) + text(0, "Hello.") + last]
    )
    assert begins in out
    deltas = [one for one in events(out) if one["type"] == "message_delta"]
    assert deltas == [
        {
            "type": "message_delta",
            **ends[1],
            "usage": {"output_tokens": 2, "input_tokens": 100},
            "context_management": NEWER["context_management"],
        }
    ]
    # Compatible servers may leave out the type.
    document = {"id": "msg_1", "content": [], "stop_reason": "end_turn", "usage": {}, **NEWER}
    asking = {"type": "tool_use", "id": "toolu_p", "name": PHANTOM, "input": {}}
    bodies = [
        json.dumps({**document, "content": [one]}).encode() for one in (asking, {"type": "text", "text": "a"})
    ]
    said = json.loads(byte_by_byte(lambda: FORMATS["anthropic"].body(PHANTOM), bodies)[0])
    assert said == {**document, "content": [{"type": "text", "text": "a"}]}


def test_the_received_parts_of_a_broken_message_stay() -> None:
    """The received text and the complete calls and thinking before it stay. Parts that the API would refuse are
    left out."""
    whole = (
        start(1)
        + thinking(0, "So.", "sig-9")
        + text(1, "It fails")
        + call(2, "Bash", "toolu_r", '{"command":"ls"}')
        + call(3, PHANTOM, "toolu_p", "{}")
        + thinking(4, "More.", "sig-10")
    )
    for at in places(whole):
        answer = stream()
        answer.feed(whole[:at])
        turn = answer.end_turn()
        assert not turn.finished
        content = json.loads(turn.message)["content"] if turn.message else []
        assert [block["id"] for block in content if block["type"] == "tool_use"] == list(turn.real_calls)
        assert all(block["signature"] for block in content if block["type"] == "thinking")
        assert not content or content[-1]["type"] != "thinking"
        assert PHANTOM not in str(content)
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use"]


@pytest.mark.parametrize("reason", ["tool_use", "end_turn"])
def test_two_blocks_of_one_number(reason: str) -> None:
    """A block with the number of an earlier hidden call is shown, and the call is answered."""
    hidden = call(0, PHANTOM, "toolu_p", json.dumps({"id": "shadow_0"}))
    first = start() + hidden + text(0, "own words") + text(1, "more") + end(reason, 3)
    out, (turn, _) = every_cut(stream, [first, SECOND])
    content = sdk_message(out)["content"]
    assert [block["type"] for block in content] == ["text", "text", "thinking", "text", "tool_use"]
    assert turn.injected == (InjectedCall("toolu_p", '{"id": "shadow_0"}'),)
    assert turn.text == "own wordsmore"
    assert turn.message is not None
    assert [block["type"] for block in json.loads(turn.message)["content"]] == ["tool_use", "text", "text"]
