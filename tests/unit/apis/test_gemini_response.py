"""Responses of Gemini: the client gets one valid response, in each form."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from penumbra.apis.base import Failure
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from support.streams.drive import byte_by_byte, chunks, drive, every_cut

PHANTOM = "expand_context"
FRAMES = ["sse", "array", "wrapped"]


def made() -> Response:
    return FORMATS["gemini"].stream(PHANTOM)


def call(name: str, call_id: str = "", signature: str = "", **arguments: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, "args": arguments}}
    if call_id:
        part["functionCall"]["id"] = call_id
    return {**part, "thoughtSignature": signature} if signature else part


def chunk(number: int, *parts: Any, reason: str = "", tokens: int = 0) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    usage = {"promptTokenCount": 100, "candidatesTokenCount": tokens, "totalTokenCount": 100 + tokens}
    return {"candidates": [candidate], "usageMetadata": usage, "responseId": f"r{number}"}


def framed(frame: str, *chunks: dict[str, Any]) -> bytes:
    if frame == "wrapped":
        chunks = tuple({"response": one, "traceId": "t"} for one in chunks)
    texts = [json.dumps(one, ensure_ascii=False).encode() for one in chunks]
    if frame == "array":
        return b"[" + b"\n,\r\n".join(texts) + b"\n]"
    return b"".join(b"data: " + text + b"\r\n\r\n" for text in texts)


def values(frame: str, data: bytes) -> list[dict[str, Any]]:
    if frame == "array":
        found: list[dict[str, Any]] = json.loads(data)
        return found
    lines = [part.removeprefix(b"data: ") for part in data.split(b"\r\n\r\n") if part]
    found = [json.loads(line) for line in lines]
    return [one["response"] for one in found] if frame == "wrapped" else found


def all_parts(chunks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in chunks:
        yield from one["candidates"][0]["content"]["parts"]


def asking(frame: str) -> bytes:
    return framed(
        frame,
        chunk(0, {"text": "Hm [", "thought": True}),
        chunk(0, {"text": "Let me "}, tokens=2),
        chunk(0, {"text": 'see "é'}, tokens=3),
        chunk(0, call(PHANTOM, "p1", "SIG", id="shadow_1"), reason="STOP", tokens=9),
    )


def answering(frame: str) -> bytes:
    return framed(
        frame,
        chunk(1, {"text": "It fails."}, tokens=2),
        chunk(1, call("run", "c1", command="ls"), reason="STOP", tokens=5),
    )


@pytest.mark.parametrize("frame", FRAMES)
def test_an_answer_without_the_phantom_is_not_touched(frame: str) -> None:
    data = answering(frame)
    out, (turn,) = every_cut(made, [data])
    assert out == data
    assert (len(turn.real_calls), turn.text, turn.finished) == (1, "It fails.", True)
    for odd in (
        (b": comment\n\n" + data, data + b"\n") if frame != "array" else (b" \n" + data + b"\n", b"[]")
    ):
        assert byte_by_byte(made, [odd])[0] == odd


@pytest.mark.parametrize("frame", FRAMES)
def test_two_turns_are_one_answer(frame: str) -> None:
    out, (first, second) = byte_by_byte(made, [asking(frame), answering(frame)])
    assert PHANTOM.encode() not in out
    found = values(frame, out)
    assert {one["responseId"] for one in found} == {"r0"}
    text = "".join(part.get("text", "") for part in all_parts(found) if not part.get("thought"))
    assert text == 'Let me see "é\n\nIt fails.'
    assert [part["functionCall"]["id"] for part in all_parts(found) if "functionCall" in part] == ["c1"]
    assert [one["candidates"][0].get("finishReason") for one in found][-1] == "STOP"
    assert sum("finishReason" in one["candidates"][0] for one in found) == 1
    assert found[-1]["usageMetadata"]["candidatesTokenCount"] == 14
    assert found[-1]["usageMetadata"]["totalTokenCount"] == 114
    assert json.loads(first.injected[0].arguments) == {"id": "shadow_1"}
    assert (first.text, first.signatures, len(second.real_calls)) == ('Let me see "é', ("SIG",), 1)


@pytest.mark.parametrize("frame", FRAMES)
def test_the_turn_is_kept_as_a_request_carries_it(frame: str) -> None:
    _, (turn,) = byte_by_byte(made, [asking(frame)])
    assert turn.message is not None
    assert json.loads(turn.message) == {
        "role": "model",
        "parts": [
            {"text": "Hm [", "thought": True},
            {"text": 'Let me see "é'},
            call(PHANTOM, "p1", "SIG", id="shadow_1"),
        ],
    }


def test_calls_are_known_by_what_they_say_with_and_without_ids() -> None:
    data = framed("sse", chunk(0, call("run", "id-1", a=1, b=2), call("run", a=2), reason="STOP"))
    _, (turn,) = byte_by_byte(made, [data])
    _, (again,) = byte_by_byte(made, [framed("sse", chunk(0, call("run", b=2, a=1), reason="STOP"))])
    assert len(set(turn.tokens)) == 2
    assert turn.tokens[0] == again.tokens[0]
    assert (turn.real_calls, again.real_calls) == (("id-1", ""), ("",))


@pytest.mark.parametrize(
    ("reason", "continuable"), [("STOP", True), ("MAX_TOKENS", False), ("SAFETY", False)]
)
def test_which_turns_can_be_continued(reason: str, continuable: bool) -> None:
    _, (turn,) = byte_by_byte(made, [framed("sse", chunk(0, call(PHANTOM), reason=reason))])
    assert (turn.finished, turn.continuable) == (True, continuable)


def test_answers_that_are_none() -> None:
    blocked = b'data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n'
    out, (turn,) = byte_by_byte(made, [blocked])
    assert (out, turn.finished, turn.continuable) == (blocked, True, False)
    several = {
        "candidates": [{"content": {"parts": [{"text": "a"}]}}, {"content": {"parts": [call(PHANTOM)]}}]
    }
    out, (turn,) = byte_by_byte(made, [framed("sse", several)])
    assert (turn.continuable, turn.finished) == (False, False)
    assert PHANTOM.encode() not in out
    error = b'data: {"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}\n\n'
    out, (turn,) = byte_by_byte(made, [asking("sse") + error])
    assert turn.failed
    assert out.endswith(error)


@pytest.mark.parametrize("frame", ["sse", "array"])
def test_a_continuation_that_fails(frame: str) -> None:
    for failure, expected in (
        (
            Failure(None, b'[{"error":{"code":429,"message":"slow"}}]', "x", reported=True),
            {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED"},
        ),
        (Failure(None, b"", "lost", reported=True), {"code": 502, "message": "lost", "status": "INTERNAL"}),
    ):
        answer = made()
        out = answer.feed(asking(frame))
        answer.end_turn()
        out += answer.go_on()
        # The error of the continuation, and the end of the array with the error.
        error = b'{"error":{"code":503,"message":"m"}}'
        assert answer.feed(b"[" + error + b"]" if frame == "array" else b"data: " + error + b"\n\n") == b""
        assert answer.end_turn().failed
        out += answer.fail(failure)
        if frame == "array":
            assert json.loads(out)[-1] == {"error": expected}
        else:
            assert json.loads(out.split(b"data: ")[-1]) == {"error": expected}


@pytest.mark.parametrize("frame", [*FRAMES, "document"])
def test_no_message_quotes_a_malformed_call(frame: str) -> None:
    """The provider explains the end of a turn with the call that it could not read."""
    ended = chunk(0, {"text": "See."}, reason="MALFORMED_FUNCTION_CALL")
    for name, is_shown in ((PHANTOM, False), ("run", True)):
        message = f"Malformed function call: print(default_api.{name}(id='x'))"
        ended["candidates"][0]["finishMessage"] = message
        data = json.dumps(ended).encode() if frame == "document" else framed(frame, ended)
        data = data.replace(b"d_c", b"d\\u005fc")
        make = partial(FORMATS["gemini"].body, PHANTOM) if frame == "document" else made
        out, _ = byte_by_byte(make, [data])
        assert (out == data) == is_shown
        assert (b"finishMessage" in out) == is_shown
        assert b"MALFORMED_FUNCTION_CALL" in out


# Documents


def body(*chunks_: dict[str, Any], wrap: bool = False) -> tuple[dict[str, Any], Any]:
    texts = [json.dumps({"response": one} if wrap else one).encode() for one in chunks_]
    out, turns = byte_by_byte(lambda: FORMATS["gemini"].body(PHANTOM), texts)
    found = json.loads(out)
    return found["response"] if wrap else found, turns


@pytest.mark.parametrize("wrap", [False, True])
def test_documents_become_one(wrap: bool) -> None:
    found, (first, last) = body(
        chunk(0, {"text": "See."}, call(PHANTOM, "p"), reason="STOP", tokens=4),
        chunk(1, {"text": "Done."}, call("run"), reason="STOP", tokens=6),
        wrap=wrap,
    )
    assert list(all_parts([found])) == [{"text": "See."}, {"text": "\n\nDone."}, call("run")]
    assert found["usageMetadata"]["candidatesTokenCount"] == 10
    assert json.loads(first.injected[0].id) == {"id": "p", "name": PHANTOM}
    assert (last.text, len(last.real_calls)) == ("Done.", 1)


def test_a_document_that_fails() -> None:
    answer = FORMATS["gemini"].body(PHANTOM)
    drive(answer, [json.dumps(chunk(0, call(PHANTOM), reason="STOP")).encode()], lambda data: chunks(data, 9))
    assert json.loads(answer.fail(Failure(503, b"<html>", "no")))["error"]["status"] == "UNAVAILABLE"
    # The provider accepted the client's own request, so the client may try again.
    assert json.loads(answer.fail(Failure(400, b"<html>", "no")))["error"]["code"] == 502
