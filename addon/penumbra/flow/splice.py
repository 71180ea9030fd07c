"""The splice makes one response for the client from several upstream responses, as they arrive.

This file uses mitmproxy's proxy core below its public interface. When an upstream response ends, the client's
session ends the turn, or an awaited hook, `penumbra_turn_end`, ends it. If the hook names a request, this
request runs as a second stream of the client's own HTTP layer. The second stream reuses the upstream
connection, or opens a connection in the same mode with the same TLS options. The second stream's flow passes
all hooks. The stream's events for the client become events of the client's stream. No function is patched:
`install` changes the class of layers in the public `next_layer` hook.

Before the first use, `incompatible` checks the methods of mitmproxy that this file needs.
"""

from __future__ import annotations

import inspect
import itertools
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from mitmproxy import http
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream, SendHttp
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._hooks import HttpResponseHook
from wsproto.frame_protocol import CloseReason

from penumbra.flow import bodies, guarded
from penumbra.flow import state as states
from penumbra.flow.mitm import header
from penumbra.flow.state import Guard, Refused, Session, TurnEnd
from penumbra.wire import framing


@dataclass
class PenumbraTurnEndHook(commands.StartHook):
    """The hook after the end of an upstream response, while the client's response is still open."""

    turn: TurnEnd


@dataclass
class PenumbraRefusedHook(commands.StartHook):
    """The hook for a response of which the client has got nothing. The response is complete, begins with an
    error, or was broken off."""

    refused: Refused


KEEP_ALIVE_SECONDS = 5.0
TURN_SECONDS = 0.005
"""After a connection has worked for this number of seconds, it pauses for the same time, so that other
connections can work."""
SMALLEST_PIECE, LARGEST_PIECE = 256, 4_096
"""The smallest and the greatest number of bytes that are read at once."""


def _guard(flow: http.HTTPFlow) -> Guard | None:
    """Return the guard of the flow's response until the response is complete, then None."""
    state = states.of(flow)
    return state.guard if state is not None else None


def _session(flow: http.HTTPFlow) -> Session | None:
    """Return the session of the flow's response until the response is complete, then None."""
    state = states.of(flow)
    return state.session if state is not None else None


# Hidden requests have negative ids, because the ids of a client's streams are never negative.
_continuation_ids = itertools.count(-2, -1)


class Purpose(Enum):
    INSTEAD = auto()
    """The request replaces the client's request, which was refused."""
    CONTINUATION = auto()
    """The response to the request continues the client's response."""


@dataclass
class Running:
    """A `Running` is a hidden request until the end of its response. A client's stream has at most one.

        none ── refused ───► INSTEAD ── refused again ──► INSTEAD
          │                     └── its response ends ──► none
          └──── turn ended ► CONTINUATION ── it ends, or its connection breaks ──► none

    `SpliceStream._handle_event` handles a break of the client's or the upstream connection in each state.
    """

    purpose: Purpose
    id: int
    """The id of the request's stream."""
    flow: http.HTTPFlow
    shown: bool = False
    """True if the client has got a part of the response."""
    readable: bool = False
    """True if the session can read the response as it arrives."""
    unread: bytearray = field(default_factory=bytearray)
    """The body of the response, if the session can't read the response as it arrives."""


