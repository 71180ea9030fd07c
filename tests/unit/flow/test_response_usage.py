"""Requests that count as accepted by the provider, by their responses."""

import asyncio
import json
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy.test import tflow, tutils

from penumbra.apis import responses_socket
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses_socket import SocketRequest
from penumbra.apis.usage import NOT_READ
from penumbra.expand.loop import ToolLoop
from penumbra.flow import state as states
from penumbra.flow.report import Reports
from penumbra.flow.response import ResponseUsage
from penumbra.flow.state import FlowState
from penumbra.flow.tool_loop import Turns
from penumbra.flow.websocket import WebSockets
from penumbra.flow.websocket_streams import Sending, Socket, SocketStream, Waiting, WebSocketRetry
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.journal import Journal

Steps = tuple[Journal, ResponseUsage, Any]


@pytest.fixture
def steps() -> Steps:
    journal, nothing = Journal(), SimpleNamespace()
    reports: Any = Reports(journal, nothing, nothing, lambda event: None)  # type: ignore[arg-type]
    return journal, ResponseUsage(journal), reports


def begun() -> Any:
    return SimpleNamespace(
        if_taken=Amounts(dollars_saved=1.0), amounts=Amounts(), status="", session="s", agent="a", project="p",
        is_observed=True, is_billed=False, ending=NOT_READ,
    )  # fmt: skip


OVERLOADED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"m"}}\n\n'
STARTED = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","role":"assistant","content":[]}}\n\n'
SAID = (
    b"event: content_block_start\n"
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"So"}}\n\n'
)


@pytest.mark.parametrize(
    ("body", "dollars"),
    [
        (OVERLOADED, 0.0),
        (STARTED + OVERLOADED, 0.0),
        (STARTED + SAID + OVERLOADED, 1.0),
        (STARTED + SAID, 1.0),
    ],
)
@pytest.mark.parametrize("is_looped", [False, True])
def test_a_stream_that_holds_an_error_and_nothing_else_is_none(
    steps: Steps, body: bytes, dollars: float, is_looped: bool
) -> None:
    journal, usage, _ = steps
    turn, flow = begun(), ended(200, broken_off=False)
    flow.response.headers["content-type"] = "text/event-stream"
    flow.response.content = body
    handle: Any = SimpleNamespace(end=lambda: None)
    state: FlowState = states.begin(flow, handle)
    state.turn, state.response_format = turn, "anthropic"
    if is_looped:
        response = FORMATS["anthropic"].stream("")
        response.feed(body)
        loop: Any = SimpleNamespace(turns=[response.end_turn()])
        Turns(journal, lambda event: None).bill(turn, loop)
    asyncio.run(usage.complete(flow, state, flow.response))
    states.forget(flow)
    assert journal.amounts.dollars_saved == dollars
    assert turn.status == ("200" if dollars else "200, but an error")
    assert journal.amounts.errors == ({} if dollars else {"200, but an error": 1})


def test_a_document_that_failed_is_none(steps: Steps) -> None:
    journal, usage, _ = steps
    for status, error, dollars in (("failed", {"code": "server_error"}, 0.0), ("completed", None, 1.0)):
        body = {"id": "r", "status": status, "error": error, "output": []}
        turn, flow = begun(), ended(200, broken_off=False)
        flow.response.headers["content-type"] = "application/json"
        flow.response.content = json.dumps(body).encode()
        handle: Any = SimpleNamespace(end=lambda: None)
        state: FlowState = states.begin(flow, handle)
        state.turn, state.response_format = turn, "openai_responses"
        asyncio.run(usage.complete(flow, state, flow.response))
        states.forget(flow)
        assert journal.amounts.dollars_saved == dollars


def ended(status: int | None, *, broken_off: bool) -> Any:
    response = tutils.tresp(status_code=status) if status is not None else None
    return tflow.tflow(resp=response or False, err=broken_off)


ENDINGS = [(200, False, 1.0), (200, True, 1.0), (429, False, 0.0), (529, True, 0.0), (None, True, 0.0)]


@pytest.mark.parametrize(("status", "broken_off", "dollars"), ENDINGS)
@pytest.mark.parametrize("is_worked_out", ["before the response", "behind it"])
def test_a_request_counts_when_its_response_is_no_error(
    steps: Steps, status: int | None, broken_off: bool, dollars: float, is_worked_out: str
) -> None:
    journal, usage, reports = steps
    turn, flow = begun(), ended(status, broken_off=broken_off)

    async def go() -> None:
        if is_worked_out == "behind it":
            reports.await_response(flow, turn)
            return
        handle: Any = SimpleNamespace(end=lambda: None)
        state: FlowState = states.begin(flow, handle)
        reports.await_response(flow, turn)
        assert journal.amounts.dollars_saved == 0
        await (usage.failed(flow, state) if broken_off else usage.complete(flow, state, flow.response))
        states.forget(flow)

    asyncio.run(go())
    assert journal.amounts.dollars_saved == dollars
    assert turn.status


CREATED = b'{"type":"response.created","response":{"id":"resp_1"}}'
SAYS = b'{"type":"response.output_text.delta","delta":"So"}'
FAILED = (
    b'{"type":"response.failed","response":{"id":"resp_1","error":{"code":"server_error","message":"m"}}}'
)


@pytest.mark.parametrize(
    ("frames", "dollars"),
    [((CREATED,), 0.0), ((CREATED, FAILED), 0.0), ((CREATED, SAYS), 1.0), ((CREATED, SAYS, FAILED), 1.0)],
)
async def test_over_websocket_it_counts_when_something_of_the_response_has_come(
    steps: Steps, frames: tuple[bytes, ...], dollars: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, nothing = steps[0], SimpleNamespace()
    turns = Turns(journal, lambda event: None)
    given: Any = nothing
    tracing = SimpleNamespace(ended=lambda turn, headers: None)
    responses: Any = SimpleNamespace(turns=turns, privacy=nothing, tracing=tracing)
    sockets = WebSockets(given, given, responses)
    wire, handle = FORMATS["openai_responses_socket"], SimpleNamespace(end=lambda: None)
    accepted: Any = SimpleNamespace(caller=None)

    async def no_retry(*_: Any) -> bool:
        return False

    monkeypatch.setattr(WebSocketRetry, "smaller", no_retry)
    made: Any = handle
    sending = Sending(SocketRequest(b"{}", None), accepted, made)
    waiting = Waiting(accepted, made, ToolLoop(wire, wire.stream(""), b"{}"), None, sending, turn=begun())
    socket = Socket(given, {"": SocketStream(deque([waiting]))})
    for frame in frames:
        envelope = responses_socket.envelope(frame)
        assert envelope is not None
        assert await sockets.received(tflow.twebsocketflow(), socket, frame, envelope) == frame
    assert journal.amounts.dollars_saved == dollars


def test_a_failure_to_show_changes_is_only_logged(steps: Steps, caplog: pytest.LogCaptureFixture) -> None:
    reports, nothing = steps[2], SimpleNamespace()
    reports.accepted(tflow.tflow(), nothing, nothing, nothing, nothing)
    assert "the changes of a request can't be shown: AttributeError at report.py" in caplog.text
