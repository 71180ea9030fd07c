"""A WebSocket's way: the hooks of its life, and who of us reads its frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mitmproxy import http

from penumbra.apis.other_paths import UNKNOWN_SOCKET
from penumbra.flow import refusal, websocket_frames
from penumbra.flow import state as states
from penumbra.flow.engines import Lease
from penumbra.flow.other_websockets import OtherWebSockets
from penumbra.flow.request import RequestWay, described
from penumbra.flow.response import ResponseWay
from penumbra.flow.websocket import WebSockets
from penumbra.redaction import RedactionError


class WebSocketWay:
    """State: none; what is known of a connection stands in its flow's state."""

    def __init__(self, lease: Callable[[], Lease], requests: RequestWay, responses: ResponseWay) -> None:
        """`lease`: what a request that begins now works with."""
        frame = partial(described, socket=True)
        self._requests = requests
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
        """Rewrite or search a frame; the next one waits for the end of this hook."""
        state = states.of(flow)
        if state is None and self._requests.must_search(flow):
            raise RedactionError("its connection is not known any more")
        if state is not None and state.socket is not None:
            await self._calls.message(flow, state.socket)
        elif state is not None and state.searched_socket is not None:
            await self._others.message(flow, state.searched_socket)

    def failed(self, flow: http.HTTPFlow, error: BaseException) -> bool:
        """Refuse a client's frame whose hook raised, if it had to be searched. Return if that is logged."""
        assert flow.websocket is not None
        message = flow.websocket.messages[-1]
        if not message.from_client or message.injected:
            return False
        if not self._requests.must_search_frame(flow):
            refusal.leave(flow, error)
            return True
        frame, state = message.content, states.of(flow)
        # Whatever fails below, this one does not go on.
        message.drop()
        if state is not None and state.socket is not None:
            refused = refusal.of_failure(flow, state.socket.api, error)
            told = self._calls.refusal(frame, refused)
        else:
            refused = refusal.of_failure(flow, None, error)
            searched = state.searched_socket if state is not None else None
            told = (searched.kind if searched is not None else UNKNOWN_SOCKET).refusal(refused.reason)
        refusal.count(flow, refused, self._requests.journal)
        websocket_frames.inject(flow, told, to_client=True)
        return True

    def end(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is closed."""
        if (state := states.of(flow)) is None:
            return
        self._privacy.websocket_end(flow, state)
        if state.socket is not None:
            self._calls.end(flow, state.socket)
        states.forget(flow)