class SpliceStream(HttpStream):
    """A client's stream that can be continued, or the stream of a hidden request."""

    parent_id: int | None = None
    """Id of the client's stream; None if this is the client's stream."""
    running: Running | None = None
    session: Session | None = None
    wakeup: commands.RequestWakeup | None = None
    quiet = True
    """True if the client has got no bytes since a keep-alive was last due."""
    headers: http.Headers | None = None
    """Headers of the response as they arrived; None before they arrive, and in a flow without a guard."""
    original: tuple[http.Response, bytes] | None = None
    """The first response, if another request was sent; otherwise None."""
    delayed: list[events.Event]
    """The first events of a stream that may be a refusal."""
    patience: commands.RequestWakeup | None = None
    """The timer after which the delayed events are sent; None if no events were ever delayed."""
    too_large: bodies.Bound | None = None
    """The bound that the request's body exceeds; None if the body exceeds no bound."""

    # Each generator on the way costs time for each command, so these methods return the next generator.

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        work = super().handle_event(event)
        return work if self.parent_id is None else self._for_parent(work, self.parent_id)

    def _for_parent(self, work: layer.CommandGenerator[None], parent_id: int) -> layer.CommandGenerator[None]:
        """Do the work of a hidden request's stream. Commands for the client become events of the client's
        stream."""
        for command in work:
            if isinstance(command, SendHttp) and command.connection is self.context.client:
                event_for_client = command.event
                event_for_client.stream_id = parent_id
                if isinstance(event_for_client, ResponseHeaders):
                    # The response is copied, because the two flows may be streamed in different ways.
                    event_for_client.response = event_for_client.response.copy()
                yield ReceiveHttp(event_for_client)
            else:
                yield command

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if type(event) is ResponseData:
            work: layer.CommandGenerator[None] = self.server_state(event)
            return work
        if isinstance(event, events.Wakeup):
            return self._woken(event)
        if isinstance(event, RequestProtocolError) and self.running is not None:
            return self._client_gone(event, self.running)
        if isinstance(event, ResponseProtocolError) and self.running is not None:
            if self.running.purpose is Purpose.CONTINUATION:
                return self._turn_end(error=event.message)
            return self._replacement_broken(event)
        if isinstance(event, (RequestProtocolError, ResponseProtocolError)):
            return self._broken(event)
        return self._stock_event(event)

    def _woken(self, event: events.Wakeup) -> layer.CommandGenerator[None]:
        if event.command is self.wakeup and self.session is not None:
            yield from self._keep_alive(self.session)
        elif event.command is self.patience and self.server_state == self.state_look:
            yield from self._release()

    # The client's or the upstream connection breaks

    def _client_gone(self, event: RequestProtocolError, running: Running) -> layer.CommandGenerator[None]:
        """End the hidden request, because the client has gone."""
        self.running = self.wakeup = None
        yield ReceiveHttp(RequestProtocolError(running.id, event.message, event.code))
        yield from super()._handle_event(event)

    def _replacement_broken(self, event: ResponseProtocolError) -> layer.CommandGenerator[None]:
        """If a part of another response has been sent, break off the client's response. Otherwise ask for
        another request; without one, return to the first response."""
        if self.server_state in (self.state_stream_response_body, self.state_done, self.state_errored):
            yield from self._broken(event)
            return
        self.running = None
        if not (yield from self._send_again(b"", event.message)):
            yield from self._go_on(ResponseEndOfMessage(self.stream_id))

    def _broken(self, event: events.Event) -> layer.CommandGenerator[None]:
        is_delayed = self.server_state in (self.state_look, self.state_refused)
        if isinstance(event, ResponseProtocolError) and is_delayed:
            yield from self._release()
        self.wakeup = None
        yield from self._stock_event(event)

    def _stock_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        continues = self.running is not None and self.running.purpose is Purpose.CONTINUATION
        if isinstance(event, ResponseHeaders) and not continues:
            return self._response_begins(event)
        stock: layer.CommandGenerator[None] = super()._handle_event(event)
        return stock

    def _response_begins(self, event: ResponseHeaders) -> layer.CommandGenerator[None]:
        if _guard(self.flow) is not None:
            self.headers = event.response.headers.copy()
        if (session := _session(self.flow)) is not None:
            self.session, session.spliceable = session, True
        yield from super()._handle_event(event)
        if self.session is not None and self._is_live():
            yield from self._wake_later()

    def state_consume_request_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        """Drop the bytes of a body that is too large."""
        bound = self.too_large or bodies.BOUNDS.get(self.flow)
        if bound is not None and isinstance(event, RequestData):
            if self.too_large is None and len(self.request_body_buf) + len(event.data) > bound.most:
                self.too_large = bound
                self.request_body_buf.clear()
            if self.too_large is not None:
                return
        if isinstance(event, RequestEndOfMessage):
            bodies.BOUNDS.pop(self.flow, None)
            if self.too_large is not None:
                self.too_large.refuse(self.flow)
        yield from super().state_consume_request_body(event)

    # A response that is a refusal

    def start_response_stream(self) -> layer.CommandGenerator[None]:
        guard = _guard(self.flow)
        if guard is not None and guard.patience and self.headers is not None:
            self.delayed, self.patience = [], commands.RequestWakeup(guard.patience)
            self.server_state = self.state_look
            yield self.patience
            return
        yield from super().start_response_stream()

    def state_look(self, event: events.Event) -> layer.CommandGenerator[None]:
        """Delay the first bytes of a stream until the guard knows whether they are a refusal."""
        self.delayed.append(event)
        guard = _guard(self.flow)
        refused = False if guard is None or isinstance(event, ResponseEndOfMessage) else None
        if guard is not None and self.headers is not None and isinstance(event, ResponseData):
            refused = guard.first(self.headers, event.data)
        if refused:
            self.server_state = self.state_refused
        elif refused is False:
            yield from self._release()

    def state_refused(self, event: events.Event) -> layer.CommandGenerator[None]:
        """Take the remaining bytes of a stream that began with an error."""
        self.delayed.append(event)
        if isinstance(event, ResponseEndOfMessage):
            self.running = None
            body = b"".join(delayed.data for delayed in self.delayed if isinstance(delayed, ResponseData))
            if not (yield from self._send_again(body)):
                if self.original is None:
                    yield from self._release()
                else:
                    yield from self._go_on(event)

    def _release(self) -> layer.CommandGenerator[None]:
        delayed, self.delayed = self.delayed, []
        yield from super().start_response_stream()
        for event in delayed:
            yield from self._stock_event(event)

    def _send_again(self, body: bytes, error: str | None = None) -> layer.CommandGenerator[bool]:
        """Ask the hook for another request, or put the first response back into the flow. Return whether a
        request is sent or the flow has ended."""
        refused = Refused(self.flow, body, error)
        response, headers = self.flow.response, self.headers
        yield PenumbraRefusedHook(refused)
        if (yield from self.check_killed(True)):
            return True
        if refused.following is not None:
            if self.original is None and response is not None:
                if headers is not None:
                    response.headers = headers
                self.original = (response, body)
            self._expect_another()
            yield from self._run(Purpose.INSTEAD, refused.following)
            return True
        if refused.restore and self.original is not None:
            self.flow.response, body = self.original
            self.flow.response.stream = False
            self._expect_another()
            self.response_body_buf += body
        return False

    def _expect_another(self) -> None:
        self.response_body_buf.clear()
        self.delayed = []
        self.session = None
        self.server_state = self.state_wait_for_response_headers

    def _go_on(self, event: ResponseEndOfMessage) -> layer.CommandGenerator[None]:
        """Send the client the first response. The response is in the buffer."""
        self.server_state = self.state_consume_response_body
        yield from super().state_consume_response_body(event)

    def send_response(self, already_streamed: bool = False) -> layer.CommandGenerator[None]:
        if (state := states.of(self.flow)) is None:
            yield from super().send_response(already_streamed)
            return
        state.spliced, state.body_to_send = True, None
        response, shown = self.flow.response, b""
        try:
            for command in super().send_response(already_streamed):
                yield command
                if isinstance(command, HttpResponseHook):
                    response, body = self.flow.response, state.body_to_send
                    if response is not None and body is not None:
                        shown, response.data.content = response.data.content or b"", body
        finally:
            state.spliced = False
            if state.body_to_send is not None and response is not None:
                response.data.content = shown
            # The connection may keep this stream object in memory, so the stream drops what it refers to.
            self.session = self.running = None

    def passthrough(self, event: events.Event) -> layer.CommandGenerator[None]:
        """Forward bytes after a change of protocol. If one side of a WebSocket ends without a closing frame,
        the other side also ends without a closing frame. mitmproxy would send the code of a regular end."""
        for command in super().passthrough(event):
            socket = self.flow.websocket
            is_broken = socket is not None and socket.close_code == CloseReason.ABNORMAL_CLOSURE
            is_data = isinstance(command, SendHttp) and isinstance(command.event, (RequestData, ResponseData))
            if not (is_broken and is_data):
                yield command

    def _is_live(self) -> bool:
        return self.session is not None and self.session.live and _session(self.flow) is not None

    def state_stream_response_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, ResponseEndOfMessage):
            self.running = None
            if self._is_live():
                yield from self._turn_end()
                return
        self.quiet &= not isinstance(event, ResponseData)
        yield from super().state_stream_response_body(event)
        if isinstance(event, ResponseData) and (failure := self._failure()):
            yield from self._break_off(failure)
            # The upstream could send bytes for a long time after the break, so its stream is reset.
            code = RequestProtocolError.code
            gone = RequestProtocolError(self.stream_id, "the response can't be read", code)
            yield SendHttp(gone, self.context.server)

    def state_consume_response_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        if not isinstance(event, ResponseEndOfMessage):
            yield from super().state_consume_response_body(event)
            return
        guard, response, body = _guard(self.flow), self.flow.response, bytes(self.response_body_buf)
        # A hook runs through all addons. Most responses are accepted and need no hook here.
        if guard is not None and (response is None or not guard.is_accepted(response, body)):
            self.running = None
            restored = self.original
            if (yield from self._send_again(body)):
                return
            if restored is not None and self.flow.response is restored[0]:
                yield from self._go_on(event)
                return
        if self.session is not None and _session(self.flow) is not None and not self.session.live:
            yield from self._turn_end(body=bytes(self.response_body_buf))
        else:
            yield from super().state_consume_response_body(event)

    def state_continue(self, event: events.Event) -> layer.CommandGenerator[None]:
        """Forward the continuation's events as events of the first response."""
        assert self.session is not None
        assert self.running is not None
        if isinstance(event, ResponseHeaders):
            self.running.readable = is_stream(self.running.flow, event.response)
        elif isinstance(event, ResponseData):
            if not (self.session.live and self.running.readable):
                self.running.unread += event.data
            elif out := self.session.feed(event.data):
                self.quiet, self.running.shown = False, True
                yield SendHttp(ResponseData(self.stream_id, out), self.context.client)
        elif isinstance(event, ResponseEndOfMessage):
            yield from self._turn_end()

    def _turn_end(self, error: str | None = None, body: bytes = b"") -> layer.CommandGenerator[None]:
        assert self.session is not None
        turn = TurnEnd(self.flow, self.session, error=error, body=body)
        if (ended := self.running) is not None:
            turn.continuation, turn.shown, turn.encoded = ended.flow, ended.shown, bytes(ended.unread)
            self.running = None
        if not self.session.ended(turn):
            yield PenumbraTurnEndHook(turn)
        if (yield from self.check_killed(True)):
            self.wakeup = None
            return
        if turn.out and self.session.live:
            self.quiet = False
            yield SendHttp(ResponseData(self.stream_id, turn.out), self.context.client)
        if failure := self._failure():
            yield from self._break_off(failure)
            return
        if turn.following is not None:
            yield from self._continue(turn.following)
            return
        self.wakeup = None
        end = ResponseEndOfMessage(self.stream_id)
        if self.session.live:
            yield from super().state_stream_response_body(end)
        else:
            self.response_body_buf.clear()
            self.response_body_buf += turn.body
            yield from super().state_consume_response_body(end)

    def _failure(self) -> str:
        """Return the reason why the response can't be completed; empty if there is none."""
        state = states.of(self.flow)
        return "" if state is None else state.broken

    def _break_off(self, failure: str) -> layer.CommandGenerator[None]:
        """Break the response off as mitmproxy does after a broken upstream connection."""
        self.wakeup = self.session = self.running = None
        code = ResponseProtocolError.code
        yield from self.handle_protocol_error(ResponseProtocolError(self.stream_id, failure, code))

    def _continue(self, flow: http.HTTPFlow) -> layer.CommandGenerator[None]:
        self.server_state = self.state_continue
        if self.session is not None and self.session.live and self.wakeup is None:
            yield from self._wake_later()
        yield from self._run(Purpose.CONTINUATION, flow)

    def _run(self, purpose: Purpose, flow: http.HTTPFlow) -> layer.CommandGenerator[None]:
        """Send a flow's request like a request of the client."""
        parent = next(layer for layer in reversed(self.context.layers) if isinstance(layer, SpliceHttpLayer))
        self.running = Running(purpose, stream_id := next(_continuation_ids), flow)
        parent.parents[stream_id] = self.stream_id
        yield ReceiveHttp(RequestHeaders(stream_id, flow.request, end_stream=False, replay_flow=flow))
        yield ReceiveHttp(RequestData(stream_id, flow.request.raw_content or b""))
        yield ReceiveHttp(RequestEndOfMessage(stream_id))

    def _keep_alive(self, session: Session) -> layer.CommandGenerator[None]:
        if self.quiet and session.is_delayed and (data := session.keep_alive()):
            yield SendHttp(ResponseData(self.stream_id, data), self.context.client)
        self.quiet = True
        yield from self._wake_later()

    def _wake_later(self) -> layer.CommandGenerator[None]:
        self.wakeup = commands.RequestWakeup(KEEP_ALIVE_SECONDS)
        yield self.wakeup


