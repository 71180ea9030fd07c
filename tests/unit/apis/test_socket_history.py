"""What a client has said and got on a socket, as one request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.apis.responses_socket import Envelope, SocketHistory, item_done

USER = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "Bash", "arguments": "{}"}
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
    answered(history, first, "resp_1", CALL)
    second = frame([RESULT], "resp_1", tools=[1.50])
    whole = history.asked(second).whole()
    assert whole is not None
    assert json.loads(whole) == {**json.loads(first), "input": [USER, CALL, RESULT]}
    answered(history, second, "resp_2", {"type": "message", "x": 1})
    third = history.asked(frame([USER], "resp_2")).whole()
    assert third is not None
    assert json.loads(third)["input"] == [USER, CALL, RESULT, {"type": "message", "x": 1}, USER]


def test_what_is_not_known_is_not_made_up() -> None:
    history = SocketHistory()
    assert history.asked(frame([RESULT], "resp_0")).whole() is None
    answered(history, frame("hi"), "resp_1", CALL)
    assert history.asked(frame([RESULT], "resp_0")).whole() is None
    history.lose()
    assert history.asked(frame([RESULT], "resp_1")).whole() is None
    # Nor what goes on from it; a new beginning is known again.
    answered(history, frame([RESULT], "resp_1"), "resp_2")
    assert history.asked(frame([USER], "resp_2")).whole() is None
    answered(history, frame([USER]), "resp_3")
    assert history.asked(frame([USER], "resp_3")).whole() is not None
    assert history.asked(b"no JSON").input is None


@pytest.mark.parametrize(("more", "stored"), [({}, False), ({"store": True}, True), ({"store": None}, True)])
def test_what_is_stored_is_found_again(more: dict[str, Any], stored: bool) -> None:
    assert SocketHistory().asked(frame([USER], **more)).is_stored is stored


def test_items_of_an_answer() -> None:
    assert item_done(b'{"type":"response.output_item.done","item":{"a" : 1.0}}') == b'{"a" : 1.0}'
    assert item_done(b'{"type":"response.output_item.done"}') is None


def test_what_a_frame_does() -> None:
    kinds = {
        "response.created": (False, False),
        "response.in_progress": (False, False),
        "codex.rate_limits": (False, False),
        "response.output_item.added": (False, True),
        "response.completed": (False, True),
        "response.failed": (True, False),
        "error": (True, False),
    }
    for kind, (fails, says) in kinds.items():
        assert (Envelope(kind).fails, Envelope(kind).says) == (fails, says)
