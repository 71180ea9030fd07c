"""This module handles the Responses API over WebSocket. The client's frames are rewritten one by one like
HTTP bodies, and the injected tool is removed from the provider's frames. If the model asks for originals,
Penumbra sends them to the provider in its own frame on the same socket. The client sees one response. For
other APIs, the client's frames are only searched for secrets. A frame that must be searched and can't be
searched is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penumbra.apis import responses_socket
from penumbra.apis.base import Failure
from penumbra.apis.formats import FORMATS
from penumbra.apis.recognise import UNKNOWN_SOCKET, Api, apis
from penumbra.apis.responses_socket import BEGIN, CREATE, NAMING, STEER, Envelope, SocketRequest
from penumbra.conversation.incoming import Accepted, Incoming, Refused, unsearched
from penumbra.errors import contained, place
from penumbra.expand.loop import Ask, Broken, Continue, Done, ToolLoop
from penumbra.flow import bodies, hidden_requests, refusal, websocket_streams
from penumbra.flow import state as states
from penumbra.flow.current_settings import EngineHandle
from penumbra.flow.destination import headers_of
from penumbra.flow.mitm import Flow, WebSocketMessage
from penumbra.flow.request import RequestWay, described
from penumbra.flow.response import ResponseWay, look_at_message
from penumbra.flow.tool_loop import MOST_RETRIES, LoopedResponse
from penumbra.flow.websocket_streams import (
    SearchedSocket,
    Sending,
    Socket,
    SocketStream,
    Waiting,
    WebSocketRetry,
    inject,
)
from penumbra.redaction import RedactionError
from penumbra.retry.portions import Portions

_log = logging.getLogger(__name__)


class WebSockets:
    """The hooks for WebSockets. The state of a connection is in its flow's `FlowState`."""

    def __init__(
        self, handle: Callable[[], EngineHandle], requests: RequestWay, responses: ResponseWay
    ) -> None:
        """`handle` returns a handle on the settings and the engine for a request that begins now."""
        self._handle = handle
        self._requests = requests
        self._turns, self._privacy, self._tracing = responses.turns, responses.privacy, responses.tracing
        self._retry = WebSocketRetry(_described, responses.turns.recovered)

    def start(self, flow: Flow) -> None:
        state = states.of(flow)
        if state is None or not websocket_streams.is_read(state):
            return
        websocket_streams.keep_letters_whole()
        if (socket := state.get(Socket)) is not None:
            socket.is_open = True
            hidden_requests.watch(flow.client_conn)

    async def message(self, flow: Flow) -> None:
        """Rewrite or search a frame. The next frame waits for the end of this hook. Raises RedactionError."""
        state = states.of(flow)
        if state is None and self._requests.must_search(flow):
            raise RedactionError("its connection is not known any more")
        message = flow.websocket.messages[-1] if flow.websocket is not None else None
        if state is None or message is None or message.injected:
            return
        if (socket := state.get(Socket)) is not None:
            await self._message(flow, socket, message)
        elif (searched := state.get(SearchedSocket)) is not None and message.from_client:
            known, kind = searched.kind is not UNKNOWN_SOCKET, "text/plain" if message.is_text else ""
            others = self._requests.others
            frame = await others.frame(flow, message.content, kind, known=known, strict=searched.strict)
            if frame is not message.content:
                websocket_streams.put(message, frame)

    def failed(self, flow: Flow, error: BaseException) -> bool:
        """Refuse a client's frame whose hook raised, if the frame had to be searched. Return whether the
        error has been logged."""
        assert flow.websocket is not None
        message = flow.websocket.messages[-1]
        if not message.from_client or message.injected:
            return False
        if not self._requests.must_search_frame(flow):
            refusal.leave(flow, error)
            return True
        frame, state = message.content, states.of(flow)
        # The frame stays dropped even if the code below fails.
        message.drop()
        if state is not None and (socket := state.get(Socket)) is not None:
            refused = refusal.of_failure(flow, socket.api, error)
            envelope = responses_socket.envelope(frame) or Envelope()
            answer = responses_socket.refusal(refused.status, refused.body, envelope.stream)
        else:
            refused = refusal.of_failure(flow, None, error)
            searched = state.get(SearchedSocket) if state is not None else None
            answer = (searched.kind if searched is not None else UNKNOWN_SOCKET).refusal(refused.reason)
        refusal.count(flow, refused, self._requests.journal)
        inject(flow, answer, to_client=True)
        return True

    def end(self, flow: Flow) -> None:
        """Store the responses that a closed WebSocket interrupted. Forget the flow."""
        if (state := states.of(flow)) is None:
            return
        self._privacy.websocket_end(flow, state)
        if (socket := state.get(Socket)) is not None:
            socket.is_open = False
            for waiting in (one for stream in socket.streams.values() for one in stream.waiting):
                if waiting.looped is not None:
                    self._turns.interrupted(flow, waiting.looped, waiting.turn)
                self._trace(flow, waiting)
                waiting.handle.end()
        states.forget(flow)

    async def _message(self, flow: Flow, socket: Socket, message: WebSocketMessage) -> None:
        envelope = responses_socket.envelope(message.content)
        if envelope is None and not message.from_client:
            return
        envelope = envelope or Envelope()
        if message.from_client:
            frame = await self._sent(flow, socket, message.content, envelope, message.is_text)
        else:
            frame = await self.received(flow, socket, message.content, envelope)
        websocket_streams.put(message, frame)

    def _trace(self, flow: Flow, waiting: Waiting) -> None:
        if waiting.turn is not None:
            self._tracing.ended(waiting.turn, flow.request.headers)

    # From the client

    async def _sent(
        self, flow: Flow, socket: Socket, frame: bytes, envelope: Envelope, is_text: bool
    ) -> bytes:
        """Return the frame for the provider; empty if no frame is sent."""
        stream = socket.streams.setdefault(envelope.stream, SocketStream())
        if envelope.type == CREATE and stream.is_busy:
            stream.delayed.append((frame, is_text))
            return b""
        if envelope.type in (CREATE, STEER):
            return await self._request(flow, socket, stream, frame, envelope)
        return self._renamed(socket, await self._searched(flow, socket, frame, envelope))

    async def _searched(self, flow: Flow, socket: Socket, frame: bytes, envelope: Envelope) -> bytes:
        """Return a frame that is no request, without its secrets; empty if the frame is refused."""
        try:
            return await self._requests.others.frame(flow, frame, "", known=True, strict=True)
        except RedactionError as error:
            refused = unsearched(socket.api, error)
            self._refuse(flow, refused.status, refused.body, envelope)
            return b""

    async def _request(
        self, flow: Flow, socket: Socket, stream: SocketStream, frame: bytes, envelope: Envelope
    ) -> bytes:
        """Return the frame that the provider gets for a client's request; empty if the request is refused."""
        asked = stream.history.asked(frame)
        frame = responses_socket.renamed(frame, socket.begun_twice) if socket.begun_twice else frame
        api = socket.api if envelope.type == CREATE else _steering()
        with self._handle() as handle:
            outcome = await self._requests.frame(flow, api, frame, handle)
            if isinstance(outcome, Accepted) and envelope.type == CREATE:
                stream.latest = outcome
                waiting = self._waiting(outcome, handle.share(), asked)
                waiting.turn = state.turn if (state := states.of(flow)) is not None else None
                stream.waiting.append(waiting)
        if isinstance(outcome, Refused):
            self._refuse(flow, outcome.status, outcome.body, envelope)
            return b""
        if envelope.type != CREATE or outcome is None:
            stream.lose()
        if envelope.type == CREATE and outcome is None:
            stream.latest = None
        if outcome is not None and outcome.prepared is not None and outcome.prepared.is_offered:
            # The frame already has the right id of the previous response.
            return outcome.rewritten.body
        sent = (
            await self._searched(flow, socket, frame, envelope) if outcome is None else outcome.rewritten.body
        )
        return self._renamed(socket, sent)

    def _renamed(self, socket: Socket, frame: bytes) -> bytes:
        return responses_socket.renamed(frame, socket.ids) if socket.ids else frame

    def _refuse(self, flow: Flow, status: int, body: bytes, envelope: Envelope) -> None:
        inject(flow, responses_socket.refusal(status, body, envelope.stream), to_client=True)

    def _waiting(
        self, accepted: Accepted, handle: EngineHandle, asked: SocketRequest | None = None
    ) -> Waiting:
        body, looped = accepted.rewritten.body, LoopedResponse.of(accepted, handle)
        sending = None if asked is None else Sending(asked, accepted, handle)
        if looped is None:
            wire = FORMATS["openai_responses_socket"]
            return Waiting(accepted, handle, ToolLoop(wire, wire.stream(""), body), None, sending)
        prepared = looped.prepared
        looped.loop = ToolLoop(prepared.wire, prepared.wire.stream(prepared.tool), body)
        return Waiting(accepted, handle, looped.loop, looped, sending)

    # From the provider

    async def received(self, flow: Flow, socket: Socket, frame: bytes, envelope: Envelope) -> bytes:
        """Return the frame that the client gets for a provider's frame; empty if no frame is sent."""
        stream = socket.streams.get(envelope.stream)
        waiting = self._answered(stream, envelope) if stream is not None else None
        if stream is None or waiting is None:
            return frame
        if envelope.fails and waiting.sending is not None:
            if await self._resent(flow, socket, waiting, waiting.sending, frame):
                return b""
            if not waiting.sending.has_begun and not waiting.loop.rounds:
                frame = waiting.sending.first or frame
        if envelope.type == BEGIN:
            _began(socket, waiting, responses_socket.response_id(frame))
        shown = waiting.loop.feed(frame)
        if waiting.looped is None and not (waiting.sending is not None and waiting.sending.count):
            shown = frame
        if waiting.sending is not None:
            waiting.sending.take(envelope, shown)
            if waiting.sending.has_begun and waiting.turn is not None:
                self._turns.taken(waiting.turn)
        waiting.shown |= bool(shown)
        asked_from = waiting.sending.asked_from if waiting.sending is not None else ""
        if shown and (envelope.ends or envelope.type in NAMING) and (socket.names or asked_from):
            shown = responses_socket.for_client(shown, socket.names, "", asked_from)
        if not envelope.ends:
            return shown
        rest = await self._ended(flow, socket, stream, waiting)
        if rest:
            rest = responses_socket.for_client(rest, socket.names, envelope.stream, asked_from)
        if shown and rest:
            inject(flow, rest, to_client=True)
        return shown or rest

    def _answered(self, stream: SocketStream, envelope: Envelope) -> Waiting | None:
        """Return the request that a frame of the provider answers; None if no request waits."""
        if envelope.type == BEGIN:
            if stream.waiting and stream.waiting[0].begun and not stream.waiting[0].loop.rounds:
                # A frame of an unknown type has ended the previous response.
                stream.waiting.popleft().handle.end()
            if not stream.waiting and stream.latest is not None:
                # Words that the client adds during a response continue this response without a new request.
                stream.waiting.append(self._waiting(stream.latest, self._handle()))
            if stream.waiting:
                stream.waiting[0].begun = True
        return stream.waiting[0] if stream.waiting else None

    async def _ended(self, flow: Flow, socket: Socket, stream: SocketStream, waiting: Waiting) -> bytes:
        step = await self._step(flow, socket, stream, waiting)
        if step is None:
            return b""
        if waiting.sending is not None and (isinstance(step, Continue) or step.sound):
            await self._retry.settle(flow, waiting.sending)
        if isinstance(step, Continue):
            waiting.shown, waiting.retries = False, 0
            if waiting.looped is not None:
                waiting.looped.continuations.append(flow.id)
            inject(flow, step.request, to_client=False)
            return step.out
        stream.waiting.popleft()
        if waiting.sending is not None and step.sound:
            stream.history.answered(waiting.sending.asked)
        if waiting.looped is not None:
            waiting.looped.done = step
            await self._turns.keep(waiting.looped, step)
            self._turns.report(flow, waiting.looped, waiting.turn)
        elif waiting.turn is not None:
            self._turns.bill(waiting.turn, waiting.loop)
        self._trace(flow, waiting)
        with contained(_log, "penumbra: a response could not be kept"):
            if step.sound:
                await self._remember(flow, waiting)
        waiting.handle.end()
        while stream.delayed and not stream.is_busy:
            frame, is_text = stream.delayed.popleft()
            envelope = responses_socket.envelope(frame) or Envelope()
            if sent := await self._request(flow, socket, stream, frame, envelope):
                inject(flow, sent, to_client=False, is_text=is_text)
        return step.out

    async def _step(
        self, flow: Flow, socket: Socket, stream: SocketStream, waiting: Waiting
    ) -> Continue | Done | None:
        """Return the next step of the loop; None if the request is sent again a moment later."""
        loop, looped = waiting.loop, waiting.looped
        sent, turns = loop.request, len(loop.turns)
        step: Ask | Broken | Continue | Done
        if looped is None:
            step = loop.end_turn()
        else:
            try:
                step = await self._turns.advance(looped, loop)
            except Exception as error:
                _log.error("penumbra: a response could not be continued: %s", place(error))
                return loop.failed(Failure(None, b"", f"Penumbra failed: {type(error).__name__}"))
        for turn in loop.turns[turns:]:
            stream.transcript.answered(sent, turn)
        if isinstance(step, Broken) and looped is not None:
            if not waiting.shown and await self._asked_for_less(flow, stream, looped, loop, step):
                return None
            if self._again(flow, socket, stream, waiting, step):
                return None
            return await self._turns.give_up(flow, looped, loop, step.failure)
        return step if isinstance(step, Continue | Done) else Done(b"")

    async def _asked_for_less(
        self, flow: Flow, stream: SocketStream, looped: LoopedResponse, loop: ToolLoop, broken: Broken
    ) -> bool:
        """Send smaller texts if a continuation was refused as too large. Return whether any were sent."""
        smaller = await self._turns.smaller(flow, looped, loop, broken.failure)
        request = stream.transcript.whole(smaller) if smaller is not None else None
        if request is None:
            return False
        loop.again(request)
        inject(flow, request, to_client=False)
        return True

    async def _resent(
        self, flow: Flow, socket: Socket, waiting: Waiting, sending: Sending, refusal: bytes
    ) -> bool:
        """If a request was refused before its response began, send a smaller request. Return whether a
        smaller request was sent."""
        if sending.has_begun or waiting.loop.rounds:
            return False
        if not await self._retry.smaller(flow, socket.api, sending, refusal):
            return False
        accepted = waiting.accepted = sending.accepted
        prepared, find, body = accepted.prepared, accepted.find, accepted.rewritten.body
        if waiting.looped is not None and prepared is not None and find is not None:
            looped = waiting.looped
            looped.prepared, looped.find, looped.portions = prepared, find, Portions(accepted.bounds)
        request = body if prepared is not None and prepared.is_offered else self._renamed(socket, body)
        waiting.begun = False
        waiting.loop.again(request)
        inject(flow, request, to_client=False)
        return True

    def _again(
        self, flow: Flow, socket: Socket, stream: SocketStream, waiting: Waiting, broken: Broken
    ) -> bool:
        """Send a continuation again if that may help. Return whether the continuation was sent."""
        pause = bodies.pause(broken.failure)
        if pause is None or waiting.shown or waiting.retries >= MOST_RETRIES:
            return False
        request = stream.transcript.whole(waiting.loop.request)
        if request is None:
            return False
        waiting.retries += 1
        waiting.loop.again(request)
        # Other streams on the socket continue meanwhile.
        self._turns.later(_inject_later(flow, socket, request, pause * waiting.retries), waiting.handle)
        return True

    async def _remember(self, flow: Flow, waiting: Waiting) -> None:
        """Store the calls of a response, because later frames possibly leave them out."""
        turn = waiting.loop.turns[-1] if waiting.loop.turns else None
        caller = waiting.accepted.request.caller
        if turn is None or caller is None or not turn.finished:
            return
        look_at_message(flow, turn.message)
        if waiting.looped is not None and waiting.looped.prepared.is_offered:
            return
        engine = waiting.handle.engine
        await engine.tool_calls.record(caller.scope, turn.made)
        envelope = responses_socket.envelope(waiting.accepted.rewritten.body)
        if turn.message is None and envelope is not None and not envelope.previous_response_id:
            await engine.expansions.leave_undecided(caller, turn.response_id)


def _began(socket: Socket, waiting: Waiting, latest: str) -> None:
    """Remember the id of a response or of its next turn. The client knows all turns by the first id."""
    asked = waiting.sending.asked if waiting.sending is not None else None
    if waiting.loop.rounds:
        first = waiting.loop.turns[0].response_id
        socket.ids[first] = latest
        socket.names[latest] = asked.known_as if asked is not None and asked.known_as else first
    elif asked is not None and asked.known_as and asked.known_as != latest:
        socket.ids[asked.known_as] = socket.begun_twice[asked.known_as] = latest
        socket.names[latest] = asked.known_as
    elif asked is not None:
        asked.known_as = latest


def _described(flow: Flow, api: Api, frame: bytes) -> Incoming:
    return described(flow, api, frame, headers_of(flow.request), socket=True)


def _steering() -> Api:
    """Return the API for frames that add a client's words during a response and request no new response."""
    return next(api for api in apis() if api.id == "openai-responses-count")


async def _inject_later(flow: Flow, socket: Socket, frame: bytes, pause: float) -> None:
    await asyncio.sleep(pause)
    if socket.is_open:
        inject(flow, frame, to_client=False)
