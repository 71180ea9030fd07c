"""Responses of Chat Completions: the client sees one sound message, the provider's turns are kept exactly."""

import json
from typing import Any

import pytest

from penumbra import rules
from penumbra.apis.base import Failure, InjectedCall
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from penumbra.wire.document import Document
from support.streams.drive import chunks, drive, every_cut

PHANTOM = "expand_context"
DONE = b"data: [DONE]\n\n"


def stream() -> Response:
    return FORMATS["openai_chat"].stream(PHANTOM)


def chunk(number: int = 0, reason: str | None = None, usage: Any = None, **delta: Any) -> bytes:
    value = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000 + number,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
    }
    if usage:
        value["usage"] = usage
    return f"data: {json.dumps(value)}\n\n".encode()


def usage_chunk(number: int, prompt: int, completion: int) -> bytes:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    value = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [],
        "usage": usage,
    }
    return f"data: {json.dumps(value)}\n\n".encode()


def fragment(index: int, arguments: str | None = None, **members: Any) -> dict[str, Any]:
    function = {"name": members.pop("name", None), "arguments": arguments}
    return {"index": index, **members, "function": {k: v for k, v in function.items() if v is not None}}


FIRST = (
    chunk(0, role="assistant", content="")
    + b": OPENROUTER PROCESSING\n\n"
    + chunk(0, reasoning_content="hm")
    + chunk(0, content="Let me ")
    + chunk(0, content="see.")
    + chunk(0, tool_calls=[fragment(0, "", id="call_p0", type="function", name=PHANTOM)])
    + chunk(0, tool_calls=[fragment(0, '{"id": "sha')])
    + chunk(0, tool_calls=[fragment(0, 'dow_0"}')])
    + chunk(0, reason="tool_calls")
    + usage_chunk(0, 100, 20)
    + DONE
)


def values(data: bytes) -> list[dict[str, Any]]:
    parts = [part for part in data.split(b"\n\n") if part.startswith(b"data: {")]
    return [json.loads(part.removeprefix(b"data: ")) for part in parts]


def sdk_message(data: bytes) -> dict[str, Any]:
    """Return the message that OpenAI's SDK assembles from a stream."""
    # This import is slow.
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    state = ChatCompletionStreamState()
    for value in values(data):
        state.handle_chunk(ChatCompletionChunk.model_validate(value))
    return json.loads(state.get_final_completion().to_json())


