"""mitmproxy's face of `expand_context`: responses in which the injected tool may be called.

A child addon. The request side calls `expect` for each request that declares the injected tool; from then
on the hooks here see to its response. Streams and documents that mitmproxy lets us splice are
continued in place (shadow/splice.py); all others when they are complete (shadow/buffered.py).
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from mitmproxy import connection, ctx, http
from mitmproxy.proxy import layer

from penumbra.apis import upstream_error
from penumbra.apis.base import Failure, Response
from penumbra.conversation.room import NOT_KNOWN, Room
from penumbra.errors import one_line, place
from penumbra.expand.expansions import Answered, Expansions, Find, Prepared
from penumbra.expand.loop import Ask, Broken, Continue, Done, ToolLoop
from penumbra.flow import destination
from penumbra.flow import response as responses
from penumbra.flow.buffered import Reissue
from penumbra.flow.engines import Lease
from penumbra.metrics.expansions import ExpansionFigures, expansion_event
from penumbra.redaction import RedactionError
from penumbra.retry import portions, refusals
from penumbra.retry.portions import Portions
from penumbra.wire import content_stream, framing

if TYPE_CHECKING:
    from penumbra.flow.splice import Guard, TurnEnd

FALLBACK_ID = "PENUMBRA_SPLICE_UNAVAILABLE"
MOST_RETRIES = 2
_DISCONNECT_SECONDS = 0.05
_NOT_REPEATED = ("idempotency-key", "expect", "content-encoding", "transfer-encoding", "content-length")
_log = logging.getLogger(__name__)


class NextLayer(Protocol):
    """mitmproxy's data for the `next_layer` hook."""

    layer: layer.Layer | None


Wrap = Callable[[http.HTTPFlow, Response, bool], Response]
"""Takes the client's flow, its answer, and whether that is a stream."""


@dataclass
class Awaited:
    """One response in which the injected tool may be called. What the splice calls a session."""

    lease: Lease
    prepared: Prepared
    find: Find
    body: bytes
    """The request as it was sent, without content coding."""
    spliceable: bool = False
    live: bool = False
    exchange: ToolLoop | None = None
    decode: content_stream.Decode | None = None
    plain: bytes | None = None
    """The first response's body without content coding, where it is one document."""
    shown: bytearray = field(default_factory=bytearray)
    """What the client has got of a live answer."""
    provided: set[str] = field(default_factory=set)
    answered: list[Answered] = field(default_factory=list)
    continuations: list[str] = field(default_factory=list)
    retries: int = 0
    portions: Portions = field(default_factory=Portions)
    done: Done | None = None
    error: str = ""

    @property
    def expansions(self) -> Expansions:
        return self.lease.engine.expansions

    @property
    def holding(self) -> bool:
        return self.exchange is not None and self.exchange.holding

    def feed(self, data: bytes) -> bytes:
        out = self.exchange.feed(data) if self.exchange else data
        self.shown += out
        return out

    def keep_alive(self) -> bytes:
        data = self.exchange.keep_alive if self.exchange else b""
        self.shown += data
        return data

    def first_turn(self, data: bytes) -> bytes | list[bytes]:
        """The stream callable of the first response: it must neither raise nor return an empty chunk."""
        if not data or self.error:
            return []
        try:
            plain = self.decode(data) if self.decode else data
        except Exception as error:
            self.error = f"the response could not be decoded: {place(error)}"
            return self._end(self.error) or []
        return self.feed(plain) or []

    def _end(self, message: str) -> bytes:
        """The client is told at once: the upstream may go on for long."""
        out = self.exchange.failed(Failure(None, b"", message)).out if self.exchange else b""
        self.shown += out
        return out


# Of the process, not of the addon: a reload of the script makes a new addon while responses go on.
_AWAITED: dict[str, Awaited] = {}
"""By id of the client's flow."""
_CONTINUATIONS: dict[str, bytearray] = {}
"""Bodies of continuations, by id of their flow."""
_CLIENTS: set[str] = set()
"""Ids of connections that carried such responses."""


