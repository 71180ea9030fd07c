"""Responses in which the model may call `expand_context`: its calls are answered here, by hidden requests.

Streams and documents that mitmproxy lets us splice are continued in place (`splice.py`); all others when they
are complete (`hidden_requests.py`).
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from functools import partial
from types import ModuleType

from mitmproxy import ctx, http
from mitmproxy.proxy.layer import NextLayer

from penumbra.apis.base import Failure, Response
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.errors import place
from penumbra.expand.loop import Broken, Continue, Done, ToolLoop
from penumbra.flow import bodies, hidden_requests
from penumbra.flow import state as states
from penumbra.flow.hidden_requests import HiddenRequest
from penumbra.flow.loop_turns import MOST_RETRIES, LoopedResponse, Turns, beside
from penumbra.flow.state import FlowState, Step, TurnEnd
from penumbra.wire import content_encoding

FALLBACK_ID = "PENUMBRA_SPLICE_UNAVAILABLE"
_log = logging.getLogger(__name__)


Filtered = Callable[[http.HTTPFlow, FlowState, Response], Response]
"""A stream as it is to go to the client."""


def looped_by(state: FlowState) -> LoopedResponse | None:
    """Return the tool loop's record of a flow."""
    return state.session if isinstance(state.session, LoopedResponse) else None


class ToolLoopStep(Step):
    """Makes one response of as many turns as it takes. State: how responses can be spliced."""

    def __init__(self, turns: Turns, filtered: Filtered) -> None:
        self._turns = turns
        self._filtered = filtered
        self._splice: ModuleType | None = None

    # Work before there are flows

    def running(self) -> None:
        """Look whether this version of mitmproxy can be spliced."""
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
        """Make HTTP layers able to splice. Scripts run before mitmproxy's own choice of the layer."""
        if self._splice is None:
            return
        if data.layer is None:
            chooser = ctx.master.addons.get("nextlayer")
            if chooser is not None:
                chooser.next_layer(data)
        self._splice.install(data.layer)

    # The step

    def sent(self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        state.session = LoopedResponse.of(accepted, state.lease)
        if state.session is not None:
            hidden_requests.watch(flow.client_conn)
            bodies.ask_for_codings(flow.request)

    def headers(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        if (hidden := state.get(HiddenRequest)) is not None:
            hidden_requests.headers(flow, hidden, state)
            return
        looped, is_stream = looped_by(state), bodies.is_stream(flow)
        stream = response.status_code == 200 and is_stream
        if looped is None:
            if stream and (state.is_untouched or "penumbra" in flow.metadata):
                bodies.pass_live(response)
            return
        if response.status_code != 200 or not (stream or "json" in response.headers.get("content-type", "")):
            state.session = None
            return
        wire, tool, before = looped.prepared.wire, looped.prepared.tool, looped.prepared.before
        read = self._filtered(flow, state, wire.stream(tool, before)) if stream else wire.body(tool, before)
        looped.loop = ToolLoop(wire, read, looped.body)
        decode = content_encoding.decoder(response.headers.get("content-encoding", ""))
        if stream and looped.spliceable and decode is not None:
            looped.live = True
            bodies.stream_plainly(flow, response)
            decoded = bodies.LiveDecoding(decode, state)
            response.stream = lambda data: (decoded.feed(data, looped.feed) if data else b"") or []

    async def complete(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
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

    async def failed(self, flow: http.HTTPFlow, state: FlowState) -> None:
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

    async def turn_end(self, turn: TurnEnd) -> None:
        """An upstream response has ended: go on, or end the client's."""
        state = states.of(turn.flow)
        looped = looped_by(state) if state is not None else None
        if state is None or looped is None or looped.loop is None:
            return
        try:
            step = await self._step(turn, state, looped, looped.loop)
        except Exception as error:
            _log.error("penumbra: a response could not be continued: %s", place(error))
            step = looped.loop.failed(Failure(None, b"", f"Penumbra failed: {type(error).__name__}"))
        if isinstance(step, Continue):
            turn.following = _continuation(turn.flow, state, step.request, looped)
            turn.out = step.out
        elif isinstance(step, Done):
            looped.done = step
            turn.out = step.out
            if looped.live:
                state.broken = step.broken
            await self._turns.keep(looped, step)
            if looped.plain is not None and step.out != looped.plain:
                turn.body = step.out
                bodies.replace_document(turn.flow, step)
                bodies.tell_when(turn.flow, turn.continuation)
        else:
            turn.following = step
        looped.shown += turn.out

    async def _step(
        self, turn: TurnEnd, state: FlowState, looped: LoopedResponse, loop: ToolLoop
    ) -> Continue | Done | http.HTTPFlow:
        """Return what follows; a flow: the same request once more."""
        if turn.continuation is None:
            if not looped.live:
                plain = looped.plain = bodies.plain_body(turn.flow, turn.body)
                if plain is None:
                    return Done(turn.body, sound=False)
                await beside(partial(loop.feed, plain), len(plain))
            step = await self._turns.advance(looped, loop)
            return step if not isinstance(step, Broken) else loop.failed(step.failure)
        # The flow may show another form.
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

    async def _buffered(
        self, flow: http.HTTPFlow, state: FlowState, looped: LoopedResponse, loop: ToolLoop
    ) -> None:
        """Run the turns of a response that is complete before any of it is sent."""
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


def _continuation(
    parent: http.HTTPFlow, state: FlowState, body: bytes, looped: LoopedResponse
) -> http.HTTPFlow:
    flow = hidden_requests.make(parent, state, body, "continues")
    looped.continuations.append(flow.id)
    return flow
