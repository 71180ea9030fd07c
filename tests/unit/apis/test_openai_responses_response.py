"""Responses of the Responses API: the client sees one sound response, the provider's turns are kept
exactly."""

import json
from dataclasses import replace
from typing import Any

import pytest

from penumbra.apis import upstream_error
from penumbra.apis.base import Failure, InjectedCall
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from support.cuts import places
from support.streams.drive import byte_by_byte, chunks, drive
from support.streams.responses_streams import (
    PHANTOM,
    call,
    custom,
    injected_tool,
    message,
    reasoning,
    response,
    sdk_response,
    stream,
    values,
    written,
)


def sdk_accepts(answer: Any) -> None:
    """Raise an exception if OpenAI's SDK refuses a response."""
    from openai.types.responses import Response  # This import is slow.

    Response.model_validate(answer)


def made() -> Response:
    return FORMATS["openai_responses"].stream(PHANTOM)


def without_tools(data: bytes) -> bytes:
    """Return the stream without the injected tool, as for the client's own request."""
    for value in values(data):
        if tools := value.get("response", {}).get("tools"):
            old = json.dumps(tools, ensure_ascii=False).encode()
            new = json.dumps([tool for tool in tools if tool["name"] != PHANTOM]).encode()
            data = data.replace(old, new)
    return data


ASKING = stream(0, reasoning(0), message(1, "Let me see."), injected_tool(2))
ANSWERING = stream(1, reasoning(10), message(11, "It fails."), call(12), custom(13))


def test_only_the_echoed_tools_of_a_plain_stream_change() -> None:
    odd = b": a comment\n\n" + ANSWERING + written("response.fancy", {"type": "response.fancy", "x": 1})
    for data in (ANSWERING, odd, b"data: no json\n\n" + ANSWERING):
        out, (turn,) = byte_by_byte(made, [data])
        assert out == without_tools(data)
        assert PHANTOM.encode() not in out
        assert turn.finished
    assert turn.real_calls == ("call_12", "call_13")
    bare = ANSWERING.replace(PHANTOM.encode(), b"read")
    assert byte_by_byte(made, [bare])[0] == bare
    crlf = bare.replace(b"\n", b"\r\n")
    assert byte_by_byte(made, [crlf])[0] == crlf


def test_two_turns_are_one_answer() -> None:
    out, (first, second) = byte_by_byte(made, [ASKING, ANSWERING])
    assert PHANTOM.encode() not in out
    answer = sdk_response(out)
    assert [item["id"] for item in answer["output"]] == [
        *("rs_0", "msg_1", "rs_10", "msg_11", "fc_12", "ctc_13"),
    ]
    assert answer["id"] == "resp_0"
    assert answer["usage"]["input_tokens"] == 200
    assert answer["usage"]["output_tokens"] == 30
    assert answer["usage"]["total_tokens"] == 230
    assert answer["usage"]["output_tokens_details"] == {"reasoning_tokens": 6}
    assert answer["usage"]["input_tokens_details"] == {"cached_tokens": 5, "cache_write_tokens": 0}
    assert [value["type"] for value in values(out)].count("response.created") == 1
    sdk_accepts(answer)
    assert first.injected == (InjectedCall("call_2", '{"id":"shadow_é"}', ("fc_2",), "function_call"),)
    assert (first.text, first.real_calls, first.signatures) == ("Let me see.", (), ("gAAA0",))
    assert (second.text, second.real_calls) == ("It fails.", ("call_12", "call_13"))
    assert first.usage["output_tokens"] == 10
    assert (first.response_id, second.response_id) == ("resp_0", "resp_1")


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "document"])
@pytest.mark.parametrize("kind", ["custom_tool_call", "computer_call", "mcp_call"])
def test_a_call_of_another_type_is_hidden_and_answered(kind: str, is_stream: bool) -> None:
    """Some servers write a call of a declared function as a call of another type."""
    asked = {**custom(1), "type": kind, "name": PHANTOM, "input": "shadow_1", "arguments": "shadow_1"}
    items = message(0, "See."), asked
    format_ = FORMATS["openai_responses"]
    turns = [stream(0, *items), ANSWERING] if is_stream else [document(0, *items), document(1, call(12))]
    out, (first, _) = byte_by_byte(made if is_stream else lambda: format_.body(PHANTOM), turns)
    assert PHANTOM.encode() not in out
    (found,) = first.injected
    assert (found.id, found.arguments) == ("call_1", "shadow_1")
    answered = json.loads(format_.result(found, "x"))
    assert answered == {"type": f"{kind}_output", "call_id": "call_1", "output": "x"}
    # A call of the client's MCP server names this server, and reaches the client, as does a text with a name.
    for item in ({**asked, "server_label": "notes"}, {**message(0, "See."), "name": PHANTOM}):
        own = document(0, item, tools=[])
        assert byte_by_byte(lambda: format_.body(PHANTOM), [own])[0] == own


