"""This module handles responses that may contain calls of `expand_context`. Hidden requests answer the calls.

A `LoopedResponse` is the state of such a response. `Turns` does the work between two turns, for HTTP and for
WebSocket. If mitmproxy can be spliced (`splice.py`), the step `ToolLoopStep` continues responses as they
arrive. Otherwise the step continues complete responses (`hidden_requests.py`).
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from penumbra.apis import upstream_error
from penumbra.apis.base import Failure
from penumbra.apis.responses import Response
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.errors import contained, one_line, place
from penumbra.expand.expansions import Expansions, must_be_found
from penumbra.expand.hidden_exchanges import Answered, Find, Prepared
from penumbra.expand.loop import Ask, Broken, Continue, Done, ToolLoop
from penumbra.flow import bodies, destination, hidden_requests
from penumbra.flow import state as states
from penumbra.flow.current_settings import EngineHandle
from penumbra.flow.hidden_requests import HiddenRequest
from penumbra.flow.mitm import Flow, HttpResponse, NextLayer, addon, header
from penumbra.flow.state import FlowState, Step, TurnEnd, add_note
from penumbra.metrics.events import WriteEvent, expansion_event, recovery_event
from penumbra.metrics.journal import Journal
from penumbra.metrics.sessions import TurnRecord
from penumbra.redaction import RedactionError
from penumbra.retry import refusals
from penumbra.retry.portions import Portions
from penumbra.wire import content_encoding

FALLBACK_ID = "PENUMBRA_SPLICE_UNAVAILABLE"


@dataclass
class LoopedResponse:
    """A `LoopedResponse` has the state of a response that may have injected calls. The splice uses this
    object as its session."""

    handle: EngineHandle
    prepared: Prepared
    find: Find
    body: bytes
    """The decoded body of the sent request."""
    spliceable: bool = False
    live: bool = False
    loop: ToolLoop | None = None
    plain: bytes | None = None
    """The decoded body of the first response if it is one document, otherwise None."""
    shown: bytearray = field(default_factory=bytearray)
    """The bytes of a live response that the client has got."""
    provided: set[str] = field(default_factory=set)
    answered: list[Answered] = field(default_factory=list)
    continuations: list[str] = field(default_factory=list)
    retries: int = 0
    portions: Portions = field(default_factory=Portions)
    done: Done | None = None
    ended: Callable[[TurnEnd], bool] = lambda turn: False
    """The function that ends a turn without the hook, as in `Session`."""

    @classmethod
    def of(cls, accepted: Accepted, handle: EngineHandle) -> LoopedResponse | None:
        """Return the state for the response to a request; None if the model can't ask for originals."""
        if accepted.prepared is None or accepted.find is None:
            return None
        body, portions = accepted.rewritten.body, Portions(accepted.bounds)
        return cls(handle, accepted.prepared, accepted.find, body, portions=portions)

    @property
    def expansions(self) -> Expansions:
        return self.handle.engine.expansions

    @property
    def is_delayed(self) -> bool:
        return self.loop is not None and self.loop.is_delayed

    def feed(self, data: bytes) -> bytes:
        out = self.loop.feed(data) if self.loop else data
        self.shown += out
        return out

    def keep_alive(self) -> bytes:
        data = self.loop.keep_alive if self.loop else b""
        self.shown += data
        return data


MOST_RETRIES = 2
_LARGE = 100_000
"""Work on more bytes runs in a thread."""
_NOT_CONTINUED = "penumbra: a response could not be continued"
T = TypeVar("T")
_log = logging.getLogger(__name__)


async def beside(work: Callable[[], T], size: int) -> T:
    """Return the result of `work`. If the work reads or writes many bytes, it runs in a thread. The splice
    does not change the response meanwhile."""
    return await asyncio.to_thread(work) if size > _LARGE else work()


