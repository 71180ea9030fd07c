"""The state of a flow: one object, made with its request and forgotten at its end.

A step of a response's way (`Step`; `response.py` has their order) keeps a record of its own there, which this
module does not know. The splice reads such records as `Session` and `Guard`; its hooks hand `TurnEnd` and
`Refused` to the steps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from penumbra.apis.responses import Response
from penumbra.config.settings import Settings
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow.current_settings import EngineHandle
from penumbra.flow.mitm import Flow, Headers, HttpResponse
from penumbra.metrics.sessions import TurnRecord

MOST_FLOWS = 10_000
"""The number of flows above which the oldest are checked, since mitmproxy may not have reported their end."""
LONGEST = 86_400.0
"""Seconds after which a flow counts as ended if there are so many. Younger flows stay, since without a flow's
state the client would see hidden parts of the response."""
T = TypeVar("T")


class Session(Protocol):
    """A response that may be spliced."""

    spliceable: bool
    """Set by the layer, when the response's headers arrive."""
    live: bool
    """True if the response is streamed through `feed`; otherwise it is one document."""

    @property
    def holding(self) -> bool:
        """True if events are delayed, so that a keep-alive is due if nothing else is sent."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Take bytes of a continuation, without content coding; return bytes for the client."""
        ...

    def keep_alive(self) -> bytes:
        """Return a keep-alive, which the caller sends."""
        ...


class Guard(Protocol):
    """A `Guard` reads a response before any byte of it goes to the client."""

    patience: float
    """Seconds by which a stream's head and beginning may be delayed; 0: not at all."""

    def first(self, headers: Headers, data: bytes) -> bool | None:
        """Take the first bytes of a stream with these headers, piece by piece. Return True for a refusal,
        False for any other response, and None if more bytes are needed."""
        ...


@dataclass
class TurnEnd:
    """Argument of the `penumbra_turn_end` hook."""

    flow: Flow
    """The client's flow."""
    session: Session
    continuation: Flow | None = None
    """The flow that has ended; None at the end of the first response."""
    error: str | None = None
    """The reason why the continuation's connection broke."""
    shown: bool = False
    """True if the continuation has brought bytes to the client."""
    encoded: bytes = b""
    """The continuation's body, with its content coding, where it could not be read as it came."""
    body: bytes = b""
    """For a response that is one document: the first response's bytes, and after the hook the client's
    bytes."""
    following: Flow | None = None
    """The next request, set by the hook."""
    out: bytes = b""
    """The bytes for the client of a live response, set by the hook. After them the response breaks off if its
    flow's state has a reason in `broken`."""


@dataclass
class Refused:
    """Argument of the `penumbra_refused` hook."""

    flow: Flow
    """The client's flow, with the response that may be a refusal."""
    body: bytes
    """The response with its content coding, or none if the connection broke."""
    error: str | None = None
    """The reason why the connection of a retry broke."""
    following: Flow | None = None
    """The request to send instead, set by the hook."""
    restore: bool = False
    """True, set by the hook, if the client gets the very first response."""


@dataclass
class FlowState:
    handle: EngineHandle
    """The settings and the engine of the time when the flow began."""
    session: Session | None = None
    """The tool loop's record of the response; None if the splice leaves the response alone."""
    guard: Guard | None = None
    """The overflow retry's record of the request; None if nothing is sent instead of the request."""
    format: str = ""
    """Format of the API that the request calls; empty until the request is sent."""
    has_placeholders: bool = False
    """True if the request holds placeholders."""
    is_searched: bool = False
    """True if the request may go on only if it was searched for secrets."""
    observed: Settings | None = None
    """The settings for the observation of the request; None if the request is not observed."""
    is_untouched: bool = False
    """True if the request is a call of an LLM and was sent as it came; its response goes on as it comes."""
    threshold: str | None = None
    """Threshold that a WebSocket's opening set for all of its frames."""
    spliced: bool = False
    """True if the client's response may differ from the flow's."""
    body_to_send: bytes | None = None
    """The body for the client, if that is not the flow's body."""
    broken: str = ""
    """The reason why the response breaks off for the client; empty if it does not."""
    turn: TurnRecord | None = None
    """The journal's entry; of a WebSocket, that of the last frame."""
    response_format: str = ""
    """Format to read a response's usage in; empty if its usage is not counted."""
    conversation: bytes = b""
    """Keyed hash of the conversation that the response belongs to; empty if the request only counts
    tokens."""
    begun: float = field(default_factory=time.monotonic)
    _records: dict[type, object] = field(default_factory=dict)

    def get(self, kind: type[T]) -> T | None:
        """Return the record of this class; None if there is none."""
        record = self._records.get(kind)
        return record if isinstance(record, kind) else None

    def put(self, record: object) -> None:
        """Keep a step's record in the place of an earlier one of its class."""
        self._records[type(record)] = record

    def drop(self, kind: type) -> None:
        self._records.pop(kind, None)

    def end(self) -> None:
        self.handle.end()


# Kept by the process, not by the addon: a reload of the script makes a new addon while flows go on.
_STATES: dict[str, FlowState] = {}
"""States by the id of their flow, the oldest first."""


def begin(flow: Flow, handle: EngineHandle) -> FlowState:
    """Make the state of a flow, which owns the handle."""
    forget(flow)
    while len(_STATES) >= MOST_FLOWS and next(iter(_STATES.values())).begun < time.monotonic() - LONGEST:
        _STATES.pop(next(iter(_STATES))).end()
    state = _STATES[flow.id] = FlowState(handle)
    return state


def of(flow: Flow) -> FlowState | None:
    """Return the state of a flow; None if the flow has none, or has ended."""
    return _STATES.get(flow.id)


def all_states() -> tuple[FlowState, ...]:
    return tuple(_STATES.values())


def by_id(flow_id: str) -> FlowState | None:
    return _STATES.get(flow_id)


def forget(flow: Flow) -> None:
    """Drop a flow's state and end its handle."""
    if (state := _STATES.pop(flow.id, None)) is not None:
        state.end()


def add_note(flow: Flow, note: str) -> None:
    """Add a note to a flow's comment."""
    flow.comment = f"{flow.comment}; {note}" if flow.comment else f"Penumbra: {note}"


class Step:
    """One step of a response's way. The step keeps its knowledge of a flow in the flow's state. The methods
    here do nothing."""

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """Note a request that is about to be sent; only headers may be changed."""

    def headers(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Decide how a response that begins is read."""

    def filtered(self, flow: Flow, state: FlowState, response: Response) -> Response:
        """Return a stream that the tool loop reads, with the edits of this step."""
        return response

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Take a complete response; a stream has gone to the client already."""

    async def failed(self, flow: Flow, state: FlowState) -> None:
        """Take a flow that ended before its response did."""
