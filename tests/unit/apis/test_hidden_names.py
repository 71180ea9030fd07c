"""Every part of a response that names a hidden call is removed, in every API."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from penumbra.apis.formats import FORMATS
from support.streams import anthropic_streams as anthropic
from support.streams import bedrock_streams as bedrock
from support.streams import responses_streams as responses
from support.streams.drive import chunks, drive, every_cut
from support.upstream.amazon import event

PHANTOM = "expand_context"
HIDDEN, REAL = "toolu_hidden_0", "toolu_real_1"
VERDICTS: dict[str, Any] = {
    "by_key": {HIDDEN: {"verdict": 1.50}, REAL: {"verdict": 12345678901234567890123}},
    "by_member": [{"id": HIDDEN, "why": "x"}, {"id": REAL, "why": "y"}],
    "by_item": [HIDDEN, REAL],
    "by_value": {"last": HIDDEN, "first": REAL},
    "inside": [[{"deep": {HIDDEN: 1}, "id": REAL}]],
}
LEFT: dict[str, Any] = {
    "by_key": {REAL: {"verdict": 12345678901234567890123}},
    "by_member": [{"id": REAL, "why": "y"}],
    "by_item": [REAL],
    "by_value": {"first": REAL},
    "inside": [[{"deep": {}, "id": REAL}]],
}
NEXT = {"verdicts": VERDICTS}


@dataclass(frozen=True)
class Case:
    """A turn that calls the injected tool and another tool, and names both calls in other parts."""

    format: str
    data: bytes
    is_document: bool = False


def _sse(*values: Any) -> bytes:
    return b"".join(f"data: {json.dumps(value)}\n\n".encode() for value in values)


def _anthropic() -> bytes:
    return (
        anthropic.start()
        + anthropic.call(0, PHANTOM, HIDDEN, "{}")
        + anthropic.call(1, "Bash", REAL, "{}")
        + anthropic.event("verdicts", **NEXT)
        + anthropic.event("message_delta", delta={"stop_reason": "tool_use", **NEXT}, usage={})
        + anthropic.event("message_stop")
    )


def _function(call_id: str, name: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


CALLS = ((HIDDEN, PHANTOM), (REAL, "Bash"))


def _message(**more: Any) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": id_, "name": name, "input": {}} for id_, name in CALLS]
    return {"type": "message", "id": "msg_0", "content": blocks, "stop_reason": "tool_use", **more}


def _chat() -> bytes:
    calls = [{"index": at, **_function(*call)} for at, call in enumerate(CALLS)]
    deltas = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], **NEXT}
    return _sse(*deltas, {"choices": [], **NEXT}, end) + b"data: [DONE]\n\n"


def _chat_document() -> dict[str, Any]:
    message = {"role": "assistant", "tool_calls": [_function(*call) for call in CALLS]}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], **NEXT}


def _items() -> list[dict[str, Any]]:
    return [{**responses.call(at, name), "call_id": id_} for at, (id_, name) in enumerate(CALLS)]


def _responses() -> bytes:
    head, end = responses.stream(0, *_items()).split(b"event: response.completed", 1)
    value = json.loads(end.split(b"data: ", 1)[1])
    return head + b"".join(
        responses.written(one["type"], one)
        for one in ({"type": "verdicts", **NEXT}, {**value, "response": {**value["response"], **NEXT}})
    )


def _frames() -> list[bytes]:
    return [json.dumps(value).encode() for value in responses.values(_responses())]


def _gemini(**more: Any) -> dict[str, Any]:
    parts = [{"functionCall": {"id": id_, "name": name, "args": {}}} for id_, name in CALLS]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, **more}]}


def _ollama(**more: Any) -> dict[str, Any]:
    calls = [{"id": id_, "function": {"name": name, "arguments": {}}} for id_, name in CALLS]
    return {"model": "m", "message": {"role": "assistant", "content": "", "tool_calls": calls}, **more}


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


CASES = [
    Case("anthropic", _anthropic()),
    Case("anthropic", json.dumps(_message(**NEXT)).encode(), is_document=True),
    Case("bedrock_invoke", bedrock.chunked(_anthropic(), 1)),
    Case("bedrock_invoke", json.dumps(_message(**NEXT)).encode(), is_document=True),
    Case(
        "bedrock",
        bedrock.start()
        + bedrock.call(0, PHANTOM, HIDDEN, "{}")
        + bedrock.call(1, "Bash", REAL, "{}")
        + event("verdicts", NEXT)
        + bedrock.end("tool_use", 1, **NEXT),
    ),
    Case("openai_chat", _chat()),
    Case("openai_chat", json.dumps(_chat_document()).encode(), is_document=True),
    Case("openai_responses", _responses()),
    Case(
        "openai_responses", json.dumps({**responses.response(0, _items()), **NEXT}).encode(), is_document=True
    ),
    Case("gemini", _sse(_gemini(), {**_gemini(finishReason="STOP"), "candidates": [{}], **NEXT})),
    Case("gemini", json.dumps({**_gemini(finishReason="STOP"), **NEXT}).encode(), is_document=True),
    Case("ollama", _line(_ollama(done=False)) + _line({"message": {}, "done": True, **NEXT})),
    Case("ollama", json.dumps({**_ollama(done=True), **NEXT}).encode(), is_document=True),
]
every_case = pytest.mark.parametrize(
    "case", CASES, ids=[f"{case.format}-{'json' if case.is_document else 'stream'}" for case in CASES]
)


def _verdicts(value: Any) -> list[Any]:
    """Return all parts of a value that name calls, at any depth."""
    if isinstance(value, list):
        return [found for item in value for found in _verdicts(item)]
    if not isinstance(value, dict):
        return []
    inner = [found for one in value.values() for found in _verdicts(one)]
    return ([value["verdicts"]] if "verdicts" in value else []) + inner


def _values(case: Case, data: bytes) -> list[Any]:
    """Return the JSON that the client reads."""
    if case.is_document:
        return [json.loads(data)]
    if case.format.startswith("bedrock"):
        from botocore.eventstream import EventStreamBuffer

        buffer = EventStreamBuffer()
        buffer.add_data(data)
        payloads = [json.loads(message.payload) for message in buffer]
        import base64

        return [json.loads(base64.b64decode(one["bytes"])) if "bytes" in one else one for one in payloads]
    lines = [line.removeprefix(b"data: ") for line in data.split(b"\n")]
    return [json.loads(line) for line in lines if line.startswith(b"{")]


@every_case
def test_no_part_of_a_response_names_a_hidden_call(case: Case) -> None:
    wire = FORMATS[case.format]
    make = partial(wire.body if case.is_document else wire.stream, PHANTOM)
    out, (turn,) = every_cut(make, [case.data])
    values = _values(case, out)
    assert HIDDEN not in json.dumps(values)
    found = _verdicts(values)
    assert found
    assert all(verdicts == LEFT for verdicts in found)
    assert REAL in turn.real_calls
    assert [name for call in turn.injected for name in call.names].count(HIDDEN) == 1
    # The real call keeps its id.
    assert json.dumps(values).count(REAL) > json.dumps(found).count(REAL)


def test_frames_of_a_socket_name_no_hidden_call() -> None:
    stream = FORMATS["openai_responses_socket"].stream(PHANTOM)
    out = [shown for frame in _frames() if (shown := stream.feed(frame))]
    stream.end_turn()
    out.append(stream.finish())
    found = _verdicts([json.loads(frame) for frame in out if frame])
    assert HIDDEN.encode() not in b"".join(out)
    assert found == [LEFT, LEFT]


@every_case
def test_a_response_without_a_hidden_call_is_not_changed(case: Case) -> None:
    """Without a call of the injected tool, the client gets the provider's bytes."""
    wire = FORMATS[case.format]
    make = partial(wire.body if case.is_document else wire.stream, "another_tool")
    assert drive(make(), [case.data], lambda data: chunks(data, 50))[0] == case.data


def test_an_id_that_a_visible_call_has_too_stays() -> None:
    """Some servers number the calls of each turn from 0."""
    first = anthropic.start() + anthropic.call(0, PHANTOM, "call_0", "{}") + anthropic.end("tool_use", 1)
    second = anthropic.start(1) + anthropic.call(0, "Bash", "call_0", "{}") + anthropic.end("tool_use", 1)
    out, _ = every_cut(partial(FORMATS["anthropic"].stream, PHANTOM), [first, second])
    assert b'"id": "call_0"' in out


def test_later_turns_name_no_call_of_a_hidden_one() -> None:
    first = anthropic.start() + anthropic.call(0, PHANTOM, HIDDEN, "{}") + anthropic.end("tool_use", 1)
    second = anthropic.start(1) + anthropic.call(0, "Bash", REAL, "{}")
    second += anthropic.event("verdicts", **NEXT) + anthropic.end("tool_use", 1)
    out, _ = every_cut(partial(FORMATS["anthropic"].stream, PHANTOM), [first, second])
    assert HIDDEN.encode() not in out
