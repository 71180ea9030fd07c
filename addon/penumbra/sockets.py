"""mitmproxy's face of the Responses API over WebSocket.

A child addon. What the client sends is rewritten frame by frame, as bodies are; of what the provider
sends, the phantom's part stays here. When the model asks for originals, they go to the provider in a
frame of ours on the same socket, and the client sees one answer. Frames of the client that are not this
API's are searched for secrets, and otherwise go on as they came; what can't be searched does not.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mitmproxy import ctx, http
from mitmproxy.proxy.layers import websocket as layers

from penumbra.engine import Accepted, Engine, Refused
from penumbra.expansion import Awaited, Expansion
from penumbra.failures import place
from penumbra.redaction import RedactionError
from penumbra.refused import unsearched
from penumbra.shadow.exchange import Continue, Done, Exchange
from penumbra.wire import responses_socket
from penumbra.wire.answer import Failure
from penumbra.wire.recognise import Api, apis
from penumbra.wire.responses_socket import BEGIN, CREATE, STEER, Envelope
from penumbra.writes import Writes

_WHOLE = 1 << 40
"""Bytes in one frame of a message that was changed."""
_log = logging.getLogger(__name__)

Process = Callable[[http.HTTPFlow, Api, bytes], Awaitable[Accepted | Refused | None]]
"""What becomes of a frame that asks for an answer; None: it is left alone."""
Search = Callable[[http.HTTPFlow, bytes], Awaitable[bytes]]
"""What becomes of any other frame of the client. Raises RedactionError."""


@dataclass
class Waiting:
    """A request that the provider has not answered to the end."""

    accepted: Accepted
    exchange: Exchange
    awaited: Awaited | None
    """None: the model can't ask for originals, and frames only pass by."""
    begun: bool = False


@dataclass
class Lane:
    """Requests of one `stream_id`: their answers come one after the other."""

    waiting: deque[Waiting] = field(default_factory=deque)
    held: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """Frames of the client, and whether they are text, that come before the end of hidden turns."""
    latest: Accepted | None = None

    @property
    def is_busy(self) -> bool:
        """Turns that the client does not see are under way."""
        return bool(self.waiting and self.waiting[0].exchange.holding)


@dataclass
class Socket:
    """One connection."""

    api: Api
    lanes: dict[str, Lane] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """The id that the client knows an answer by, and the one of its latest turn."""


# Of the process, not of the addon: a reload of the script makes a new addon while sockets go on.
_OPENING: dict[str, Api] = {}
"""By id of a flow that asks for a WebSocket."""
_SOCKETS: dict[str, Socket] = {}


def reads(flow: http.HTTPFlow) -> bool:
    """Whether the frames of a flow are read, until `websocket_end` has run here."""
    return flow.id in _SOCKETS