class Expansion:
    """State: the figures. The responses under way are the module's."""

    def __init__(self, figures: ExpansionFigures, write: Callable[[dict[str, Any]], None]) -> None:
        self.figures = figures
        self._write = write
        self.wrap: Wrap = lambda flow, answer, stream: answer
        """Who changes an answer on its way to the client."""
        self._splice: ModuleType | None = None
        self._reissue = Reissue()
        self._tasks: set[asyncio.Task[None]] = set()

    # What the request side calls

    def expect(
        self,
        flow: http.HTTPFlow,
        lease: Lease,
        prepared: Prepared,
        find: Find,
        body: bytes,
        room: Room = NOT_KNOWN,
    ) -> None:
        """The flow's request declares the injected tool; `body` is what will be sent, decoded."""
        awaited = Awaited(lease, prepared, find, body, portions=Portions(room))
        _AWAITED[flow.id] = awaited
        if self._splice is not None:
            self._splice.SESSIONS[flow.id] = awaited
        self.watch(flow.client_conn)
        if accepted := flow.request.headers.get("accept-encoding"):
            flow.request.headers["accept-encoding"] = content_stream.acceptable(accepted)

    def watch(self, client: connection.Client) -> None:
        """Hidden requests may be under way when this client goes away."""
        _CLIENTS.add(client.id)

    def guard(self, flow: http.HTTPFlow, guard: Guard) -> None:
        """Nothing of the flow's response goes out before the guard has seen it, where that can be had."""
        if self._splice is not None:
            self._splice.GUARDS[flow.id] = guard

    def unguard(self, flow: http.HTTPFlow) -> None:
        """The flow's response needs no guard any more."""
        if self._splice is not None:
            self._splice.GUARDS.pop(flow.id, None)

    def sending(self) -> dict[str, bytes | None]:
        """The splice's table of bodies to send; empty where none may be changed."""
        return self._splice.SENDING if self._splice is not None else {}

    async def run(self, hidden: http.HTTPFlow) -> str | None:
        """Send a hidden request on its own and wait for its end; what went wrong, if something did."""
        return await self._reissue.run(hidden)

    def is_continuation(self, flow: http.HTTPFlow) -> bool:
        """The flow is one of ours, not a client's."""
        return flow.id in _CONTINUATIONS

    # Hooks

    def running(self) -> None:
        """Look whether this version of mitmproxy can be spliced."""
        try:
            splice = importlib.import_module("penumbra.flow.splice")
            reason = splice.incompatible()
        except (ImportError, AttributeError) as error:
            reason = str(error)
        if reason:
            _log.warning(
                f"{FALLBACK_ID}: answers in which the model asks for originals arrive in one piece, because "
                f"this version of mitmproxy is not known: {reason}"
            )
        else:
            self._splice = splice

    def next_layer(self, data: NextLayer) -> None:
        """Make HTTP layers able to splice. Scripts run before mitmproxy's own choice of the layer."""
        if self._splice is None:
            return
        if data.layer is None:
            chooser = ctx.master.addons.get("nextlayer")
            if chooser is not None:
                chooser.next_layer(data)
        self._splice.install(data.layer)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Decide how a response is read."""
        response = flow.response
        if response is None:
            return
        kind = response.headers.get("content-type", "")
        stream = response.status_code == 200 and framing.is_stream(kind, flow.request.path)
        if flow.id in _CONTINUATIONS:
            if stream:
                responses.stream_continuation(response, _CONTINUATIONS[flow.id])
            return
        awaited = _AWAITED.get(flow.id)
        if awaited is None:
            if stream and "penumbra" in flow.metadata:
                responses.pass_live(response)
            return
        if response.status_code != 200 or not (stream or "json" in kind):
            self.forget(flow)
            return
        wire, tool, before = awaited.prepared.wire, awaited.prepared.tool, awaited.prepared.before
        answer = wire.stream(tool, before) if stream else wire.body(tool, before)
        awaited.exchange = ToolLoop(wire, self.wrap(flow, answer, stream), awaited.body)
        awaited.decode = content_stream.decoder(response.headers.get("content-encoding", ""))
        if not awaited.spliceable and self._splice is not None:
            self._splice.SESSIONS.pop(flow.id, None)
        if stream and awaited.spliceable and awaited.decode is not None:
            awaited.live = True
            responses.stream_plainly(flow, response)
            response.stream = awaited.first_turn

    async def penumbra_turn_end(self, turn: TurnEnd) -> None:
        """An upstream response has ended: go on, or end the client's."""
        awaited = _AWAITED.get(turn.flow.id)
        if awaited is None or awaited.exchange is None:
            return
        try:
            step = await self._step(turn, awaited, awaited.exchange)
        except Exception as error:
            _log.error("penumbra: an answer could not be continued: %s", place(error))
            step = awaited.exchange.failed(Failure(None, b"", f"Penumbra failed: {type(error).__name__}"))
        if isinstance(step, Continue):
            turn.following = self._continuation(turn.flow, step.request, awaited)
            turn.out = step.out
        elif isinstance(step, Done):
            awaited.done = step
            turn.out = step.out
            await self.keep(awaited, step)
            if awaited.plain is not None and step.out != awaited.plain:
                turn.body = step.out
                responses.replace_document(turn.flow, step)
                responses.tell_when(turn.flow, turn.continuation)
        else:
            turn.following = step
        awaited.shown += turn.out

    async def response(self, flow: http.HTTPFlow) -> None:
        """A response is complete."""
        if flow.id in _CONTINUATIONS:
            self._end_continuation(flow)
            return
        awaited = _AWAITED.get(flow.id)
        if awaited is None or flow.response is None:
            return
        try:
            if awaited.done is None and awaited.exchange is not None:
                await self._buffered(flow, awaited, awaited.exchange)
            if awaited.live:
                flow.response.data.content = bytes(awaited.shown)
        finally:
            self.report(flow, awaited)
            self.forget(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        """A flow has ended before its response."""
        if flow.id in _CONTINUATIONS:
            self._end_continuation(flow)
            return
        awaited = _AWAITED.get(flow.id)
        if awaited is None:
            return
        if awaited.live and awaited.exchange is not None and flow.response is not None:
            flow.response.data.content = bytes(awaited.shown)
        self.interrupted(flow, awaited)
        self.forget(flow)

    def interrupted(self, flow: http.HTTPFlow, awaited: Awaited) -> None:
        """The client of an answer has gone away: it keeps what it has got."""
        if awaited.done is None and awaited.exchange is not None and (awaited.live or flow.websocket):
            self.later(_remember(awaited, awaited.exchange.interrupted()), awaited.lease)
        self.report(flow, awaited)

    async def client_disconnected(self, client: connection.Client) -> None:
        """Wait a moment before mitmproxy goes on to cancel the upstream connections.

        They are being cancelled already. On Python 3.12 and later a second cancellation while the
        first one still waits for a hook would leave the upstream's socket open.
        """
        if client.id in _CLIENTS:
            _CLIENTS.discard(client.id)
            self._reissue.cancel(client.id)
            await asyncio.sleep(_DISCONNECT_SECONDS)

    # Turns

    async def _step(
        self, turn: TurnEnd, awaited: Awaited, exchange: ToolLoop
    ) -> Continue | Done | http.HTTPFlow:
        """What follows; a flow: the same request once more."""
        if awaited.error:
            return Done(b"", sound=False)
        if turn.continuation is None:
            if not awaited.live:
                plain = awaited.plain = responses.plain_body(turn.flow, turn.body)
                if plain is None:
                    return Done(turn.body, sound=False)
                exchange.feed(plain)
            step = await self.advance(awaited, exchange)
            return step if not isinstance(step, Broken) else exchange.failed(step.failure)
        # What the flow shows may be something else.
        answered = turn.continuation.response is not None
        body = responses.plain_body(turn.continuation, turn.answer) or b"" if answered else b""
        failure, pause = responses.failure(turn.continuation, turn.error, awaited.live, body)
        if failure is None:
            if not awaited.live:
                exchange.feed(body)
            step = await self.advance(awaited, exchange)
            if not isinstance(step, Broken):
                awaited.retries = 0
                return step
            failure, pause = step.failure, responses.pause(step.failure)
        if not turn.shown and (smaller := await self.smaller(turn.flow, awaited, exchange, failure)):
            return self._continuation(turn.flow, smaller, awaited)
        if pause is None or turn.shown or awaited.retries >= MOST_RETRIES:
            return await self.failed(turn.flow, awaited, exchange, failure)
        awaited.retries += 1
        await asyncio.sleep(pause * awaited.retries)
        exchange.again()
        return self._continuation(turn.flow, exchange.request, awaited)

    async def advance(self, awaited: Awaited, exchange: ToolLoop) -> Broken | Continue | Done:
        """The turn has been read: answer its calls."""
        step: Ask | Broken | Continue | Done = exchange.end_turn()
        if isinstance(step, Ask):
            step = exchange.answered(await portions.texts(awaited, exchange, step))
        if isinstance(step, Done) and step.sound:
            await portions.learned(awaited.portions)
        return step

    async def smaller(
        self, flow: http.HTTPFlow, awaited: Awaited, exchange: ToolLoop, failure: Failure
    ) -> bytes | None:
        """The request with less of what was asked for, if a continuation was refused as too large."""
        host, size = destination.shown(flow), len(exchange.request) // 4
        refusal = refusals.classify(failure.status or 200, failure.body, host, size)
        request = await portions.smaller(awaited, exchange, refusal) if refusal is not None else None
        if refusal is not None and request is not None:
            _log.info(f"Penumbra: {host} refused a hidden request ({refusal.rule}); asks with less")
        return request

    async def keep(self, awaited: Awaited, done: Done) -> None:
        """Keep an answer. The client gets its end when the next request can be understood."""
        if done.hidden is not None or done.orphans or (done.sound and awaited.prepared.threaded):
            await _remember(awaited, done)
        elif done.sound or done.text or done.calls:
            self.later(_remember(awaited, done), awaited.lease)

    async def failed(
        self, flow: http.HTTPFlow, awaited: Awaited, exchange: ToolLoop, failure: Failure
    ) -> Done:
        """A continuation can't be had: the client hears of an error, and the log what the provider said."""
        said = upstream_error.words(failure)
        try:
            said = await awaited.expansions.cleaned(said)
        except RedactionError as error:
            said = f"({place(error)})"
        _log.warning(
            f"Penumbra: {destination.shown(flow)}: a hidden request failed: {failure.message}: "
            f"{one_line(said)}"
        )
        return exchange.failed(failure)

    def hidden(self, parent: http.HTTPFlow, body: bytes, comment: str) -> http.HTTPFlow:
        """The flow of a hidden request, linked to the client's."""
        flow = http.HTTPFlow(parent.client_conn, parent.server_conn)
        flow.request = parent.request.copy()
        for name in _NOT_REPEATED:
            flow.request.headers.pop(name, None)
        flow.request.data.content = body
        flow.request.headers["content-length"] = str(len(body))
        flow.request.timestamp_start = flow.request.timestamp_end = time.time()
        flow.is_replay = "request"
        flow.comment = f"Penumbra: {comment} {parent.id[:8]}, not seen by the client"
        flow.metadata["penumbra"] = {"continues": parent.id}
        _CONTINUATIONS[flow.id] = bytearray()
        return flow

    def _continuation(self, parent: http.HTTPFlow, body: bytes, awaited: Awaited) -> http.HTTPFlow:
        flow = self.hidden(parent, body, "continues")
        awaited.continuations.append(flow.id)
        return flow

    async def _buffered(self, flow: http.HTTPFlow, awaited: Awaited, exchange: ToolLoop) -> None:
        """The same for a response that is complete before any of it is sent."""
        assert flow.response is not None
        plain = responses.plain_body(flow, flow.response.raw_content or b"")
        if plain is None:
            return
        shown = [exchange.feed(plain)]
        step = await self.advance(awaited, exchange)
        while isinstance(step, Continue):
            shown.append(step.out)
            continuation = self._continuation(flow, step.request, awaited)
            error = await self._reissue.run(continuation)
            body = responses.content(continuation)
            failure, _ = responses.failure(continuation, error, responses.is_stream(flow), body)
            if failure is None:
                shown.append(exchange.feed(body))
                step = await self.advance(awaited, exchange)
            else:
                step = Broken(failure)
            if isinstance(step, Broken) and (
                smaller := await self.smaller(flow, awaited, exchange, step.failure)
            ):
                step = Continue(b"", smaller)
        if isinstance(step, Broken):
            awaited.done = await self.failed(flow, awaited, exchange, step.failure)
            responses.refuse(flow, awaited.prepared, step.failure)
            return
        awaited.done = step
        await self.keep(awaited, step)
        shown.append(step.out)
        if (body := b"".join(shown)) != plain:
            flow.response.raw_content = body
            responses.replace_document(flow, step)

    def _end_continuation(self, flow: http.HTTPFlow) -> None:
        body = _CONTINUATIONS.pop(flow.id)
        if flow.response is not None and body:
            flow.response.data.content = bytes(body)
        self._reissue.ended(flow)

    def report(self, flow: http.HTTPFlow, awaited: Awaited) -> None:
        """Figures, event and comment of an answer in which the model asked for originals."""
        if not awaited.answered:
            return
        exchange = awaited.exchange
        tokens = [turn.usage for turn in exchange.turns[: exchange.rounds]] if exchange else []
        calls = len(awaited.continuations)
        scope = awaited.prepared.references.scope
        sound = awaited.done is not None and awaited.done.sound
        self.figures.add(scope, awaited.answered, calls, tokens)
        self._write(
            expansion_event(
                flow_id=flow.id,
                conversation=scope,
                answered=awaited.answered,
                calls=calls,
                tokens=tokens,
                sound=sound,
            )
        )
        count = len(awaited.answered)
        note = f"{count} original{'s' * (count != 1)} asked for, {calls} hidden call{'s' * (calls != 1)}"
        flow.comment = f"{flow.comment}; {note}" if flow.comment else f"Penumbra: {note}"
        flow.metadata["penumbra_continuations"] = list(awaited.continuations)
        _log.info(f"Penumbra: {destination.shown(flow)}: {note}")

    def forget(self, flow: http.HTTPFlow) -> None:
        """Nothing is awaited of a flow any more."""
        _AWAITED.pop(flow.id, None)
        if self._splice is not None:
            self._splice.SESSIONS.pop(flow.id, None)

    def later(self, work: Coroutine[Any, Any, None], lease: Lease) -> None:
        """Work that nobody waits for."""
        held = lease.share()

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            held.end()

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended)


async def _remember(awaited: Awaited, done: Done) -> None:
    """What can't be kept costs the next request its cache, and this one nothing."""
    try:
        await awaited.expansions.remember(awaited.prepared, done)
    except Exception as error:
        _log.error("penumbra: an answer could not be kept: %s", place(error))
