"""Requests that become WebSockets: what is expected of them, until they are answered."""

from __future__ import annotations

from mitmproxy import http

from penumbra.flow.state import FlowState


def answered(flow: http.HTTPFlow, state: FlowState) -> None:
    """Refuse a change of protocol at a host that is searched, if nobody would read what follows."""
    if flow.websocket is not None:
        # It may stay open for long. Each request on it has a lease of its own.
        state.lease.end()
    if is_unread(flow, state) and (state.is_searched or _is_read(state)):
        flow.websocket, flow.response = None, http.Response.make(502)
    if flow.response is None or flow.response.status_code != 101:
        state.socket = state.searched_socket = None


def is_unread(flow: http.HTTPFlow, state: FlowState | None) -> bool:
    """Return whether mitmproxy would pass on what follows a response without a hook that reads it. Responses
    decide that, whatever their requests have asked for."""
    if flow.response is None or flow.response.status_code != 101:
        return False
    is_read = state is not None and (_is_read(state) or state.lease.settings.websocket == "pass")
    return flow.websocket is None or not is_read


def _is_read(state: FlowState) -> bool:
    return state.socket is not None or state.searched_socket is not None