def test_members_of_compatible_apis_come_back() -> None:
    signature = {"google": {"thought_signature": "S"}}
    data = (
        chunk(0, role="assistant", content=[{"type": "text", "text": "a"}])
        + chunk(0, reasoning_details=[{"index": 0, "type": "reasoning.text", "text": "x", "format": "f"}])
        + chunk(0, reasoning_details=[{"index": 0, "type": "reasoning.text", "text": "y", "format": "f"}])
        + chunk(0, reasoning_details=[{"index": 1, "type": "reasoning.encrypted", "data": "d"}])
        + chunk(0, refusal=None, annotations=[], content="b")
        + chunk(
            0,
            "tool_calls",
            tool_calls=[fragment(0, "{}", id="p", type="function", name=PHANTOM, extra_content=signature)],
        )
        + DONE
    )
    out, (turn,) = every_cut(stream, [data])
    assert turn.message is not None
    message = json.loads(turn.message)
    assert message["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert message["reasoning_details"] == [
        {"index": 0, "type": "reasoning.text", "text": "xy", "format": "f"},
        {"index": 1, "type": "reasoning.encrypted", "data": "d"},
    ]
    assert message["tool_calls"][0]["extra_content"] == signature
    assert "annotations" not in message
    assert turn.text == "ab"
    assert values(out)[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_name_in_pieces_is_waited_for() -> None:
    def named(*pieces: str) -> bytes:
        out = chunk(0, role="assistant", content=None)
        out += chunk(0, tool_calls=[fragment(0, None, id="c", type="function", name=pieces[0])])
        for piece in pieces[1:]:
            out += chunk(0, tool_calls=[fragment(0, None, name=piece)])
        return out + chunk(0, tool_calls=[fragment(0, "{}")]) + chunk(0, reason="tool_calls") + DONE

    out, (turn,) = every_cut(stream, [named("expand", "_con", "text")])
    assert b"expand" not in out
    assert turn.injected == (InjectedCall("c", "{}"),)
    for pieces in (("expand", "_it"), ("expand",), ("expand_context", "_more")):
        out, (turn,) = every_cut(stream, [named(*pieces)])
        assert turn.injected == ()
        (call,) = sdk_message(out)["choices"][0]["message"]["tool_calls"]
        assert (call["function"]["name"], call["function"]["arguments"]) == ("".join(pieces), "{}")


@pytest.mark.parametrize("ids", ["pr", "cc"], ids=["two ids", "one id"])
@pytest.mark.parametrize("indexes", [(), (0, 1), (0, 0)], ids=["no index", "two indexes", "one index"])
def test_two_calls_however_they_are_numbered(ids: str, indexes: tuple[int, ...]) -> None:
    calls: list[dict[str, Any]] = [
        {"id": id_, "function": {"name": name, "arguments": "{}"}}
        for id_, name in zip(ids, (PHANTOM, "bash"), strict=True)
    ]
    for call, index in zip(calls, indexes, strict=False):
        call["index"] = index
    data = chunk(0, role="assistant", content="", tool_calls=calls) + chunk(0, reason="tool_calls") + DONE
    out, (turn,) = every_cut(stream, [data])
    assert ([call.id for call in turn.injected], turn.real_calls) == ([ids[0]], (ids[1],))
    assert PHANTOM.encode() not in out
    assert b'"bash"' in out
    assert turn.message is not None
    made = [(call["id"], call["function"]["name"]) for call in json.loads(turn.message)["tool_calls"]]
    assert made == [(ids[0], PHANTOM), (ids[1], "bash")]
    real = data.replace(PHANTOM.encode(), b"read")
    assert every_cut(stream, [real])[0] == real


@pytest.mark.parametrize("name", [PHANTOM, "bash"])
@pytest.mark.parametrize(
    "pieces", [['{"id":"a"}'], ["", '{"id":', '"a"}'], ['{"x":{}', ',"id":"a"}']], ids=len
)
def test_two_calls_with_one_id_index_and_name(pieces: list[str], name: str) -> None:
    fragments = [fragment(0, piece, id="c", type="function", name=name) for piece in pieces]
    again = fragment(0, '{"id":"b"}', id="c", type="function", name=name)
    data = b"".join(chunk(0, tool_calls=[one]) for one in (*fragments, again))
    out, (turn,) = every_cut(stream, [data + chunk(0, reason="tool_calls") + DONE])
    assert turn.message is not None
    made = [
        json.loads(call["function"]["arguments"])["id"] for call in json.loads(turn.message)["tool_calls"]
    ]
    assert made == ["a", "b"]
    assert (len(turn.injected), len(turn.real_calls)) == ((2, 0) if name == PHANTOM else (0, 2))
    assert PHANTOM.encode() not in out


def test_everything_in_one_chunk() -> None:
    calls = [fragment(0, "{}", id="p", type="function", name=PHANTOM)]
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    data = chunk(0, "tool_calls", usage, role="assistant", content="One.", tool_calls=calls) + DONE
    last = chunk(1, "stop", usage, role="assistant", content="Two.") + DONE
    out, _ = every_cut(stream, [data, last])
    completion = sdk_message(out)
    assert completion["choices"][0]["message"]["content"] == "One.\n\nTwo."
    assert completion["choices"][0]["finish_reason"] == "stop"
    assert completion["usage"]["completion_tokens"] == 4
    assert [value["choices"][0]["finish_reason"] for value in values(out)] == [None, "stop"]


def test_custom_calls_of_the_tool_are_hidden_and_other_ones_are_known_by_their_input() -> None:
    for name, piece in ((PHANTOM, ""), (PHANTOM, PHANTOM[6:]), ("patch", "")):
        first = {"name": name.removesuffix(piece), "input": "shad"}
        begun = {"index": 0, "id": "c", "type": "custom", "custom": first}
        rest = {"index": 0, "custom": {"name": piece, "input": "ow_0"} if piece else {"input": "ow_0"}}
        data = b"".join(chunk(0, tool_calls=[one]) for one in (begun, rest)) + chunk(0, "tool_calls") + DONE
        out, (turn,) = every_cut(stream, [data])
        assert turn.injected == ((InjectedCall("c", "shadow_0"),) if name == PHANTOM else ())
        assert (b"custom" in out, out == data) == (name == "patch", name == "patch")
        call = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "shadow_0"}}
        request = Document(json.dumps({"messages": [{"role": "assistant", "tool_calls": [call]}]}).encode())
        (visible,) = FORMATS["openai_chat"].visible(request)
        assert turn.tokens == (() if name == PHANTOM else visible.tokens)