def test_the_turn_is_kept_as_the_model_wrote_it() -> None:
    _, (turn,) = byte_by_byte(made, [ASKING])
    assert turn.message is not None
    assert json.loads(b"[" + turn.message + b"]") == [
        reasoning(0),
        message(1, "Let me see."),
        injected_tool(2),
    ]
    written_as = json.dumps(reasoning(0), ensure_ascii=False).encode()
    assert written_as in turn.message


def test_servers_that_leave_the_items_out_of_the_last_event() -> None:
    asking = stream(0, message(1, "See."), injected_tool(2), output=False)
    out, (turn, _) = byte_by_byte(made, [asking, stream(1, message(3, "Done."), output=False)])
    assert values(out)[-1]["response"]["output"] == []
    assert turn.message is not None
    assert [item["id"] for item in json.loads(b"[" + turn.message + b"]")] == ["msg_1", "fc_2"]


def test_servers_that_report_only_the_ends_of_items() -> None:
    asking = b"\n\n".join(event for event in ASKING.split(b"\n\n") if b"output_item.added" not in event)
    out, (turn,) = byte_by_byte(made, [asking])
    assert len(turn.injected) == 1
    assert PHANTOM.encode() not in out


def test_hidden_calls_leave_no_gap_in_the_indexes() -> None:
    asked = stream(0, injected_tool(1), message(2, "Also."), injected_tool(3), call(4))
    out, _ = byte_by_byte(made, [asked])
    added = [event for event in values(out) if event["type"] == "response.output_item.added"]
    assert [(event["output_index"], event["item"]["id"]) for event in added] == [(0, "msg_2"), (1, "fc_4")]


def test_servers_that_name_items_only_by_their_ids() -> None:
    turns = []
    for turn in (ASKING, ANSWERING):
        events = values(turn)
        for event in events:
            event.pop("output_index", None)
        turns.append(b"".join(written(event["type"], event) for event in events))
    out, (first, second) = byte_by_byte(made, turns)
    assert PHANTOM.encode() not in out
    assert (len(first.injected), first.text, len(second.real_calls)) == (1, "Let me see.", 2)
    shown = [event["item"]["id"] for event in values(out) if event["type"] == "response.output_item.done"]
    assert shown == [item["id"] for item in values(out)[-1]["response"]["output"]]


def test_an_event_without_an_index_belongs_to_the_item_that_it_names() -> None:
    added = written("response.fancy", {"type": "response.fancy", "item_id": "msg_2"})
    hidden = written("response.fancy", {"type": "response.fancy", "item_id": "fc_1", "name": PHANTOM})
    asked = stream(0, injected_tool(1), message(2, "Both."))
    at = asked.index(b"event: response.output_text.delta")
    out, _ = byte_by_byte(made, [asked[:at] + added + hidden + asked[at:]])
    assert added in out
    assert PHANTOM.encode() not in out


