"""Requests that become WebSockets: what is expected of them, until they are answered."""

from __future__ import annotations

from mitmproxy import http

from penumbra.flow.state import FlowState
from penumbra.flow.step import Step


class WebSocketOpening(Step):
    """State: none."""

    async def complete(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """An upgrade has been answered."""
        if flow.websocket is not None:
            # It may stay open for long. Each request on it has a lease of its own.
            state.lease.end()
        if state.socket is None and state.searched_socket is None:
            return
        if response.status_code == 101 and flow.websocket is None:
            # mitmproxy would pass on bytes that nobody reads.
            response = flow.response = http.Response.make(502)
        if response.status_code != 101:
            state.socket = state.searched_socket = None
