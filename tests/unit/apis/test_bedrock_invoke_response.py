"""Responses of InvokeModel with Anthropic's models, in Bedrock's framing."""

import base64
import json
from typing import Any

from botocore.eventstream import EventStreamBuffer

from penumbra.apis.base import Failure
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from support.streams import anthropic_streams as anthropic
from support.streams.bedrock_streams import METRICS, PHANTOM, chunk, chunked
from support.streams.drive import byte_by_byte
from support.upstream.amazon import event

FIRST, SECOND = chunked(anthropic.FIRST, 7), chunked(anthropic.SECOND, 5)


def stream() -> Response:
    return FORMATS["bedrock_invoke"].stream(PHANTOM)


def body() -> Response:
    return FORMATS["bedrock_invoke"].body(PHANTOM)


def events(data: bytes) -> list[dict[str, Any]]:
    """Return the events that Anthropic's SDK reads in a stream."""
    from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder  # This import is slow.

    return [json.loads(one.data) for one in AWSEventStreamDecoder().iter_bytes(iter([data]))]


def test_a_stream_without_the_phantom_is_not_touched() -> None:
    odd = event("chunk", {"p": "x"}) + event("chunk", {"bytes": "no base64"}) + event("chunk", "x")
    for data in (SECOND, chunk(b"no json") + SECOND + event("new", {}), odd + SECOND, b"no stream at all"):
        out, turns = byte_by_byte(stream, [data])
        assert out == data
        assert turns[0].injected == ()


def test_two_turns_are_one_message() -> None:
    out, (first, second) = byte_by_byte(stream, [FIRST, SECOND])
    assert base64.b64encode(PHANTOM.encode()) not in out
    found = events(out)
    assert PHANTOM not in json.dumps(found)
    kinds = [one["type"] for one in found]
    assert [kinds.count(f"message_{name}") for name in ("start", "delta", "stop")] == [1, 1, 1]
    assert [one["index"] for one in found if one["type"] == "content_block_start"] == [0, 1, 2, 3, 4]
    assert found[-2]["usage"] == {"output_tokens": 12, "input_tokens": 40, "cache_read_input_tokens": 60}
    assert found[-1][METRICS] == {
        "inputTokenCount": 100,
        "outputTokenCount": 12,
        "invocationLatency": 18,
        "firstByteLatency": 4,
    }
    assert [len(first.injected), second.real_calls] == [1, ("toolu_r1",)]
    # Numbers are changed. The padding, which hides the length of the message, stays.
    buffer = EventStreamBuffer()
    buffer.add_data(out)
    assert {json.loads(one.payload)["p"] for one in buffer} == {"abcdefg"}


def test_errors_within_a_stream() -> None:
    for broken in (
        event("modelTimeoutException", {"message": "late"}),
        chunk({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
    ):
        out, (turn,) = byte_by_byte(stream, [FIRST + broken])
        assert out.endswith(broken)
        assert turn.failed
        answer = stream()
        answer.feed(broken)
        assert answer.fail(Failure(500, b"", "x", reported=True)) == b""
    buffer = EventStreamBuffer()
    buffer.add_data(stream().fail(Failure(503, b'{"message":"busy"}', "x", reported=True)))
    (one,) = buffer
    assert one.headers[":exception-type"] == "serviceUnavailableException"
    assert json.loads(one.payload) == {"message": "x"}
    assert stream().keep_alive == b""


def test_documents_are_anthropics_and_errors_are_not() -> None:
    use = {"type": "tool_use", "id": "p", "name": PHANTOM, "input": {}}
    first = {"type": "message", "content": [use], "stop_reason": "tool_use", "usage": {"output_tokens": 3}}
    last = {**first, "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}
    out, _ = byte_by_byte(body, [json.dumps(first).encode(), json.dumps(last).encode()])
    assert json.loads(out) == {**last, "usage": {"output_tokens": 6}}
    assert json.loads(body().fail(Failure(400, b"", "lost"))) == {
        "__type": "InternalServerException",
        "message": "lost",
    }