def test_an_event_of_a_new_type_names_no_injected_tool() -> None:
    paused = {"type": "response.paused", "response": response(0, [injected_tool(2)], "paused")}
    out, _ = byte_by_byte(
        made, [ASKING[: ASKING.index(b"event: response.completed")] + written("response.paused", paused)]
    )
    assert PHANTOM.encode() not in out
    assert values(out)[-1]["type"] == "response.paused"


def test_an_incomplete_turn_is_not_continued() -> None:
    out, (turn,) = byte_by_byte(made, [stream(0, message(0, "Half"), injected_tool(1), status="incomplete")])
    assert turn.finished
    assert not turn.continuable
    assert [item["id"] for item in values(out)[-1]["response"]["output"]] == ["msg_0"]


@pytest.mark.parametrize(
    "event",
    [
        written(
            "error",
            {"type": "error", "code": "server_error", "message": "m", "param": None, "sequence_number": 9},
        ),
        written("error", {"type": "error", "error": {"message": "m"}}),
        written(
            "response.failed",
            {
                "type": "response.failed",
                "response": response(0, [injected_tool(2)], "failed"),
                "sequence_number": 9,
            },
        ),
        b'data: {"error":{"message":"m"}}\n\n',
    ],
)
def test_errors_of_the_provider_reach_the_client(event: bytes) -> None:
    data = ASKING[: ASKING.index(b"event: response.completed")] + event
    out, (turn,) = byte_by_byte(made, [data])
    assert turn.failed
    assert PHANTOM.encode() not in out
    assert b'"m"' in out or b"response.failed" in out
    answer = made()
    drive(answer, [data], lambda data: chunks(data, 100))
    assert answer.fail(Failure(500, b"", "again", reported=True)) == b""


def test_a_continuation_that_fails() -> None:
    provider = b'{"error":{"message":"Slow down.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}'
    for failure, code, text in (
        (Failure(429, provider, "x"), "rate_limit_exceeded", "x"),
        (Failure(None, provider, "x", 1.5), "rate_limit_exceeded", "x. Please try again in 1.5s."),
        (Failure(None, b"", "connection lost"), "server_error", "connection lost"),
        (Failure(500, b'{"error":"odd"}', "x"), "server_error", "x"),
        (Failure(400, f'{{"error":{{"code":"no_{PHANTOM}"}}}}'.encode(), "x"), "server_error", "x"),
    ):
        answer = made()
        out = answer.feed(ASKING)
        answer.end_turn()
        out += answer.go_on()
        assert answer.fail(failure) == b""
        out += answer.fail(replace(failure, reported=True))
        events = values(out)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        last = events[-1]
        assert last["type"] == "response.failed"
        assert last["response"]["error"] == {"code": code, "message": text}
        assert (last["response"]["status"], last["response"]["id"]) == ("failed", "resp_0")
        assert PHANTOM.encode() not in out
        sdk_accepts(last["response"])


# JSON