def test_several_choices_are_not_continued() -> None:
    other = chunk(0, content="x").replace(b'"index": 0', b'"index": 1')
    _, (turn,) = drive(stream(), [other + FIRST], lambda data: chunks(data, 50))
    assert turn.injected
    assert not turn.continuable


def test_each_text_of_an_event_with_several_texts_is_read() -> None:
    first = chunk(0, content="a")
    for more in (b'{"index": 1, "delta": {"content": "b"}}, ', b'{"delta": {"content": "b"}}, {}, '):
        for event in (first.replace(b"[", b"[" + more), first.replace(b"}]", b"}, " + more[:-2] + b"]")):
            data = event.replace(b": ", b":").replace(b"data:", b"data: ")
            together, (turn,) = drive(stream(), [data * 4], lambda data: chunks(data, 50))
            assert (together, sorted(turn.text)) == (data * 4, sorted("ab" * 4))


def test_an_event_with_many_choices_is_read_in_linear_time() -> None:
    choices = b",".join([b'{"delta":{"content":"abcdefgh"}}'] * 20_000)
    data = b'data: {"choices":[' + choices + b"]} \n\n"
    assert drive(stream(), [data], lambda data: chunks(data, 1 << 20))[0] == data


def test_malformed_arguments() -> None:
    calls = [fragment(0, '{"id": "sha', id="p", type="function", name=PHANTOM)]
    data = chunk(0, role="assistant", tool_calls=calls) + chunk(0, reason="length") + DONE
    _, (turn,) = every_cut(stream, [data])
    assert turn.injected == (InjectedCall("p", '{"id": "sha'),)
    assert turn.message is not None
    assert json.loads(turn.message)["tool_calls"][0]["function"]["arguments"] == "{}"


def test_errors() -> None:
    own = {"error": {"message": "Overloaded", "type": "overloaded", "code": 529}}
    told = {"error": {"message": "x", "type": "overloaded", "param": None, "code": 529}}
    answer = stream()
    answer.feed(FIRST)
    assert values(answer.fail(Failure(529, json.dumps(own).encode(), "x", reported=True))) == [told]
    assert answer.fail(Failure(None, b"", "connection lost")) == b""
    error = f"data: {json.dumps(own)}\n\n".encode()
    out, (_, turn) = every_cut(stream, [FIRST, chunk(1, role="assistant") + error + DONE])
    assert error not in out
    assert DONE not in out
    assert turn.failed
    assert turn.failure is not None
    out, (turn,) = every_cut(stream, [FIRST + error])
    assert out.endswith(error)


@pytest.mark.parametrize(
    "odd",
    [
        b"data: 7\n\n",
        b"data: {\n\n",
        b'data: {"choices":7}\n\n',
        b'data: {"choices":[7,{},{"delta":7},{"delta":{"tool_calls":7}}]}\n\n',
        b'data: {"choices":[{"delta":{"tool_calls":[7,{},{"function":7}]}}]}\n\n',
        b'data: {"usage":7}\n\n',
    ],
)
def test_odd_events_pass(odd: bytes) -> None:
    out, (turn,) = every_cut(stream, [odd + chunk(0, "stop", content="x") + DONE])
    assert out.startswith(odd[:14])
    assert values(out[out.rindex(b"data: {") :])[-1]["choices"][0]["delta"]["content"] == "x"
    assert turn.finished