class SpliceHttpLayer(HttpLayer):
    """The HTTP layer of one client connection, with streams that can be continued."""

    parents: dict[int, int]
    """The id of the client's stream, by the id of the hidden request's stream."""
    waiting: deque[events.Event]
    """Events of the client that wait for their turn."""
    pause: commands.RequestWakeup | None = None
    """The timer for the end of a pause; None without a pause."""
    piece: int
    """The number of bytes that are read at once."""

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        is_h2 = self.context.client.alpn == b"h2"
        work = self._in_turns(event) if is_h2 else super().handle_event(event)
        return guarded.closing(self.context, work)

    def _in_turns(self, event: events.Event) -> layer.CommandGenerator[None]:
        """Take an event, and let other connections work between pieces of a client's data. With HTTP/2, the
        bytes of one read may begin and reset a thousand streams."""
        client = self.context.client
        if isinstance(event, events.Wakeup) and event.command is self.pause:
            self.pause = None
        elif isinstance(event, events.ConnectionEvent) and event.connection is client:
            if isinstance(event, events.ConnectionClosed):
                # The client has gone, so its waiting requests are dropped.
                self.waiting.clear()
            elif self.pause is not None:
                self.waiting.append(event)
                return
            self.waiting.append(event)
        else:
            yield from super().handle_event(event)
            return
        begun = last = time.perf_counter()
        while self.waiting:
            if last - begun > TURN_SECONDS:
                self.pause = commands.RequestWakeup(TURN_SECONDS)
                yield self.pause
                return
            event, more = self.waiting.popleft(), b""
            if isinstance(event, events.DataReceived) and (more := event.data[self.piece :]):
                event = events.DataReceived(client, event.data[: self.piece])
                self.waiting.appendleft(events.DataReceived(client, more))
            yield from super().handle_event(event)
            took, last = time.perf_counter() - last, time.perf_counter()
            if took > TURN_SECONDS:
                self.piece = SMALLEST_PIECE
            elif more:
                self.piece = min(2 * self.piece, LARGEST_PIECE)

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        yield from super().make_stream(stream_id)
        stream: object = self.streams[stream_id]
        stream.__class__ = SpliceStream
        assert isinstance(stream, SpliceStream)
        stream.parent_id = self.parents.pop(stream_id, None)


