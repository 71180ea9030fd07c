"""Responses of Converse: the client sees one sound message, the provider's turns are kept exactly."""

import base64
import json
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import EventStreamJSONParser

from penumbra.apis import upstream_error
from penumbra.apis.base import Failure, InjectedCall
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from penumbra.redaction import placeholder
from penumbra.redaction.placeholder import make
from support.streams.bedrock_streams import FIRST, PHANTOM, SECOND, call, delta, end, start, stop, text
from support.streams.drive import byte_by_byte, every_cut
from support.upstream.amazon import event

_MODEL = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def stream() -> Response:
    return FORMATS["bedrock"].stream(PHANTOM)


def body() -> Response:
    return FORMATS["bedrock"].body(PHANTOM)


def events(data: bytes) -> list[dict[str, Any]]:
    """Return the events that Amazon's SDK reads in a stream."""
    buffer, parser = EventStreamBuffer(), EventStreamJSONParser()
    buffer.add_data(data)
    shape = _MODEL.shape_for("ConverseStreamOutput")
    return [parser.parse(one.to_response_dict(), shape) for one in buffer]


def kinds(data: bytes) -> list[str]:
    return [next(iter(one)) for one in events(data)]


def blocks(data: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Return the number and the first event of each block, in order."""
    found: dict[int, dict[str, Any]] = {}
    for one in events(data):
        value = one.get("contentBlockStart", one.get("contentBlockDelta"))
        if value:
            found.setdefault(value["contentBlockIndex"], value.get("start") or value["delta"])
    return list(found.items())


def metadata(data: bytes) -> dict[str, Any]:
    (found,) = [one["metadata"] for one in events(data) if "metadata" in one]
    return dict(found)


def test_two_turns_are_one_message() -> None:
    out, (first, second) = every_cut(stream, [FIRST, SECOND])
    assert PHANTOM.encode() not in out
    assert [kinds(out).count(kind) for kind in ("messageStart", "messageStop", "metadata")] == [1, 1, 1]
    assert [number for number, _ in blocks(out)] == [0, 1, 2, 3, 4]
    assert blocks(out)[4][1] == {"toolUse": {"toolUseId": "tooluse_r1", "name": "Bash"}}
    assert events(out)[-2]["messageStop"]["stopReason"] == "tool_use"
    found = metadata(out)
    assert found["usage"] == {"inputTokens": 40, "outputTokens": 12, "totalTokens": 52}
    assert found["metrics"] == {"latencyMs": 120}
    assert first.injected == (InjectedCall("tooluse_p0", '{"id": "shadow_0"}'),)
    assert json.loads(first.message or b"") == {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "the log is short", "signature": "sig-0"}}},
            {"text": "Let me see all of it."},
            {"toolUse": {"toolUseId": "tooluse_p0", "name": PHANTOM, "input": {"id": "shadow_0"}}},
        ],
    }
    assert (first.continuable, second.text) == (True, "It fails in é.")


def test_padding_and_everything_else_in_an_event_stay() -> None:
    out, _ = byte_by_byte(stream, [FIRST, SECOND])
    assert delta(3, text="It fails ") in out
    assert stop(4) in out


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            delta(0, reasoningContent={"redactedContent": "QUJD"}),
            {"reasoningContent": {"redactedContent": "QUJD"}},
        ),
        (
            delta(0, reasoningContent={"redactedContent": "QUJDRA=="})
            + delta(0, reasoningContent={"redactedContent": "RUY="}),
            {"reasoningContent": {"redactedContent": base64.b64encode(b"ABCDEF").decode()}},
        ),
        (delta(0, reasoningContent={"text": "hm"}), {"reasoningContent": {"reasoningText": {"text": "hm"}}}),
        (
            delta(0, text="So it ") + delta(0, citation={"title": "A"}) + delta(0, text="is."),
            {"citationsContent": {"content": [{"text": "So it is."}], "citations": [{"title": "A"}]}},
        ),
        (
            call(0, "web", "s", '{"q":1}', type="server_tool_use"),
            {"toolUse": {"toolUseId": "s", "name": "web", "type": "server_tool_use", "input": {"q": 1}}},
        ),
        (
            event("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolResult": {"toolUseId": "s"}}})
            + delta(0, toolResult=[{"text": "a"}])
            + delta(0, toolResult=[{"json": {"b": 1}}]),
            {"toolResult": {"toolUseId": "s", "content": [{"text": "a"}, {"json": {"b": 1}}]}},
        ),
        (call(0, "Bash", "r", "[1]"), {"toolUse": {"toolUseId": "r", "name": "Bash", "input": {}}}),
        (text(0, " "), None),
    ],
    ids=["redacted", "redacted twice", "thinking", "citation", "server tool", "result", "odd input", "blank"],
)
def test_blocks_are_put_together(data: bytes, expected: Any) -> None:
    out, (turn,) = byte_by_byte(stream, [start() + data + text(1, "x") + end("end_turn", 1)])
    assert out == start() + data + text(1, "x") + end("end_turn", 1)
    content = json.loads(turn.message or b"")["content"]
    assert content == ([expected] if expected else []) + [{"text": "x"}]
    assert turn.real_calls == (("r",) if b"Bash" in data else ())


def test_turns_that_cannot_be_continued() -> None:
    image = event("contentBlockStart", {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}})
    asks = call(1, PHANTOM, "p", "{}")
    for data, continuable in (
        (start() + image + asks + end("tool_use", 1), False),
        (start() + delta(0, brandNew={}) + asks + end("tool_use", 1), False),
        (start() + asks + end("guardrail_intervened", 1), False),
        (start() + asks + end("tool_use", 1), True),
    ):
        _, (turn,) = byte_by_byte(stream, [data])
        assert turn.continuable is continuable
    _, (turn,) = byte_by_byte(stream, [start() + asks])
    assert not turn.finished


def test_errors_within_a_stream() -> None:
    broken = event("modelStreamErrorException", {"message": "it broke"})
    out, turns = byte_by_byte(stream, [FIRST, start() + text(0, "a") + broken])
    assert broken not in out
    assert turns[1].failed
    assert turns[1].failure is not None
    assert upstream_error.words(turns[1].failure) == "modelStreamErrorException it broke"
    out, (turn,) = byte_by_byte(stream, [FIRST + broken])
    assert out.endswith(broken)
    assert turn.failed
    for status, body, kind in (
        (429, b'{"message":"slow down"}', "throttlingException"),
        (400, b"<html>", "validationException"),
        (None, turns[1].failure.body, "modelStreamErrorException"),
        (None, b"", "internalServerException"),
    ):
        answer = stream()
        answer.feed(FIRST)
        answer.end_turn()
        answer.go_on()
        buffer = EventStreamBuffer()
        buffer.add_data(answer.fail(Failure(status, body, "lost", reported=True)))
        (one,) = buffer
        assert one.headers[":exception-type"] == kind
        parsed = EventStreamJSONParser().parse(
            one.to_response_dict(), _MODEL.shape_for("ConverseStreamOutput")
        )
        assert parsed["Error"] == {"Code": kind, "Message": "lost"}


def document(*content: Any, stop: str = "tool_use", output: int = 3) -> bytes:
    value = {
        "metrics": {"latencyMs": 10},
        "output": {"message": {"content": list(content), "role": "assistant"}},
        "stopReason": stop,
        "usage": {"inputTokens": 50, "outputTokens": output, "totalTokens": 50 + output, "x": [1.10]},
    }
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


ASKS = {"toolUse": {"input": {"id": "x"}, "name": PHANTOM, "toolUseId": "p"}}
REAL = {"toolUse": {"input": {"n": 1}, "name": "run", "toolUseId": "r"}}


def test_documents_become_one() -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "S"}}}
    cited = {"citationsContent": {"content": [{"text": "Done."}], "citations": []}}
    search = {"toolUse": {"toolUseId": "s", "name": "web", "input": {}, "type": "server_tool_use"}}
    out, (first, second) = byte_by_byte(
        body,
        [document(thought, {"text": " "}, {"text": "See."}, ASKS), document(cited, search, REAL, output=4)],
    )
    found = json.loads(out)
    assert found["output"]["message"]["content"] == [
        thought,
        {"text": " "},
        {"text": "See."},
        cited,
        search,
        REAL,
    ]
    assert found["stopReason"] == "tool_use"
    assert found["usage"] == {"inputTokens": 50, "outputTokens": 7, "totalTokens": 57, "x": [1.10]}
    assert found["metrics"] == {"latencyMs": 20}
    assert json.loads(first.message or b"")["content"] == [thought, {"text": "See."}, ASKS]
    assert (first.signatures, first.usage["inputTokens"]) == (("S",), 50)
    assert [(one.id, json.loads(one.arguments)) for one in first.injected] == [("p", {"id": "x"})]
    assert (second.text, second.real_calls) == ("Done.", ("r",))


def test_failures_are_the_apis_own() -> None:
    for failure, name in (
        (Failure(429, b'{"message":"slow"}', "lost"), "ThrottlingException"),
        (Failure(None, b"", "lost"), "InternalServerException"),
    ):
        assert json.loads(body().fail(failure)) == {"__type": name, "message": "lost"}


def test_placeholders_that_are_written_are_found() -> None:
    mark = make("password", b"k", b"v")
    written = {"toolUse": {"toolUseId": "r", "name": "Write", "input": {"content": [f"PASSWORD={mark}"]}}}
    assert placeholder.calls(FORMATS["bedrock"], document({"text": mark}, written), stream=False) == 1
    data = start() + call(0, "Write", "r", json.dumps({"content": mark})) + end("tool_use", 1)
    assert placeholder.calls(FORMATS["bedrock"], data, stream=True) == 1
    assert (
        placeholder.calls(FORMATS["bedrock"], start() + text(0, mark) + end("end_turn", 1), stream=True) == 0
    )