def test_an_odd_end_of_a_hidden_turn_is_passed_over() -> None:
    odd = b'data: {"choices":[{"index":0,"delta":"x","finish_reason":"tool_calls"}]}\n\n'
    asking = FIRST.replace(chunk(0, reason="tool_calls"), odd)
    out, (first, last) = every_cut(stream, [asking, chunk(1, "stop", content="y") + DONE])
    assert PHANTOM.encode() not in out
    assert (len(first.injected), last.finished) == (1, True)


def completion(message: dict[str, Any], reason: str) -> bytes:
    body = {
        "id": "c",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    }
    return json.dumps(body, indent=1).encode()


def function(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def body() -> Response:
    return FORMATS["openai_chat"].body(PHANTOM)


def test_texts_of_documents_are_joined_by_an_empty_line() -> None:
    asked = completion({"content": "one", "tool_calls": [function("p", PHANTOM, "{}")]}, "tool_calls")
    out, _ = every_cut(body, [asked, completion({"content": "two"}, "stop")])
    assert json.loads(out)["choices"][0]["message"]["content"] == "one\n\ntwo"


@pytest.mark.parametrize("index", [b"0", b"[]", b"{}"])
def test_json_with_malformed_arguments(index: bytes) -> None:
    data = completion({"content": None, "tool_calls": [function("p", PHANTOM, '{"id')]}, "tool_calls")
    data = data.replace(b'"index": 0', b'"index": ' + index)
    _, (turn,) = drive(body(), [data], lambda data: chunks(data, 10))
    assert turn.injected == (InjectedCall("p", '{"id'),)
    assert turn.message is not None
    assert json.loads(turn.message)["tool_calls"][0]["function"]["arguments"] == "{}"


def test_one_message_in_two_choices_and_text_where_the_last_turn_has_none() -> None:
    """Some providers write the text and the calls of a message as two choices. Others write no text with
    calls."""

    def asking(text: str, **function: str) -> bytes:
        said: dict[str, Any] = {
            "message": {"role": "assistant", "content": text},
            "finish_reason": "tool_calls",
        }
        call = {"id": f"call_{text}", "type": "function", "function": function}
        called = {"message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"}
        return json.dumps({"choices": [said, called] if text else [called]}).encode()

    answer = FORMATS["openai_chat"].body(PHANTOM)
    answer.feed(asking("Hm.", name=PHANTOM, arguments="{}"))
    turn = answer.end_turn()
    assert turn.continuable
    message = json.loads(turn.message or b"")
    assert (message["content"], message["tool_calls"][0]["id"]) == ("Hm.", "call_Hm.")
    answer.go_on()
    answer.feed(asking("", name="run", arguments="{}"))
    assert answer.end_turn().real_calls == ("call_",)
    (choice,) = json.loads(answer.finish())["choices"]
    assert choice["message"]["content"] == "Hm."
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "run"


# Deviations of compatible APIs: every example of the rule file is read as a response.

DEVIATIONS = rules.load("providers.yaml")["deviations"]


@pytest.mark.parametrize(
    "example", DEVIATIONS, ids=lambda example: f"{example['provider']}: {example['what']}"
)
def test_every_deviation(example: dict[str, Any]) -> None:
    response = FORMATS["openai_chat"].body("expand_context")
    data = example["response"].encode()
    response.feed(data)
    turn = response.end_turn()
    expected = example["is"]
    assert turn.text == expected["text"]
    assert list(turn.real_calls) == expected["calls"]
    assert (turn.finished, turn.continuable) == (expected["finished"], expected["continuable"])
    for name in expected["returned"]:
        assert f'"{name}"'.encode() in (turn.message or b"")
    assert response.finish() == data
