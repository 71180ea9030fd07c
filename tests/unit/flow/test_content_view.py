"""mitmproxy chooses the view only for LLM calls, and the view never raises an exception."""

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import contentviews, http
from mitmproxy.test import taddons, tflow
from mitmproxy.websocket import WebSocketData, WebSocketMessage

from penumbra.compress.result import Redacted
from penumbra.config.settings import Settings
from penumbra.explain.result_facts import ResultFacts, ResultMemory
from penumbra.flow.explainer import Explainer, install
from penumbra.flow.page.contents import Texts

MESSAGES = "https://api.anthropic.com/v1/messages"
BODY = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "Begin."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "sent"}]},
    ],
}
HELLO = (
    b'{"type":"message","role":"assistant","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn"}'
)
FACTS = ResultFacts("t1", "Bash", "shortened", "", (90, 4), (30, 1), ("terminal",))


@pytest.fixture
def explainer(monkeypatch: pytest.MonkeyPatch) -> Any:
    engine = SimpleNamespace(rules=SimpleNamespace(redact_now=lambda text, hint="": Redacted(text)))
    handle: Any = lambda: nullcontext(SimpleNamespace(engine=engine))  # noqa: E731
    made = Explainer(ResultMemory(), Texts(), handle, lambda: Settings(page_originals="on"))
    install(made)
    with taddons.context():
        yield made


def flow_of(url: str = MESSAGES, body: bytes = json.dumps(BODY).encode(), **metadata: Any) -> http.HTTPFlow:
    flow = tflow.tflow(req=http.Request.make("POST", url, body, {"content-type": "application/json"}))
    flow.server_conn.address = None
    flow.metadata.update(metadata)
    return flow


def seen(message: Any, flow: http.HTTPFlow, view: str = "auto") -> tuple[str, str]:
    """Return the name and the text of the chosen view, in mitmproxy 11 or 12."""
    if hasattr(contentviews, "prettify_message"):
        told = contentviews.prettify_message(message, flow, view)
        return told.view_name or "", told.text
    old: Any = contentviews
    name, lines, error = old.get_message_content_view(view, message, flow)
    assert not error
    return name, "\n".join("".join(text for _, text in line) for line in lines)


def test_the_view_is_chosen_for_calls_of_llms(explainer: Explainer) -> None:
    flow = flow_of()
    name, told = seen(flow.request, flow)
    assert name == "Penumbra"
    assert "#1 user\n    Begin.\n" in told
    flow.response = http.Response.make(200, HELLO)
    assert seen(flow.response, flow)[0] == "Penumbra"
    assert "Hi." in seen(flow.response, flow)[1]
    assert "RESPONSE" in [line.text for line in explainer.of_flow(flow)]


@pytest.mark.parametrize(
    "url",
    ["https://example.com/v1/messages", "https://api.anthropic.com/v1/models", "http://api.anthropic.com/"],
)
def test_the_view_is_chosen_for_no_other_flow(explainer: Explainer, url: str) -> None:
    flow = flow_of(url)
    flow.response = http.Response.make(200, b"{}", {"content-type": "application/json"})
    for message in (flow.request, flow.response):
        assert "JSON" in seen(message, flow)[0]
        if url != "https://example.com/v1/messages":
            assert "Penumbra: this is no call of an LLM." in seen(message, flow, "Penumbra")[1]


def test_responses_of_errors_and_of_other_calls_have_another_view(explainer: Explainer) -> None:
    flow = flow_of()
    flow.response = http.Response.make(429, b'{"error": 1}', {"content-type": "application/json"})
    assert "JSON" in seen(flow.response, flow)[0]
    flow = flow_of(f"{MESSAGES}/count_tokens")
    flow.response = http.Response.make(200, b'{"input_tokens": 1}', {"content-type": "application/json"})
    assert seen(flow.request, flow)[0] == "Penumbra"
    assert "JSON" in seen(flow.response, flow)[0]


@pytest.mark.parametrize(
    "body",
    [
        *(b"[7 bytes, not kept by Penumbra]", b"{", b"[]", b"7", b'{"messages": 7}'),
        *(b'{"messages": [7, {}, []]}', b"\xff"),
    ],
)
def test_the_view_never_fails(explainer: Explainer, body: bytes) -> None:
    junk: Any
    for junk in (None, 7, [], {"new": 7, "session": 7, "declared": []}, {"new": [{}], "continues": [1]}):
        flow = flow_of(body=body, penumbra=junk, penumbra_would=junk, penumbra_asked=junk)
        flow.response = http.Response.make(200, body, {"content-type": "text/event-stream"})
        explainer.learn(flow)
        for message in (flow.request, flow.response):
            assert "Traceback" not in seen(message, flow, "Penumbra")[1]


