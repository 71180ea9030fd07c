"""Responses of Ollama: the client gets one valid message, in lines or in a document."""

import json
from typing import Any

from ollama import ChatResponse

from penumbra.apis.base import Failure
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from support.streams.drive import byte_by_byte, every_cut

PHANTOM = "expand_context"


def made() -> Response:
    return FORMATS["ollama"].stream(PHANTOM)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


def piece(content: str = "", *calls: dict[str, Any], done: int = 0, **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content, **more}
    if calls:
        message["tool_calls"] = list(calls)
    value = {"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": bool(done)}
    metrics = {"done_reason": "stop", "prompt_eval_count": 50, "eval_count": done}
    return {**value, **metrics} if done else value


def lines(*pieces: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in pieces)


def read(data: bytes) -> list[ChatResponse]:
    """Return the lines of a stream as Ollama's SDK reads them."""
    return [ChatResponse(**json.loads(line)) for line in data.decode().splitlines()]


ASKING = lines(
    piece(thinking="Hm"),
    piece("Let me "),
    piece("see é."),
    piece("", call(PHANTOM, id="shadow_1")),
    piece(done=7),
)
ANSWERING = lines(piece("It fails."), piece("", call("run", command="ls")), piece(done=5))


def test_two_turns_are_one_message() -> None:
    out, (first, _) = every_cut(made, [ASKING, ANSWERING])
    assert PHANTOM.encode() not in out
    answers = read(out)
    assert "".join(one.message.content or "" for one in answers) == "Let me see é.\n\nIt fails."
    calls = [one.function.name for answer in answers for one in answer.message.tool_calls or ()]
    assert calls == ["run"]
    assert [one.done for one in answers] == [False] * (len(answers) - 1) + [True]
    assert (answers[-1].eval_count, answers[-1].prompt_eval_count) == (12, 50)
    assert json.loads(first.injected[0].arguments) == {"id": "shadow_1"}
    assert json.loads(first.message or b"") == {
        "role": "assistant",
        "content": "Let me see é.",
        "thinking": "Hm",
        "tool_calls": [call(PHANTOM, id="shadow_1")],
    }


def test_everything_in_the_last_line() -> None:
    last = lines(piece("One.", call(PHANTOM, id="x"), done=3))
    out, _ = byte_by_byte(made, [last, lines(piece("Two.", done=4))])
    assert [(one.message.content, one.done) for one in read(out)] == [("One.", False), ("\n\nTwo.", True)]
    out, (turn,) = byte_by_byte(made, [lines(piece("One.", call(PHANTOM), call("run"), done=3))])
    (answer,) = read(out)
    assert [one.function.name for one in answer.message.tool_calls or ()] == ["run"]
    assert len(turn.real_calls) == len(turn.injected) == 1
    out, _ = byte_by_byte(made, [lines(piece("", call(PHANTOM), done=3))])
    assert read(out)[0].message.tool_calls is None


def test_calls_are_known_by_what_they_say() -> None:
    one, other = call("run", a=1, b=2), call("run", b=2, a=1)
    _, (turn,) = byte_by_byte(made, [lines(piece("", one, other, {"id": "call_9", **one}), piece(done=1))])
    assert len(set(turn.tokens)) == 1
    assert turn.real_calls == ("", "", "call_9")


def test_errors_and_what_cannot_be_continued() -> None:
    out, (turn,) = byte_by_byte(made, [ASKING + b'{"error":"model crashed"}\n'])
    assert turn.failed
    assert out.endswith(b'{"error":"model crashed"}\n')
    answer = made()
    answer.feed(ASKING)
    answer.end_turn()
    answer.go_on()
    assert answer.fail(Failure(500, b'{"error":"busy"}', "x", reported=True)) == b'{"error":"x"}\n'
    assert answer.fail(Failure(None, b"", "lost")) == b""
    assert answer.feed(b'{"error":"model crashed"}\n') == b""
    assert answer.end_turn().failure is not None
    cut_off = {**piece("x", call(PHANTOM), done=1), "done_reason": "length"}
    _, (turn,) = byte_by_byte(made, [lines(cut_off)])
    assert not turn.continuable
    _, (turn,) = byte_by_byte(made, [lines(piece("x"))])
    assert not turn.finished


def test_a_document_that_fails_has_the_error_of_the_api() -> None:
    assert json.loads(FORMATS["ollama"].body(PHANTOM).fail(Failure(None, b"", "lost"))) == {"error": "lost"}
