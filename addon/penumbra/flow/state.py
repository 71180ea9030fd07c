"""All that is known of a flow while it lasts: one object, begun with its request and forgotten at its end.

A step of a response's way (`Step`; `response.py` has their order) keeps a record of its own there, which this
module does not know. `Session` and `Guard` are what the splice asks of such records, `TurnEnd` and `Refused`
what its hooks hand to the steps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from penumbra.apis.responses import Response
from penumbra.config.settings import Settings
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow.current_settings import Lease
from penumbra.flow.mitm import Flow, Headers, HttpResponse
from penumbra.metrics.sessions import TurnRecord

MOST_FLOWS = 10_000
"""Beyond, the oldest are looked at: mitmproxy may not have reported their end."""
LONGEST = 86_400.0
"""Seconds. A flow that is older, with so many others begun after it, has ended unseen. A younger one stays,
however many there are: without its state it would show its client what is not the client's."""
T = TypeVar("T")


class Session(Protocol):
    """A response that may be spliced."""

    spliceable: bool
    """Set by the layer, when the response's headers arrive."""
    live: bool
    """The response is streamed through `feed`; otherwise it is one document."""

    @property
    def holding(self) -> bool:
        """A keep-alive is due if nothing else is sent."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Bytes of a continuation (no content coding) in, bytes for the client out."""
        ...

    def keep_alive(self) -> bytes:
        """A keep-alive, which will be sent."""
        ...


class Guard(Protocol):
    """Looks at a response before anything of it goes to the client."""

    patience: float
    """Seconds after which a stream's head and beginning go out, whatever they are; 0: at once."""

    def first(self, headers: Headers, data: bytes) -> bool | None:
        """The first bytes of a stream with these headers, piece by piece. True: it is a refusal, False:
        it goes on its way, None: more has to be seen."""
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
    """The continuation's connection broke."""
    shown: bool = False
    """The continuation has brought bytes to the client."""
    encoded: bytes = b""
    """The continuation's body, with its content coding, where it could not be read as it came."""
    body: bytes = b""
    """A response that is one document: in, the first response's bytes; out, those for the client."""
    following: Flow | None = None
    """Out: the request to go on with."""
    out: bytes = b""
    """Out: bytes for the client, where the response is live. After them it breaks off, if its flow's state
    says that it is broken."""


@dataclass
class Refused:
    """Argument of the `penumbra_refused` hook."""

    flow: Flow
    """The client's flow; its response is the one that was looked at."""
    body: bytes
    """The response with its content coding, or none if the connection broke."""
    error: str | None = None
    """The connection of a request that was sent again broke."""
    following: Flow | None = None
    """Out: the request to send instead."""
    restore: bool = False
    """Out: the client gets the very first response."""


@dataclass
class FlowState:
    lease: Lease
    """The settings and the engine that it began with."""
    session: Session | None = None
    """The tool loop's record of the response; None: the splice leaves the response alone."""
    guard: Guard | None = None
    """The overflow retry's record of the request; None: nothing is sent instead of the request."""
    format: str = ""
    """Format of the API that the request calls; empty until the request is sent."""
    has_placeholders: bool = False
    """The request holds placeholders."""
    is_searched: bool = False
    """The request may go on only if it was searched for secrets."""
    observed: Settings | None = None
    """The settings by which it is worked out what would have become of the request."""
    is_untouched: bool = False
    """A call of an LLM that went as it came: so does its response."""
    threshold: str | None = None
    """Threshold that a WebSocket's opening set for all of its frames."""
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
    _records: dict[type, object] = field(default_factory=dict)

    def get(self, kind: type[T]) -> T | None:
        """Return the record of this class; None: its step has nothing to do with the flow."""
        record = self._records.get(kind)
        return record if isinstance(record, kind) else None

    def put(self, record: object) -> None:
        """Keep a step's record in the place of an earlier one of its class."""
        self._records[type(record)] = record

    def drop(self, kind: type) -> None:
        """Forget the record of this class, if there is one."""
        self._records.pop(kind, None)

    def end(self) -> None:
        self.lease.end()


# Kept by the process, not by the addon: a reload of the script makes a new addon while flows go on.
_STATES: dict[str, FlowState] = {}
"""States by the id of their flow, the oldest first."""


def begin(flow: Flow, lease: Lease) -> FlowState:
    """Begin the state of a flow, which owns the lease."""
    forget(flow)
    while len(_STATES) >= MOST_FLOWS and next(iter(_STATES.values())).begun < time.monotonic() - LONGEST:
        _STATES.pop(next(iter(_STATES))).end()
    state = _STATES[flow.id] = FlowState(lease)
    return state


def of(flow: Flow) -> FlowState | None:
    """Return what is known of a flow; None: it is none of ours, or has ended."""
    return _STATES.get(flow.id)


def all_states() -> tuple[FlowState, ...]:
    """Return the states of all flows under way."""
    return tuple(_STATES.values())


def by_id(flow_id: str) -> FlowState | None:
    """Return a flow's state by the flow's id."""
    return _STATES.get(flow_id)


def forget(flow: Flow) -> None:
    """Drop a flow's state and end its lease."""
    if (state := _STATES.pop(flow.id, None)) is not None:
        state.end()


def add_note(flow: Flow, note: str) -> None:
    """Say more of a flow in its comment."""
    flow.comment = f"{flow.comment}; {note}" if flow.comment else f"Penumbra: {note}"


class Step:
    """One step of a response's way: does nothing, unless a step says otherwise. All that a step knows of a
    flow stands in the flow's state."""

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """A request is about to be sent; only headers may be changed."""

    def headers(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """A response begins: decide how it is read."""

    def filtered(self, flow: Flow, state: FlowState, response: Response) -> Response:
        """A stream that the tool loop reads, as it is to go to the client."""
        return response

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """A response is complete; of a stream, the client has got it already."""

    async def failed(self, flow: Flow, state: FlowState) -> None:
        """The flow has ended before its response."""