def test_the_view_shows_what_a_saved_flow_recorded(explainer: Explainer) -> None:
    said = {"api": "x", "session": "s", "new": [FACTS.record()]}
    flow = flow_of(penumbra=said)
    flow.comment = "Penumbra: a comment"
    told = seen(flow.request, flow)[1]
    assert told.startswith("Penumbra: a comment\n")
    assert (
        "NEW RESULTS\nBash t1\n    90 -> 4 bytes; about 30 -> 1 tokens (-97%); shortened by terminal" in told
    )
    assert "its original is not kept any more" in told

    # This is a later request of a session whose first request was loaded.
    later = flow_of(penumbra={**said, "new": []})
    assert "90 -> 4 bytes" not in seen(later.request, later)[1]
    explainer.learn(flow)
    assert "90 -> 4 bytes" in seen(later.request, later)[1]


def test_the_view_says_that_a_request_was_only_observed(explainer: Explainer) -> None:
    would = FACTS.__class__(**{**{n: getattr(FACTS, n) for n in FACTS.__struct_fields__}, "bytes": (4, 2)})
    flow = flow_of(penumbra_would={"session": "s", "new": [would.record()]})
    told = seen(flow.request, flow)[1]
    assert "NEW RESULTS\nBash t1\n    4 -> 2 bytes" in told
    assert "would have been shortened by terminal" in told


def test_frames_of_a_websocket(explainer: Explainer) -> None:
    """A client's frames are requests. The last frame of a response shows the message of all its frames."""
    flow = tflow.tflow(
        req=http.Request.make(
            "GET",
            "https://api.openai.com/v1/responses",
            b"",
            {"upgrade": "websocket", "connection": "upgrade"},
        )
    )
    flow.server_conn.address = None
    asks = {"type": "response.create", "model": "m", "input": [{"role": "user", "content": "Begin."}]}
    item = {
        "type": "message",
        "id": "i",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "So."}],
    }
    usage = {"input_tokens": 7, "output_tokens": 2}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.output_text.delta", "delta": "So."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": usage}},
    ]
    sent = WebSocketMessage(1, True, json.dumps(asks).encode())
    other = {"type": "response.created", "stream_id": "2", "response": {"id": "other"}}
    received = [
        WebSocketMessage(1, False, json.dumps(each).encode()) for each in (*events[:4], other, events[4])
    ]
    flow.websocket = WebSocketData(messages=[sent, *received])
    name, told = seen(sent, flow)
    assert name == "Penumbra"
    assert "    Begin." in told
    assert seen(received[2], flow) == (
        "Penumbra",
        "response.output_text.delta: a part of a response; its last frame shows the message.",
    )
    name, told = seen(received[-1], flow)
    assert (name, told.count("So.")) == ("Penumbra", 1)
    assert "tokens: input_tokens 7, output_tokens 2" in told
    text = [line.text for line in explainer.of_flow(flow)]
    assert text.index("    Begin.") < text.index("RESPONSE") < text.index("So.")

    # Calls that the client did not get and results that the client did not send are marked. Errors are shown
    # unchanged.
    received[1].drop()
    assert "hidden from the client" in seen(received[1], flow)[1]
    own = WebSocketMessage(1, True, sent.content)
    own.injected = True
    assert "Penumbra: a frame of its own" in seen(own, flow)[1]
    failed = WebSocketMessage(1, False, b'{"type": "error", "error": {"message": "Begin again."}}')
    assert seen(failed, flow)[0] != "Penumbra"
    assert seen(WebSocketMessage(1, False, b"\xff"), flow)[0] != "Penumbra"


def test_a_reload_makes_no_second_view(explainer: Explainer) -> None:
    other = Explainer(ResultMemory(), Texts(), lambda: 1 / 0, Settings)  # type: ignore[arg-type, return-value]
    install(other)
    flow = flow_of()
    assert "Penumbra can't show this: ZeroDivisionError" in seen(flow.request, flow)[1]
