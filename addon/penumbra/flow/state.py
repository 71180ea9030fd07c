"""What is known of a flow while it lasts."""

from __future__ import annotations

from dataclasses import dataclass

from mitmproxy import http

from penumbra.flow.engines import Lease


@dataclass
class FlowState:
    """One client's flow, from its request to its end."""

    lease: Lease
    """The settings and the engine that it began with."""


# Of the process, not of the addon: a reload of the script makes a new addon while flows go on.
_STATES: dict[str, FlowState] = {}
"""By id of the flow."""


def begin(flow: http.HTTPFlow, lease: Lease) -> FlowState:
    """The flow's request is looked at."""
    forget(flow)
    state = _STATES[flow.id] = FlowState(lease)
    return state


def of(flow: http.HTTPFlow) -> FlowState | None:
    """What is known of a flow; None: it is none of ours, or has ended."""
    return _STATES.get(flow.id)


def forget(flow: http.HTTPFlow) -> None:
    """The flow has ended."""
    if (state := _STATES.pop(flow.id, None)) is not None:
        state.lease.end()


class FlowEnd:
    """A child addon, behind all others."""

    def response(self, flow: http.HTTPFlow) -> None:
        """A response is complete."""
        if flow.websocket is None:
            forget(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        """A flow has ended before its response."""
        forget(flow)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is closed."""
        forget(flow)