@dataclass(frozen=True)
class Turns:
    """A `Turns` ends each turn of a response, starts the next turn, and reports the complete response."""

    _journal: Journal
    _write: WriteEvent
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def advance(
        self, looped: LoopedResponse, loop: ToolLoop, ended: Ask | Broken | Done | None = None
    ) -> Broken | Continue | Done:
        """End a turn that has arrived, and answer its calls. `ended` is the end of the turn if the turn has
        already ended."""
        size = len(looped.plain or b"")
        step: Ask | Broken | Continue | Done
        step = ended if ended is not None else await beside(loop.end_turn, size)
        if isinstance(step, Ask):
            portions, usage = looped.portions, loop.turns[-1].usage
            await portions.learn()
            elsewhere = looped.prepared.threaded
            limit = portions.limit(step, looped.provided, usage, loop.request, elsewhere=elsewhere)
            texts = await _texts(looped, step, limit)
            step = await beside(partial(loop.answered, texts), size + len(loop.request))
        if isinstance(step, Done) and step.sound:
            await looped.portions.learn()
        return step

    async def smaller(
        self, flow: Flow, looped: LoopedResponse, loop: ToolLoop, failure: Failure
    ) -> bytes | None:
        """Return the request with smaller texts if a continuation was refused as too large; else None."""
        host, size = destination.shown(flow), len(loop.request) // 4
        refusal = refusals.classify(failure.status or 200, failure.body, host, size)
        if refusal is None:
            return None
        portions = looped.portions
        limit = portions.less(refusal, loop.request, elsewhere=looped.prepared.threaded)
        if limit is None or portions.ask is None:
            return None
        looped.provided = set(portions.provided)
        del looped.answered[len(looped.answered) - len(portions.ask.calls) :]
        step = loop.reanswered(await _texts(looped, portions.ask, limit))
        if step is None:
            return None
        _log.info(
            f"Penumbra: {host} refused a hidden request ({refusal.rule}); "
            "Penumbra sends it again with shorter texts"
        )
        return step.request

    async def keep(self, looped: LoopedResponse, done: Done) -> None:
        """Store a response. The end of a response with hidden turns waits for the disk, so that the client's
        next request is understood even after a restart."""
        if not self.keep_later(looped, done):
            await _remember(looped, done)
            await looped.handle.engine.stores.written()

    def keep_later(self, looped: LoopedResponse, done: Done) -> bool:
        """Store a response in the background. Return False if its end must wait for the disk."""
        if must_be_found(looped.prepared, done):
            return False
        if done.sound or done.text or done.calls:
            self.later(_remember(looped, done), looped.handle)
        return True

    async def give_up(self, flow: Flow, looped: LoopedResponse, loop: ToolLoop, failure: Failure) -> Done:
        """End a response that can't be continued. The client gets an error. The provider's message is
        logged."""
        words = upstream_error.words(failure)
        try:
            words = await looped.handle.engine.cleaned(words)
        except RedactionError as error:
            words = f"({place(error)})"
        _log.warning(
            f"Penumbra: {destination.shown(flow)}: a hidden request failed: {failure.message}: "
            f"{one_line(words)}"
        )
        return loop.failed(failure)

    def interrupted(self, flow: Flow, looped: LoopedResponse, turn: TurnRecord | None) -> None:
        """Store the part of a response that the client got before it went away."""
        if looped.done is None and looped.loop is not None and (looped.live or flow.websocket):
            self.later(_remember(looped, looped.loop.interrupted()), looped.handle)
        self.report(flow, looped, turn)

    def report(self, flow: Flow, looped: LoopedResponse, turn: TurnRecord | None) -> None:
        """Report the usage of a response, and the originals for which the model asked."""
        loop = looped.loop
        if turn is not None and loop is not None:
            self.bill(turn, loop)
        if not looped.answered:
            return
        tokens = [turn.usage for turn in loop.turns[: loop.rounds]] if loop else []
        calls = len(looped.continuations)
        scope = looped.prepared.references.scope
        sound = looped.done is not None and looped.done.sound
        self._journal.asked(turn, looped.answered)
        self._write(
            partial(
                expansion_event,
                flow_id=flow.id,
                conversation=scope,
                answered=looped.answered,
                calls=calls,
                tokens=tokens,
                sound=sound,
            )
        )
        count = len(looped.answered)
        note = f"{count} original{'s' * (count != 1)} asked for, {calls} hidden call{'s' * (calls != 1)}"
        add_note(flow, note)
        flow.metadata["penumbra_continuations"] = list(looped.continuations)
        flow.metadata["penumbra_asked"] = [_asked(answered) for answered in looped.answered]
        _log.info(f"Penumbra: {destination.shown(flow)}: {note}")

    def taken(self, turn: TurnRecord) -> None:
        """Count a request as accepted, because a part of the response has arrived."""
        self._journal.taken(turn)

    def bill(self, turn: TurnRecord, loop: ToolLoop) -> None:
        if loop.turns:
            self._journal.responded(turn, 200, loop.turns)

    def recovered(self, flow: Flow, rule: str, level: int) -> None:
        """Report a request that was refused and then accepted after `level` other requests."""
        state = states.of(flow)
        self._journal.recovered(state.turn if state is not None else None, rule, level)
        host = destination.shown(flow)
        self._write(partial(recovery_event, flow_id=flow.id, host=host, rule=rule, level=level))
        add_note(flow, f"refused ({rule}), taken after {level} other request(s)")

    def later(self, work: Coroutine[Any, Any, None], handle: EngineHandle) -> None:
        """Run `work` in the background. A copy of `handle` stays open until the work ends."""
        own = handle.share()

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            own.end()

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended)


