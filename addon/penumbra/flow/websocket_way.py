"""A WebSocket's way: the hooks of its life, and who of us reads its frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mitmproxy import http

from penumbra.flow import state as states
from penumbra.flow import websocket_frames
from penumbra.flow.engines import Lease
from penumbra.flow.other_websockets import OtherWebSockets
from penumbra.flow.request import RequestWay, described
from penumbra.flow.response import ResponseWay
from penumbra.flow.websocket import WebSockets


class WebSocketWay:
    """State: none; what is known of a connection stands in its flow's state."""

    def __init__(self, lease: Callable[[], Lease], requests: RequestWay, responses: ResponseWay) -> None:
        """`lease`: what a request that begins now works with."""
        frame = partial(described, socket=True)
        self._calls = WebSockets(
            requests.frame, requests.other_frame, lease, responses.turns, frame, responses.tracing.ended
        )
        self._others = OtherWebSockets(requests.others)
        self._privacy = responses.privacy

    def start(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is open."""
        state = states.of(flow)
        if state is None or (state.socket is None and state.searched_socket is None):
            return
        websocket_frames.keep_letters_whole()
        if state.socket is not None:
            self._calls.start(flow, state.socket)

    async def message(self, flow: http.HTTPFlow) -> None:
        """A frame is there; the next one waits for the end of this hook."""
        state = states.of(flow)
        if state is not None and state.socket is not None:
            await self._calls.message(flow, state.socket)
        elif state is not None and state.searched_socket is not None:
            await self._others.message(flow, state.searched_socket)

    def end(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is closed."""
        if (state := states.of(flow)) is None:
            return
        self._privacy.websocket_end(flow, state)
        if state.socket is not None:
            self._calls.end(flow, state.socket)
        states.forget(flow)