def is_stream(flow: http.HTTPFlow, response: http.Response) -> bool:
    """Return whether a flow's response can be read as it arrives."""
    kind = header(response, "content-type")
    return response.status_code == 200 and framing.is_stream(kind, flow.request.path)


def install(top: layer.Layer | None) -> None:
    """Replace the HTTP layers of a connection's new stack by layers that can splice."""
    for installed in _stack(top):
        if type(installed) is HttpLayer:
            http_layer: object = installed
            http_layer.__class__ = SpliceHttpLayer
            assert isinstance(http_layer, SpliceHttpLayer)
            http_layer.parents, http_layer.waiting, http_layer.piece = {}, deque(), SMALLEST_PIECE


def _stack(top: layer.Layer | None) -> Iterator[layer.Layer]:
    while top is not None:
        yield top
        top = getattr(top, "child_layer", None)


_STREAM_METHODS = (
    *("handle_event", "_handle_event", "state_consume_request_body"),
    *("state_stream_response_body", "state_consume_response_body"),
    *("state_wait_for_response_headers", "start_response_stream", "check_killed"),
    *("send_response", "handle_protocol_error", "passthrough"),
)


def incompatible() -> str | None:
    """Return the reason why this version of mitmproxy can't be spliced; None if it can."""
    for owner, names in ((HttpLayer, ("make_stream", "event_to_child")), (HttpStream, _STREAM_METHODS)):
        for name in names:
            method = getattr(owner, name, None)
            if method is None or not inspect.isgeneratorfunction(inspect.unwrap(method)):
                return f"{owner.__name__}.{name} is not what it was"
    if "replay_flow" not in inspect.signature(RequestHeaders).parameters:
        return "RequestHeaders takes no replay_flow"
    if "delay" not in inspect.signature(commands.RequestWakeup).parameters:
        return "RequestWakeup takes no delay"
    return None
