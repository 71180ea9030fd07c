"""All that is known of a flow while it lasts: one object, begun with its request and forgotten at its end.
And the steps of a response's way (`response.py`) that read it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mitmproxy import http

from penumbra.config.settings import Settings
from penumbra.flow.current_settings import Lease
from penumbra.metrics.events import Summary
from penumbra.metrics.sessions import TurnRecord

if TYPE_CHECKING:
    from penumbra.apis.base import Response
    from penumbra.conversation.incoming import Accepted, Incoming
    from penumbra.flow.hidden_requests import HiddenRequest
    from penumbra.flow.loop_turns import LoopedResponse
    from penumbra.flow.overflow_retry import WatchedRequest
    from penumbra.flow.secret_restoration import RestoredResponse
    from penumbra.flow.usage_scaling import ScaledResponse
    from penumbra.flow.websocket_streams import SearchedSocket, Socket

MOST_FLOWS = 10_000
"""Beyond, the oldest are looked at: their end may not have been told."""
LONGEST = 86_400.0
"""Seconds. What is older than that, with so many others behind it, is taken for such a flow. What is younger
stays, however many there are: without its state a flow would show its client what is not the client's."""


@dataclass
class FlowState:
    """One flow. What a step of the response's way knows of it is None where that step has nothing to do."""

    lease: Lease
    """The settings and the engine that it began with."""
    hidden_request: HiddenRequest | None = None
    """The client does not see it; all that follows is None then."""
    overflow_retry: WatchedRequest | None = None
    tool_loop: LoopedResponse | None = None
    secret_restoration: RestoredResponse | None = None
    usage_scaling: ScaledResponse | None = None
    placeholder_format: str = ""
    """Format of a response that may write placeholders."""
    has_placeholders: bool = False
    """The request holds some."""
    socket: Socket | None = None
    """A WebSocket, or a request that asks for one, whose frames are rewritten."""
    searched_socket: SearchedSocket | None = None
    """A WebSocket whose frames are only searched for secrets."""
    is_searched: bool = False
    """The request may go on only if it was searched for secrets."""
    observed: Settings | None = None
    """By which settings it is worked out what would have become of the request."""
    is_untouched: bool = False
    """A call of an LLM that went as it came: so does its response."""
    threshold: str | None = None
    """Threshold that a WebSocket's opening set for all of its frames."""
    frames: Summary = field(default_factory=Summary)
    """Sums of a WebSocket's frames."""
    frames_comment: str = ""
    """The comment that says so."""
    spliced: bool = False
    """True if the client's response may differ from the flow's."""
    body_to_send: bytes | None = None
    """The body that goes to the client instead; None: what the flow shows."""
    broken: str = ""
    """Why the response can't be completed: it breaks off for the client."""
    turn: TurnRecord | None = None
    """The journal's entry; of a WebSocket, that of the last frame."""
    response_format: str = ""
    """Format to read a response's usage in; empty if its usage is not counted."""
    conversation: bytes = b""
    """Keyed hash of the one that its response belongs to; empty if it only counts."""
    begun: float = field(default_factory=time.monotonic)

    def end(self) -> None:
        """End the flow's lease."""
        self.lease.end()


# Of the process, not of the addon: a reload of the script makes a new addon while flows go on.
_STATES: dict[str, FlowState] = {}
"""By id of the flow, the oldest first."""


def begin(flow: http.HTTPFlow, lease: Lease) -> FlowState:
    """Begin the state of a flow, which owns the lease."""
    forget(flow)
    while len(_STATES) >= MOST_FLOWS and next(iter(_STATES.values())).begun < time.monotonic() - LONGEST:
        _STATES.pop(next(iter(_STATES))).end()
    state = _STATES[flow.id] = FlowState(lease)
    return state


def of(flow: http.HTTPFlow) -> FlowState | None:
    """Return what is known of a flow; None: it is none of ours, or has ended."""
    return _STATES.get(flow.id)


def all_states() -> tuple[FlowState, ...]:
    """Return the states of all flows under way."""
    return tuple(_STATES.values())


def by_id(flow_id: str) -> FlowState | None:
    """Return a flow's state by the flow's id."""
    return _STATES.get(flow_id)


def forget(flow: http.HTTPFlow) -> None:
    """Drop a flow's state and end its lease."""
    if (state := _STATES.pop(flow.id, None)) is not None:
        state.end()


class Step:
    """One step of a response's way: does nothing, unless a step says otherwise. All that it knows of a flow
    stands in the flow's state."""

    def sent(self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """A request is about to be sent; only headers may be changed."""

    def headers(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """A response begins: decide how it is read."""

    def filtered(self, flow: http.HTTPFlow, state: FlowState, response: Response) -> Response:
        """A stream that the tool loop reads, as it is to go to the client."""
        return response

    async def complete(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """A response is complete; of a stream, the client has got it already."""

    async def failed(self, flow: http.HTTPFlow, state: FlowState) -> None:
        """The flow has ended before its response."""