async def _texts(looped: LoopedResponse, ask: Ask, limit: int | None) -> list[str]:
    """Return the texts that answer the calls. All texts together have at most `limit` bytes."""
    expansions, prepared, find = looped.expansions, looped.prepared, looped.find
    texts, answered = await expansions.texts(prepared, find, ask, looped.provided, limit)
    looped.answered += answered
    looped.portions.gave(texts)
    return texts


def _asked(answered: Answered) -> str:
    name = answered.ref or "something that is no reference"
    return f"{name}, {answered.sent:,} bytes" if answered.found else f"{name}, which was not found"


async def _remember(looped: LoopedResponse, done: Done) -> None:
    """Store hidden exchanges. Errors are logged."""
    with contained(_log, "penumbra: a response could not be kept"):
        await looped.expansions.remember(looped.prepared, done)


Filtered = Callable[[Flow, FlowState, Response], Response]
"""A function that attaches the edits of later steps to a stream."""


def looped_by(state: FlowState) -> LoopedResponse | None:
    return state.session if isinstance(state.session, LoopedResponse) else None


@dataclass(eq=False)
class ToolLoopStep(Step):
    """A `ToolLoopStep` makes one response from all turns."""

    _turns: Turns
    _filtered: Filtered
    _splice: ModuleType | None = None

    # Work before there are flows

    def running(self) -> None:
        """Check whether this version of mitmproxy can be spliced. If it can't, log a warning."""
        try:
            splice = importlib.import_module("penumbra.flow.splice")
            reason = splice.incompatible()
        except (ImportError, AttributeError) as error:
            reason = str(error)
        if reason:
            _log.warning(
                f"{FALLBACK_ID}: responses in which the model asks for originals come in one piece, because "
                f"this version of mitmproxy is not known: {reason}"
            )
        else:
            self._splice = splice

    def next_layer(self, data: NextLayer) -> None:
        """Replace HTTP layers by layers that can splice. Scripts run before mitmproxy chooses the layer."""
        if self._splice is None:
            return
        if data.layer is None:
            chooser = addon("nextlayer")
            if chooser is not None:
                chooser.next_layer(data)
        self._splice.install(data.layer)

    # The step

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        state.session = LoopedResponse.of(accepted, state.handle)
        if state.session is not None:
            state.session.ended = self.ended
            hidden_requests.watch(flow.client_conn)
            bodies.ask_for_codings(flow.request)

    def headers(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        if (hidden := state.get(HiddenRequest)) is not None:
            hidden_requests.headers(flow, hidden, state)
            return
        looped, is_stream = looped_by(state), bodies.is_stream(flow)
        stream = response.status_code == 200 and is_stream
        if looped is None:
            if stream and (state.is_untouched or "penumbra" in flow.metadata):
                bodies.pass_live(response)
            return
        if response.status_code != 200 or not (stream or "json" in header(response, "content-type")):
            state.session = None
            return
        wire, tool, before = looped.prepared.wire, looped.prepared.tool, looped.prepared.before
        read = self._filtered(flow, state, wire.stream(tool, before)) if stream else wire.body(tool, before)
        looped.loop = ToolLoop(wire, read, looped.body)
        decode = content_encoding.decoder(header(response, "content-encoding"))
        if stream and looped.spliceable and decode is not None:
            looped.live = True
            bodies.stream_plainly(flow, response)
            decoded = bodies.LiveDecoding(decode, state)
            response.stream = lambda data: (decoded.feed(data, looped.feed) if data else b"") or []

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        if (hidden := state.get(HiddenRequest)) is not None:
            hidden_requests.ended(flow, hidden)
            return
        if (looped := looped_by(state)) is None:
            return
        try:
            if looped.done is None and looped.loop is not None:
                await self._buffered(flow, state, looped, looped.loop)
            if looped.live:
                response.data.content = bytes(looped.shown)
        finally:
            self._turns.report(flow, looped, state.turn)
            state.session = None

    async def failed(self, flow: Flow, state: FlowState) -> None:
        if (hidden := state.get(HiddenRequest)) is not None:
            hidden_requests.ended(flow, hidden)
            return
        if (looped := looped_by(state)) is None:
            return
        if looped.live and looped.loop is not None and flow.response is not None:
            flow.response.data.content = bytes(looped.shown)
        self._turns.interrupted(flow, looped, state.turn)
        state.session = None

    # Turns

    def ended(self, turn: TurnEnd) -> bool:
        """End the first turn of a response if no work must be awaited. Return False if the hook must end the
        turn. A hook runs through all addons, and most responses have one turn without injected calls."""
        state = states.of(turn.flow)
        looped = looped_by(state) if state is not None else None
        if state is None or looped is None or looped.loop is None:
            return True
        if turn.continuation is not None:
            return False
        with contained(_log, _NOT_CONTINUED):
            if not looped.live:
                looped.plain = bodies.plain_body(turn.flow, turn.body)
                turn.ended = Done(turn.body, sound=False) if looped.plain is None else None
            if len(looped.plain or b"") > _LARGE:
                return False
            try:
                turn.ended = turn.ended or _end(looped, looped.loop)
            except Exception as error:
                turn.ended = _failed(looped.loop, error)
            if not isinstance(turn.ended, Done) or not self._turns.keep_later(looped, turn.ended):
                return False
            _show_end(turn, state, looped, turn.ended)
        return True

    async def turn_end(self, turn: TurnEnd) -> None:
        """Continue or end a response whose upstream turn has ended."""
        state = states.of(turn.flow)
        looped = looped_by(state) if state is not None else None
        if state is None or looped is None or looped.loop is None:
            return
        try:
            step = await self._step(turn, state, looped, looped.loop)
        except Exception as error:
            step = _failed(looped.loop, error)
        if isinstance(step, Done):
            _show_end(turn, state, looped, step)
            await self._turns.keep(looped, step)
        elif isinstance(step, Continue):
            turn.following = _continuation(turn.flow, state, step.request, looped)
            turn.out = step.out
            looped.shown += turn.out
        else:
            turn.following = step

    async def _step(
        self, turn: TurnEnd, state: FlowState, looped: LoopedResponse, loop: ToolLoop
    ) -> Continue | Done | Flow:
        """Return the next step of the loop, or the flow by which the last request is sent again."""
        if turn.continuation is None:
            # `ended` has ended all small turns.
            ended = turn.ended or await asyncio.to_thread(_end, looped, loop)
            step = await self._turns.advance(looped, loop, ended)
            return step if not isinstance(step, Broken) else loop.failed(step.failure)
        answered = turn.continuation.response is not None
        body = bodies.plain_body(turn.continuation, turn.encoded) or b"" if answered else b""
        failure, pause = bodies.failure(turn.continuation, turn.error, looped.live, body)
        if failure is None:
            if not looped.live:
                await beside(partial(loop.feed, body), len(body))
            step = await self._turns.advance(looped, loop)
            if not isinstance(step, Broken):
                looped.retries = 0
                return step
            failure, pause = step.failure, bodies.pause(step.failure)
        if not turn.shown and (smaller := await self._turns.smaller(turn.flow, looped, loop, failure)):
            return _continuation(turn.flow, state, smaller, looped)
        if pause is None or turn.shown or looped.retries >= MOST_RETRIES:
            return await self._turns.give_up(turn.flow, looped, loop, failure)
        looped.retries += 1
        await asyncio.sleep(pause * looped.retries)
        loop.again()
        return _continuation(turn.flow, state, loop.request, looped)

    async def _buffered(self, flow: Flow, state: FlowState, looped: LoopedResponse, loop: ToolLoop) -> None:
        """Run the turns of a response that is sent only when it is complete."""
        assert flow.response is not None
        plain = bodies.plain_body(flow, flow.response.raw_content or b"")
        if plain is None:
            return
        shown = [loop.feed(plain)]
        step = await self._turns.advance(looped, loop)
        while isinstance(step, Continue):
            shown.append(step.out)
            continuation = _continuation(flow, state, step.request, looped)
            error = await hidden_requests.run(continuation)
            body = bodies.content(continuation)
            failure, _ = bodies.failure(continuation, error, bodies.is_stream(flow), body)
            if failure is None:
                shown.append(loop.feed(body))
                step = await self._turns.advance(looped, loop)
            else:
                step = Broken(failure)
            if isinstance(step, Broken) and (
                smaller := await self._turns.smaller(flow, looped, loop, step.failure)
            ):
                step = Continue(b"", smaller)
        if isinstance(step, Broken):
            looped.done = await self._turns.give_up(flow, looped, loop, step.failure)
            bodies.refuse(flow, looped.prepared, step.failure)
            return
        looped.done = step
        await self._turns.keep(looped, step)
        shown.append(step.out)
        if (body := b"".join(shown)) != plain:
            flow.response.raw_content = body
            bodies.replace_document(flow, step)


def _end(looped: LoopedResponse, loop: ToolLoop) -> Ask | Broken | Done:
    """End a response's first turn. A document is read here; a live stream was read as it arrived."""
    if looped.plain is not None:
        loop.feed(looped.plain)
    return loop.end_turn()


def _failed(loop: ToolLoop, error: Exception) -> Done:
    _log.error("%s: %s", _NOT_CONTINUED, place(error))
    return loop.failed(Failure(None, b"", f"Penumbra failed: {type(error).__name__}"))


def _show_end(turn: TurnEnd, state: FlowState, looped: LoopedResponse, done: Done) -> None:
    """Give the client the end of a response."""
    looped.done = done
    turn.out = done.out
    if looped.live:
        state.broken = done.broken
    if looped.plain is not None and done.out != looped.plain:
        turn.body = done.out
        bodies.replace_document(turn.flow, done)
        bodies.copy_retry_headers(turn.flow, turn.continuation)
    looped.shown += turn.out


def _continuation(parent: Flow, state: FlowState, body: bytes, looped: LoopedResponse) -> Flow:
    flow = hidden_requests.make(parent, state, body, "continues")
    looped.continuations.append(flow.id)
    return flow
