"""The steps of a response, and the limits of the states of flows."""

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest
from mitmproxy.test import tflow, tutils

from penumbra.config.settings import Settings
from penumbra.conversation.incoming import EngineSettings
from penumbra.flow import state as states
from penumbra.flow.current_settings import Engines
from penumbra.flow.response import ResponseWay
from penumbra.flow.tracing import Tracing
from penumbra.metrics.amounts import ExternalMetrics
from penumbra.metrics.journal import Journal

SETTINGS = Settings(database="memory")


@pytest.fixture
def engines() -> Any:
    made = Engines(ExternalMetrics(), tuple)
    yield made
    made.close(at_once=True)


def handle(engines: Engines) -> Any:
    return engines.handle(SETTINGS, EngineSettings.of(SETTINGS))


def response_way(blank_flows: str = "all") -> ResponseWay:
    """Return the steps of the addon, without reports."""
    return ResponseWay(Journal(lambda: None), lambda event: None, lambda: blank_flows, Tracing(lambda: False))


@pytest.mark.parametrize("ending", ["complete", "failed"])
@pytest.mark.parametrize("number", range(6))
async def test_a_step_that_fails_leaves_the_others_to_their_work(
    number: int, ending: str, engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    way = response_way()
    steps = way.steps
    assert steps.index(way.privacy) == 6

    async def broken(*_: Any) -> None:
        raise ZeroDivisionError("hunter2")

    setattr(steps[number], ending, broken)
    flow = tflow.tflow(resp=tutils.tresp(content=b"hunter2"))
    flow.response.stream = True
    flow.metadata["penumbra"] = {}
    states.begin(flow, handle(engines))
    await getattr(way, ending)(flow)
    assert b"hunter2" not in flow.response.content
    assert states.of(flow) is None
    (line,) = [one.getMessage() for one in caplog.records]
    assert "ZeroDivisionError at test_response_way.py:" in line
    assert "hunter2" not in line


@pytest.mark.parametrize("ending", ["complete", "failed"])
async def test_the_reader_of_a_response_is_dropped_at_its_end(ending: str, engines: Engines) -> None:
    """The reader is dropped at the end of a flow, because flows may be kept as long as mitmproxy runs."""

    class Reader:
        def take(self, data: bytes) -> bytes:
            return data

    way = response_way("off")
    flow = tflow.tflow(resp=tutils.tresp())
    reader = Reader()
    flow.response.stream = reader.take
    there = weakref.ref(reader)
    del reader
    states.begin(flow, handle(engines))
    await getattr(way, ending)(flow)
    gc.collect()
    assert there() is None
    # The response was still streamed.
    assert flow.response.stream


async def test_a_response_begins_when_what_was_decided_is_on_disk(engines: Engines) -> None:
    free = threading.Event()
    try:
        way = response_way()
        flow = tflow.tflow(resp=tutils.tresp())
        states.begin(flow, held := handle(engines))
        held.engine.database.later(lambda connection: free.wait(30))
        begun = asyncio.ensure_future(way.begins(flow))
        await asyncio.sleep(0.05)
        assert not begun.done()
        free.set()
        await asyncio.wait_for(begun, 10)
        states.forget(flow)
    finally:
        free.set()


async def test_a_response_is_read_though_nothing_can_be_written(
    engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    """When the proxy ends, its engines may close while responses begin."""
    way = response_way()
    seen: list[Any] = []
    way.tool_loop.headers = lambda *told: seen.append(told)  # type: ignore[method-assign]
    flow = tflow.tflow(resp=tutils.tresp())
    states.begin(flow, held := handle(engines))
    held.engine.database.close()
    held.engine.database.later(lambda connection: None)
    await way.begins(flow)
    states.forget(flow)
    assert len(seen) == 1
    assert "RuntimeError" in caplog.text


def test_no_number_of_flows_takes_the_state_of_one_under_way(
    monkeypatch: pytest.MonkeyPatch, engines: Engines
) -> None:
    """Other clients may open any number of flows."""
    monkeypatch.setattr(states, "MOST_FLOWS", 3)
    flows = [tflow.tflow() for _ in range(9)]
    for flow in flows:
        states.begin(flow, handle(engines))
    assert all(states.of(flow) is not None for flow in flows)
    for flow in flows:
        states.forget(flow)


def test_flows_without_a_known_end_are_dropped_first(
    monkeypatch: pytest.MonkeyPatch, engines: Engines
) -> None:
    monkeypatch.setattr(states, "MOST_FLOWS", 3)
    monkeypatch.setattr(states, "LONGEST", -1.0)
    flows = [tflow.tflow() for _ in range(5)]
    for flow in flows:
        states.begin(flow, handle(engines))
    assert [states.of(flow) is not None for flow in flows] == [False, False, True, True, True]
    current = engines.current
    assert current is not None
    assert current.handles == 3
    # A second state of a flow replaces the first.
    states.begin(flows[2], handle(engines))
    assert current.handles == 3
    for flow in flows:
        states.forget(flow)
    assert current.handles == 0
