"""Frames of clients on WebSockets are searched, or refused in the API's own shape, and never pass unread."""

import json
from typing import Any

import pytest
from websockets.sync.client import connect

from support.agents.websocket_caller import opened
from support.planted import GITHUB

TEXT = f"GITHUB_TOKEN={GITHUB}"
ITEM = {"type": "function_call_output", "call_id": "call_1", "output": TEXT}
CREATE = json.dumps({"type": "response.create", "model": "m", "input": [ITEM]})

UNREADABLE: dict[str, str | bytes] = {
    "a mark in front": "\ufeff" + CREATE,
    "not a number": CREATE[:-1] + ', "n": NaN}',
    "a comma at the end": CREATE[:-1] + ",}",
    "a comment": CREATE + "/* x */",
    "cut off": CREATE[:-1],
    "doubled type": CREATE[:-1] + ', "type": "response.create"}',
    "another type behind": CREATE[:-1] + ', "type": "session.update"}',
    "another type in front": '{"type": "session.update",' + CREATE[1:],
    "doubled input": CREATE[:-1] + ', "input": []}',
    "two bytes a letter": CREATE.encode("utf-16"),
    "two bytes, no mark": CREATE.encode("utf-16-le"),
    "four bytes a letter": CREATE.encode("utf-32"),
    "no UTF-8": CREATE.encode() + b"\xff",
    "deep nesting": "[" * 100_000 + "]" * 100_000,
    "binary": b"\x00\xff" * 5_000 + TEXT.encode(),
}
SEARCHED: dict[str, str | bytes] = {
    "binary JSON": CREATE.encode(),
    "a list": json.dumps([json.loads(CREATE)]),
    "no type": json.dumps({"item": ITEM}),
    "a number for a type": json.dumps({"type": 5, "item": ITEM}),
    "unknown type": json.dumps({"type": "conversation.item.create", "item": ITEM}),
    "type in capitals": json.dumps({"type": "Response.Create", "input": [ITEM]}),
    "member in capitals": json.dumps({"type": "response.create", "Input": [ITEM]}),
    "input of another shape": json.dumps({"type": "response.create", "input": {"a": ITEM}}),
    "text": f"log: {TEXT}",
    "a string": json.dumps(TEXT),
}


@pytest.fixture
def running(proxy: Any) -> Any:
    return proxy("reverse")


def frames(upstream: Any) -> list[bytes]:
    """Return all frames that arrived."""
    return [request.raw_body for request in upstream.requests if request.raw_body]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/", "/v1//responses"])
def test_unreadable_frames_are_refused(path: str, running: Any, api_key: str, upstream: Any) -> None:
    with socket(running, path) as one:
        for name, frame in UNREADABLE.items():
            one.send(frame)
            answer = json.loads(one.recv(30))
            assert answer["type"] == "error", name
            assert answer["status"] == 400, name
            assert answer["error"]["type"] == "invalid_request_error"
            assert "could not search" in answer["error"]["message"]
    assert frames(upstream) == []


@pytest.mark.parametrize("name", SEARCHED)
def test_everything_else_is_searched(name: str, running: Any, upstream: Any) -> None:
    with socket(running, "/v1/responses/") as one:
        one.send(SEARCHED[name])
        one.recv(30)
    (frame,) = frames(upstream)
    assert GITHUB.encode() not in frame
    assert b"[REDACTED:" in frame


def socket(running: Any, path: str, **more: Any) -> Any:
    url = f"{running.url.replace('http', 'ws')}{path}"
    return connect(url, proxy=None, open_timeout=30, max_size=None, **more)


@pytest.mark.parametrize(
    "path", ["/v1/realtime?model=m", "/openai/realtime/", "//v1/realtime", "/v9/unknown"]
)
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_other_sockets(path: str, binary: bool, running: Any, upstream: Any) -> None:
    frame = json.dumps({"type": "conversation.item.create", "item": {**ITEM, "output": f"größer\n{TEXT}"}})
    plain = '{"type": "input_audio_buffer.append", "audio" : "' + "QUJD" * 900 + '"}'
    with socket(running, path) as one:
        for sent in (plain, frame):
            one.send(sent.encode() if binary else sent)
            one.recv(30)
        # The frame is cut into pieces on its way.
        one.send([frame[:9], frame[9:]])
        one.recv(30)
    first, *others = frames(upstream)
    assert first.decode() == plain
    for other in others:
        assert GITHUB.encode() not in other
        assert json.loads(other)["item"]["output"].startswith("größer\nGITHUB_TOKEN=[REDACTED:")


def test_unreadable_frames_of_other_sockets(running: Any, upstream: Any) -> None:
    with socket(running, "/v1/realtime") as one:
        for name in UNREADABLE.keys() - {"doubled input"}:
            one.send(UNREADABLE[name])
            answer = json.loads(one.recv(30))
            assert (answer["type"], answer["error"]["type"]) == ("error", "invalid_request_error"), name
    assert frames(upstream) == []


def test_sockets_of_gemini(running: Any, upstream: Any) -> None:
    path = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
    response = {"id": "f", "name": "n", "response": {"env": {"DB_PASSWORD": "9vTq2-LmX4wRk7"}, "text": TEXT}}
    with socket(running, path) as one:
        one.send(json.dumps({"toolResponse": {"functionResponses": [response]}}))
        one.recv(30)
        one.send("\ufeff{}")
        assert json.loads(one.recv(30))["error"]["status"] == "INVALID_ARGUMENT"
    (frame,) = frames(upstream)
    assert GITHUB.encode() not in frame
    assert b"LmX4wRk7" not in frame


def test_a_socket_through_a_forward_proxy(proxy: Any, api_key: str, upstream: Any) -> None:
    with opened(proxy("regular"), api_key) as one:
        one.send("[" + CREATE + "]")
        one.recv(30)
    (frame,) = frames(upstream)
    assert GITHUB.encode() not in frame
