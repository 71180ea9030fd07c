"""The body of a refused request is dropped as it arrives, regardless of the stated size."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.proxy.layers.http._events import RequestData, RequestEndOfMessage
from mitmproxy.proxy.layers.http._hooks import HttpRequestHook
from mitmproxy.proxy.utils import ReceiveBuffer
from mitmproxy.test import taddons, tflow

from penumbra.addon import Penumbra
from penumbra.flow import bodies
from penumbra.flow.splice import SpliceStream


def stream(flow: http.HTTPFlow) -> Any:
    made: Any = SpliceStream.__new__(SpliceStream)
    options = SimpleNamespace(stream_large_bodies=None, body_size_limit=None)
    made.flow, made.stream_id, made.context = flow, 1, SimpleNamespace(options=options)
    made.request_body_buf = ReceiveBuffer()
    return made


@pytest.mark.parametrize(("pieces", "is_refused"), [(10, False), (11, True), (40, True)])
def test_no_more_is_kept_than_may_be_searched(pieces: int, is_refused: bool) -> None:
    flow, refused, most = tflow.tflow(), [], 0
    bodies.BOUNDS[flow] = bodies.Bound(100, lambda flow: refused.append(True))
    made = stream(flow)
    for _ in range(pieces):
        assert not list(made.state_consume_request_body(RequestData(1, b"x" * 10)))
        most = max(most, len(made.request_body_buf))
    assert most <= 100
    hook = next(made.state_consume_request_body(RequestEndOfMessage(1)))
    assert isinstance(hook, HttpRequestHook)
    assert bool(refused) is is_refused
    assert flow.request.raw_content == (b"" if is_refused else b"x" * 10 * pieces)


def test_a_body_without_a_bound_is_kept() -> None:
    flow = tflow.tflow()
    made = stream(flow)
    list(made.state_consume_request_body(RequestData(1, b"x" * 1_000)))
    next(made.state_consume_request_body(RequestEndOfMessage(1)))
    assert flow.request.raw_content == b"x" * 1_000


async def test_a_request_whose_client_goes_away_before_its_end_is_not_kept() -> None:
    addon = Penumbra()
    with taddons.context(addon) as context:
        context.configure(addon, penumbra_database="memory")
        flow = tflow.tflow()
        flow.request.method, flow.request.path = "POST", "/v1/messages"
        flow.request.host, flow.request.headers["content-type"] = "api.anthropic.com", "application/json"
        await addon.requestheaders(flow)
        assert flow in bodies.BOUNDS
        kept = weakref.ref(flow)
        del flow
        gc.collect()
        assert kept() is None