def document(number: int, *items: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(response(number, list(items), **more), ensure_ascii=False).encode()


def body(*turns: bytes) -> tuple[Any, Any]:
    out, seen = byte_by_byte(lambda: FORMATS["openai_responses"].body(PHANTOM), list(turns))
    return json.loads(out), seen


def test_a_plain_document_changes_in_its_tools_only() -> None:
    data = document(0, message(0, "é"), call(1))
    out, (turn,) = byte_by_byte(lambda: FORMATS["openai_responses"].body(PHANTOM), [data])
    assert out == data.replace(
        json.dumps(json.loads(data)["tools"]).encode(), json.dumps(json.loads(data)["tools"][:1]).encode()
    )
    assert (turn.real_calls, turn.text) == (("call_1",), "é")
    for plain in (document(0, message(0, "x"), tools=[]), b'{"error":{"message":"m"}}', b"no json"):
        assert byte_by_byte(lambda: FORMATS["openai_responses"].body(PHANTOM), [plain])[0] == plain


def test_as_many_shown_before_as_hidden_now() -> None:
    answer, _ = body(document(0, message(0, "a"), injected_tool(1)), document(1, call(2), injected_tool(3)))
    assert [item["id"] for item in answer["output"]] == ["msg_0", "fc_2"]


def test_a_document_in_the_background_is_not_finished() -> None:
    _, (turn,) = body(document(0, status="queued"))
    assert not turn.finished


def test_errors_of_documents() -> None:
    _, (turn,) = body(b'{"error":{"message":"m"}}')
    assert turn.failed
    answer = FORMATS["openai_responses"].body(PHANTOM)
    for status in (400, 500):
        assert json.loads(answer.fail(Failure(status, b'{"error":{"message":"m"}}', "x"))) == {
            "error": {"message": "x", "type": "server_error", "param": None, "code": None}
        }
    made_up = json.loads(answer.fail(Failure(None, b"", "lost")))
    assert made_up["error"] == {"message": "lost", "type": "server_error", "param": None, "code": None}


def test_an_answer_says_the_same_of_itself_to_its_end() -> None:
    """All events have the id, the time and the previous response of the first event, with the client's ids."""

    def named(number: int, *items: dict[str, Any], before: str) -> bytes:
        told = f'"object": "response", "previous_response_id": "{before}"'.encode()
        return stream(number, *items).replace(b'"object": "response"', told)

    turns = [named(0, injected_tool(1), before="resp_hidden"), named(1, message(2, "Done."), before="resp_0")]
    out, _ = byte_by_byte(lambda: FORMATS["openai_responses"].stream(PHANTOM, "resp_known"), turns)
    told = [event["response"] for event in values(out) if "response" in event]
    for name, value in (
        ("id", "resp_0"),
        ("previous_response_id", "resp_known"),
        ("created_at", 1_790_000_000),
    ):
        assert {one[name] for one in told} == {value}
    plain = named(0, message(2, "Done."), before="resp_known")
    out, _ = byte_by_byte(lambda: FORMATS["openai_responses"].stream(PHANTOM, "resp_known"), [plain])
    assert [event["response"]["id"] for event in values(out) if "response" in event] == ["resp_0", "resp_0"]
    answer, _ = byte_by_byte(
        lambda: FORMATS["openai_responses"].body(PHANTOM, "resp_known"),
        [document(0, message(0, "x"), previous_response_id="resp_hidden")],
    )
    assert json.loads(answer)["previous_response_id"] == "resp_known"


def test_an_error_of_a_continuation_is_kept_from_the_client() -> None:
    for error in (
        {"type": "error", "code": "server_error", "message": f"no {PHANTOM}"},
        {"type": "error", "status": 503, "error": {"message": f"no {PHANTOM}", "code": "slow_down"}},
        {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "no"}}},
    ):
        failing = stream(1, message(2, "Half."), status="incomplete")
        failing = failing[: failing.index(b"event: response.incomplete")] + written(error["type"], error)
        out, turns = byte_by_byte(made, [ASKING, failing])
        assert PHANTOM.encode() not in out
        assert b"server_error" not in out
        failure = turns[-1].failure
        assert failure is not None
        assert upstream_error.status(failure) in (500, 503)
        assert (
            upstream_error.words(failure).split()[-2 if "code" in error or "status" in error else -1] == "no"
        )


def test_reasoning_that_has_lost_what_it_led_to() -> None:
    items = (reasoning(0), message(1, "See."), reasoning(2), reasoning(3), injected_tool(4))
    _, (turn,) = byte_by_byte(made, [stream(0, *items)])
    assert turn.orphans == ("gAAA2", "rs_2", "gAAA3", "rs_3")
    whole = stream(0, *items, call(5), reasoning(6))
    cut = whole[: whole.index(b"event: response.completed")]
    for at in places(cut[:-1]):
        answer = made()
        answer.feed(cut[:at])
        turn = answer.end_turn()
        left = json.loads(b"[" + (turn.message or b"") + b"]")
        assert not left or left[-1]["type"] != "reasoning"
        assert PHANTOM not in str(left)
