"""This module keeps the state of each flow in one object from the flow's request to the flow's end.

Each step of a response (`Step`, in the order of `response.py`) keeps its own record in the state. This module
does not know the classes of these records. The splice uses two of the records as `Session` and `Guard`. The
splice's hooks pass `TurnEnd` and `Refused` to the steps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from penumbra.apis.responses import Response
from penumbra.config.settings import Settings
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.expand.loop import Ask, Broken, Done
from penumbra.flow.current_settings import EngineHandle
from penumbra.flow.mitm import Flow, Headers, HttpResponse
from penumbra.metrics.sessions import TurnRecord

MOST_FLOWS = 10_000
"""If there are more flows, the oldest are checked, because mitmproxy may not have reported their end."""
LONGEST = 86_400.0
"""If there are more than `MOST_FLOWS` flows, a flow counts as ended after this number of seconds. Younger
flows stay, because without the state a client would see hidden parts of the response."""
T = TypeVar("T")


class Session(Protocol):
    """A `Session` is a response that may be spliced."""

    spliceable: bool
    """True if the response can be spliced. The layer sets this when the response's headers arrive."""
    live: bool
    """True if the response is streamed through `feed`; False if the response is one document."""

    @property
    def is_delayed(self) -> bool:
        """True if events are delayed. A keep-alive is then needed if no other bytes are sent."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Take decoded bytes of a continuation, and return bytes for the client."""
        ...

    def keep_alive(self) -> bytes:
        """Return a keep-alive for the caller to send."""
        ...

    def ended(self, turn: TurnEnd) -> bool:
        """End a turn if no work must be awaited. Return False if the hook must end the turn."""
        ...


class Guard(Protocol):
    """A `Guard` reads a response before the client gets any of it."""

    patience: float
    """The number of seconds by which a stream's head and beginning may be delayed; 0 for no delay."""

    def first(self, headers: Headers, data: bytes) -> bool | None:
        """Take the first bytes of a stream with these headers, piece by piece. Return True for a refusal,
        False for any other response, and None if more bytes are needed."""
        ...

    def is_accepted(self, response: HttpResponse, body: bytes) -> bool:
        """Return whether a whole response is certainly no refusal. `body` is its encoded body."""
        ...


@dataclass
class TurnEnd:
    """A `TurnEnd` is the end of an upstream response. `Session.ended` or the hook says what follows."""

    flow: Flow
    """The client's flow."""
    session: Session
    continuation: Flow | None = None
    """The flow that has ended; None at the end of the first response."""
    error: str | None = None
    """The reason why the continuation's connection broke; None if the connection did not break."""
    shown: bool = False
    """True if the continuation has brought bytes to the client."""
    encoded: bytes = b""
    """The continuation's encoded body, if the body could not be read as it arrived."""
    body: bytes = b""
    """The body of a one-document response: as received, and later as sent to the client."""
    following: Flow | None = None
    """The next request, which the hook sets; None if there is no next request."""
    ended: Ask | Broken | Done | None = None
    """The end that `Session.ended` has read for the hook; None if that takes long."""
    out: bytes = b""
    """The bytes of a live response for the client. If `broken` in the flow's state has a reason, the response
    breaks off after them."""


@dataclass
class Refused:
    """A `Refused` is the argument of the `penumbra_refused` hook."""

    flow: Flow
    """The client's flow, with the response that may be a refusal."""
    body: bytes
    """The encoded response; empty if the connection broke."""
    error: str | None = None
    """The reason why a retry's connection broke; None if the connection did not break."""
    following: Flow | None = None
    """The request to send instead, which the hook sets; None to send no other request."""
    restore: bool = False
    """True if the client gets the first response. The hook sets this field."""


@dataclass
class FlowState:
    handle: EngineHandle
    """The settings and the engine at the beginning of the flow."""
    session: Session | None = None
    """The tool loop's record of the response; None if the response is not spliced."""
    guard: Guard | None = None
    """The overflow retry's record of the request; None if no other request can replace this one."""
    format: str = ""
    """The format of the API that the request calls; empty until the request is sent."""
    has_placeholders: bool = False
    """True if the request contains placeholders."""
    is_searched: bool = False
    """True if the request may be sent only after a search for secrets."""
    observed: Settings | None = None
    """The settings for the observation of the request; None if the request is not observed."""
    is_untouched: bool = False
    """True if the request is an LLM call that was sent unchanged. The response then also stays unchanged."""
    threshold: str | None = None
    """The threshold that the request for a WebSocket set for all frames; None without a threshold."""
    spliced: bool = False
    """True if the client's response may differ from the response in the flow."""
    body_to_send: bytes | None = None
    """The body for the client; None if this is the body in the flow."""
    broken: str = ""
    """The reason why the response breaks off for the client; empty if it does not break off."""
    turn: TurnRecord | None = None
    """The journal's entry of the request or of a WebSocket's last frame; None without an entry."""
    response_format: str = ""
    """The format in which the usage of the response is read; empty if the usage is not counted."""
    conversation: bytes = b""
    """The keyed hash of the response's conversation; empty if the request asks for no message."""
    begun: float = field(default_factory=time.monotonic)
    _records: dict[type, object] = field(default_factory=dict)

    def get(self, kind: type[T]) -> T | None:
        record = self._records.get(kind)
        return record if isinstance(record, kind) else None

    def put(self, record: object) -> None:
        """Store a step's record. An earlier record of the same class is replaced."""
        self._records[type(record)] = record

    def drop(self, kind: type) -> None:
        self._records.pop(kind, None)

    def end(self) -> None:
        self.handle.end()


# The states belong to the process and not to the addon: a reload of the script makes a new addon while flows
# continue.
_STATES: dict[str, FlowState] = {}
"""The states by the id of their flow. The oldest state comes first."""


def begin(flow: Flow, handle: EngineHandle) -> FlowState:
    """Make the state of a flow. The state owns the handle."""
    forget(flow)
    while len(_STATES) >= MOST_FLOWS and next(iter(_STATES.values())).begun < time.monotonic() - LONGEST:
        _STATES.pop(next(iter(_STATES))).end()
    state = _STATES[flow.id] = FlowState(handle)
    return state


def of(flow: Flow) -> FlowState | None:
    """Return the state of a flow; None if the flow has no state or has ended."""
    return _STATES.get(flow.id)


def all_states() -> tuple[FlowState, ...]:
    return tuple(_STATES.values())


def by_id(flow_id: str) -> FlowState | None:
    return _STATES.get(flow_id)


def forget(flow: Flow) -> None:
    if (state := _STATES.pop(flow.id, None)) is not None:
        state.end()


def add_note(flow: Flow, note: str) -> None:
    flow.comment = f"{flow.comment}; {note}" if flow.comment else f"Penumbra: {note}"


class Step:
    """A `Step` is one step of a response, with a record in the flow's state. The base class does nothing."""

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """Take a request that will be sent. Only headers of the request may still change."""

    def headers(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Decide how to read a response whose headers have arrived."""

    def filtered(self, flow: Flow, state: FlowState, response: Response) -> Response:
        """Return a stream that the tool loop reads, with the edits of this step."""
        return response

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Take a complete response. If the response was streamed, the client already has it."""

    async def failed(self, flow: Flow, state: FlowState) -> None:
        """Take a flow that ended before its response was complete."""