class Sockets:
    """State: none but the module's."""

    def __init__(
        self,
        process: Process,
        search: Search,
        engine: Callable[[], Engine],
        expansion: Expansion,
        writes: Writes,
    ) -> None:
        self._process = process
        self._search = search
        self._engine = engine
        self._expansion = expansion
        self._writes = writes

    def expect(self, flow: http.HTTPFlow, api: Api) -> None:
        """The flow's request may become a WebSocket whose frames are to be rewritten."""
        _OPENING[flow.id] = api

    @property
    def can_rewrite(self) -> bool:
        """Whether mitmproxy shows frames, and lets them be changed without breaking their letters."""
        return bool(ctx.options.websocket) and hasattr(layers.Fragmentizer, "FRAGMENT_SIZE")

    # Hooks

    def response(self, flow: http.HTTPFlow) -> None:
        """An upgrade has been answered."""
        if flow.response is None or flow.id not in _OPENING:
            return
        if flow.response.status_code == 101 and flow.websocket is None:
            # mitmproxy would pass on bytes that nobody reads.
            flow.response = http.Response.make(502)
        if flow.response.status_code != 101:
            _OPENING.pop(flow.id, None)

    def error(self, flow: http.HTTPFlow) -> None:
        """An upgrade has failed."""
        _OPENING.pop(flow.id, None)

    def websocket_start(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is open."""
        api = _OPENING.pop(flow.id, None)
        if api is not None:
            _SOCKETS[flow.id] = Socket(api)
            self._expansion.watch(flow.client_conn)
            # mitmproxy cuts changed messages at any byte, and takes halves of letters for broken ones.
            layers.Fragmentizer.FRAGMENT_SIZE = _WHOLE

    async def websocket_message(self, flow: http.HTTPFlow) -> None:
        """A frame is there; the next one waits for the end of this hook."""
        socket = _SOCKETS.get(flow.id)
        if socket is None or flow.websocket is None:
            return
        message = flow.websocket.messages[-1]
        outside = None if message.injected else responses_socket.envelope(message.content)
        if message.injected or (outside is None and not message.from_client):
            return
        outside = outside or Envelope()
        try:
            if message.from_client:
                frame = await self._sent(flow, socket, message.content, outside, message.is_text)
            else:
                frame = await self._received(flow, socket, message.content, outside)
        except Exception as error:
            _log.error("penumbra: a frame could not be read: %s", place(error))
            frame = message.content if not message.from_client else b""
            if message.from_client:
                # Nothing goes on that has not been searched for secrets.
                told = f"Penumbra could not read this request and did not send it: {place(error)}"
                self._refuse(flow, 500, socket.api.wire.error(500, told), outside)
        if not frame and message.content:
            message.drop()
        elif frame != message.content:
            # Of a message that keeps its length, mitmproxy would keep the old cuts.
            message.content = frame + b" " if len(frame) == len(message.content) else frame

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is closed: what the client has got of an answer, it keeps."""
        socket = _SOCKETS.pop(flow.id, None)
        for lane in socket.lanes.values() if socket else ():
            for waiting in lane.waiting:
                if waiting.awaited is not None:
                    self._expansion.interrupted(flow, waiting.awaited)

    # From the client

    async def _sent(
        self, flow: http.HTTPFlow, socket: Socket, frame: bytes, outside: Envelope, is_text: bool
    ) -> bytes:
        """What goes to the provider; empty: nothing."""
        lane = socket.lanes.setdefault(outside.lane, Lane())
        if outside.type == CREATE and lane.is_busy:
            lane.held.append((frame, is_text))
            return b""
        if outside.type in (CREATE, STEER):
            return await self._request(flow, socket, lane, frame, outside)
        return self._renamed(socket, await self._searched(flow, socket, frame, outside))

    async def _searched(self, flow: http.HTTPFlow, socket: Socket, frame: bytes, outside: Envelope) -> bytes:
        """What goes to the provider of a frame that is none of its requests; empty if it is refused."""
        try:
            return await self._search(flow, frame)
        except RedactionError as error:
            refused = unsearched(socket.api, error)
            self._refuse(flow, refused.status, refused.body, outside)
            return b""

    async def _request(
        self, flow: http.HTTPFlow, socket: Socket, lane: Lane, frame: bytes, outside: Envelope
    ) -> bytes:
        """What goes to the provider for words of the client; empty if they are refused."""
        outcome = await self._process(flow, socket.api if outside.type == CREATE else _steering(), frame)
        if isinstance(outcome, Refused):
            self._refuse(flow, outcome.status, outcome.body, outside)
            return b""
        if outside.type == CREATE:
            lane.latest = outcome
            lane.waiting.extend([self._waiting(outcome)] if outcome is not None else [])
        if outcome is not None and outcome.prepared is not None:
            # It names what it goes on from by the right id already.
            return outcome.rewritten.body
        sent = (
            await self._searched(flow, socket, frame, outside) if outcome is None else outcome.rewritten.body
        )
        return self._renamed(socket, sent)

    def _renamed(self, socket: Socket, frame: bytes) -> bytes:
        return responses_socket.renamed(frame, socket.ids) if socket.ids else frame

    def _refuse(self, flow: http.HTTPFlow, status: int, body: bytes, outside: Envelope) -> None:
        _inject(flow, responses_socket.refusal(status, body, outside.lane), to_client=True)

    def _waiting(self, accepted: Accepted) -> Waiting:
        prepared, find, body = accepted.prepared, accepted.find, accepted.rewritten.body
        if prepared is None or find is None:
            wire = responses_socket.SocketAnswers()
            return Waiting(accepted, Exchange(wire, wire.stream(""), body), None)
        awaited = Awaited(self._engine().expansions, prepared, find, body)
        awaited.exchange = Exchange(prepared.wire, prepared.wire.stream(prepared.tool), body)
        return Waiting(accepted, awaited.exchange, awaited)

    # From the provider

    async def _received(self, flow: http.HTTPFlow, socket: Socket, frame: bytes, outside: Envelope) -> bytes:
        """What goes to the client; empty: nothing."""
        lane = socket.lanes.get(outside.lane)
        waiting = self._answered(lane, outside) if lane is not None else None
        if lane is None or waiting is None:
            return frame
        if outside.type == BEGIN and waiting.exchange.rounds:
            socket.ids[waiting.exchange.turns[0].answer_id] = responses_socket.answer_id(frame)
        shown = waiting.exchange.feed(frame)
        if waiting.awaited is None:
            shown = frame
        if not outside.ends:
            return shown
        rest = await self._ended(flow, socket, lane, waiting)
        if shown and rest:
            _inject(flow, rest, to_client=True)
        return shown or rest

    def _answered(self, lane: Lane, outside: Envelope) -> Waiting | None:
        """The request that a frame belongs to."""
        if outside.type == BEGIN:
            if lane.waiting and lane.waiting[0].begun and not lane.waiting[0].exchange.rounds:
                # The answer before it had an end that is not known.
                lane.waiting.popleft()
            if not lane.waiting and lane.latest is not None:
                # The provider goes on by itself, with what the client has said meanwhile.
                lane.waiting.append(self._waiting(lane.latest))
            if lane.waiting:
                lane.waiting[0].begun = True
        return lane.waiting[0] if lane.waiting else None

    async def _ended(self, flow: http.HTTPFlow, socket: Socket, lane: Lane, waiting: Waiting) -> bytes:
        """A turn has ended: go on, or let the client go on. What is still to be sent to the client."""
        step = await self._step(waiting)
        if isinstance(step, Continue):
            if waiting.awaited is not None:
                waiting.awaited.continuations.append(flow.id)
            _inject(flow, step.request, to_client=False)
            return step.out
        lane.waiting.popleft()
        if waiting.awaited is not None:
            waiting.awaited.done = step
            self._expansion.report(flow, waiting.awaited)
        try:
            await self._remember(flow, waiting)
        except Exception as error:
            _log.error("penumbra: an answer could not be kept: %s", place(error))
        while lane.held and not lane.is_busy:
            frame, is_text = lane.held.popleft()
            outside = responses_socket.envelope(frame) or Envelope()
            if sent := await self._request(flow, socket, lane, frame, outside):
                _inject(flow, sent, to_client=False, is_text=is_text)
        return step.out

    async def _step(self, waiting: Waiting) -> Continue | Done:
        exchange = waiting.exchange
        if waiting.awaited is None:
            ended = exchange.end_turn()
            return ended if isinstance(ended, Done) else Done(b"")
        try:
            return await self._expansion.advance(waiting.awaited, exchange)
        except Exception as error:
            _log.error("penumbra: an answer could not be continued: %s", place(error))
            return exchange.failed(Failure(None, b"", f"Penumbra failed: {type(error).__name__}"))

    async def _remember(self, flow: http.HTTPFlow, waiting: Waiting) -> None:
        """What later frames do not say again."""
        turn = waiting.exchange.turns[-1] if waiting.exchange.turns else None
        caller = waiting.accepted.caller
        if turn is None or caller is None or not turn.finished:
            return
        self._writes.look(flow, turn.message)
        if waiting.awaited is not None:
            return
        engine = self._engine()
        await engine.heard.record(caller.principal, turn.made)
        outside = responses_socket.envelope(waiting.accepted.rewritten.body)
        if turn.message is None and outside is not None and not outside.previous_response_id:
            await engine.expansions.leave_undecided(caller, turn.answer_id)


def _steering() -> Api:
    """How words are read that are put into an answer under way: they ask for none."""
    return next(api for api in apis() if api.id == "openai-responses-count")


def _inject(flow: http.HTTPFlow, frame: bytes, *, to_client: bool, is_text: bool = True) -> None:
    ctx.master.commands.call("inject.websocket", flow, to_client, frame, is_text)
