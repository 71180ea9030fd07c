"""The turns of a response in which the model may ask for originals: over HTTP as over WebSocket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from mitmproxy import http

from penumbra.apis import upstream_error
from penumbra.apis.base import Failure
from penumbra.conversation.incoming import Accepted
from penumbra.errors import one_line, place
from penumbra.expand.expansions import Expansions
from penumbra.expand.hidden_exchanges import Answered, Find, Prepared
from penumbra.expand.loop import Ask, Broken, Continue, Done, ToolLoop
from penumbra.flow import destination
from penumbra.flow import state as states
from penumbra.flow.current_settings import Lease
from penumbra.flow.state import add_note
from penumbra.metrics.events import WriteEvent, expansion_event, recovery_event
from penumbra.metrics.journal import Journal
from penumbra.metrics.sessions import TurnRecord
from penumbra.redaction import RedactionError
from penumbra.retry import portions, refusals
from penumbra.retry.portions import Portions


@dataclass
class LoopedResponse:
    """One response in which the injected tool may be called. The splice's session."""

    lease: Lease
    prepared: Prepared
    find: Find
    body: bytes
    """The request as it was sent, without content coding."""
    spliceable: bool = False
    live: bool = False
    loop: ToolLoop | None = None
    plain: bytes | None = None
    """The first response's body without content coding, where it is one document."""
    shown: bytearray = field(default_factory=bytearray)
    """Bytes of a live response that the client has got."""
    provided: set[str] = field(default_factory=set)
    answered: list[Answered] = field(default_factory=list)
    continuations: list[str] = field(default_factory=list)
    retries: int = 0
    portions: Portions = field(default_factory=Portions)
    done: Done | None = None

    @classmethod
    def of(cls, accepted: Accepted, lease: Lease) -> LoopedResponse | None:
        """Make one for a request that is sent; None: the model can't ask for originals in its response."""
        if accepted.prepared is None or accepted.find is None:
            return None
        body, portions = accepted.rewritten.body, Portions(accepted.room)
        return cls(lease, accepted.prepared, accepted.find, body, portions=portions)

    @property
    def expansions(self) -> Expansions:
        return self.lease.engine.expansions

    @property
    def holding(self) -> bool:
        return self.loop is not None and self.loop.holding

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
"""Bytes of a request and its response."""
T = TypeVar("T")
_log = logging.getLogger(__name__)


async def beside(work: Callable[[], T], size: int) -> T:
    """Return what `work` returns, which is done beside the event loop if it reads or writes many bytes. The
    splice does nothing about a response meanwhile."""
    return await asyncio.to_thread(work) if size > _LARGE else work()


class Turns:
    """State: the figures, and what is done behind ended responses."""

    def __init__(self, journal: Journal, write: WriteEvent) -> None:
        """`write` takes an event."""
        self._journal = journal
        self._write = write
        self._tasks: set[asyncio.Task[None]] = set()

    async def advance(self, looped: LoopedResponse, loop: ToolLoop) -> Broken | Continue | Done:
        """The turn has been read: answer its calls."""
        size = len(loop.request) + len(looped.plain or b"")
        step: Ask | Broken | Continue | Done = await beside(loop.end_turn, size)
        if isinstance(step, Ask):
            texts = await portions.texts(looped, loop, step)
            step = await beside(partial(loop.answered, texts), size)
        if isinstance(step, Done) and step.sound:
            await portions.learned(looped.portions)
        return step

    async def smaller(
        self, flow: http.HTTPFlow, looped: LoopedResponse, loop: ToolLoop, failure: Failure
    ) -> bytes | None:
        """The request with less of what was asked for, if a continuation was refused as too large."""
        host, size = destination.shown(flow), len(loop.request) // 4
        refusal = refusals.classify(failure.status or 200, failure.body, host, size)
        request = await portions.smaller(looped, loop, refusal) if refusal is not None else None
        if refusal is not None and request is not None:
            _log.info(f"Penumbra: {host} refused a hidden request ({refusal.rule}); asks with less")
        return request

    async def keep(self, looped: LoopedResponse, done: Done) -> None:
        """Keep a response. The client gets its end when the next request can be understood, after a restart
        too."""
        if done.hidden is not None or done.orphans or (done.sound and looped.prepared.threaded):
            await _remember(looped, done)
            await looped.lease.engine.written()
        elif done.sound or done.text or done.calls:
            self.later(_remember(looped, done), looped.lease)

    async def give_up(
        self, flow: http.HTTPFlow, looped: LoopedResponse, loop: ToolLoop, failure: Failure
    ) -> Done:
        """A continuation can't be had: the client hears of an error, and the log what the provider said."""
        said = upstream_error.words(failure)
        try:
            said = await looped.expansions.cleaned(said)
        except RedactionError as error:
            said = f"({place(error)})"
        _log.warning(
            f"Penumbra: {destination.shown(flow)}: a hidden request failed: {failure.message}: "
            f"{one_line(said)}"
        )
        return loop.failed(failure)

    def interrupted(self, flow: http.HTTPFlow, looped: LoopedResponse, turn: TurnRecord | None) -> None:
        """The client of a response has gone away: it keeps what it has got."""
        if looped.done is None and looped.loop is not None and (looped.live or flow.websocket):
            self.later(_remember(looped, looped.loop.interrupted()), looped.lease)
        self.report(flow, looped, turn)

    def report(self, flow: http.HTTPFlow, looped: LoopedResponse, turn: TurnRecord | None) -> None:
        """The bill of a response; figures, event and comment where the model asked for originals in it."""
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
        """Note that a part of a response has come without a status."""
        self._journal.taken(turn)

    def bill(self, turn: TurnRecord, loop: ToolLoop) -> None:
        if loop.turns:
            self._journal.responded(turn, 200, loop.turns)

    def recovered(self, flow: http.HTTPFlow, rule: str, level: int) -> None:
        """Figures, event and comment of a request that was refused and then taken in its `level`-th form."""
        state = states.of(flow)
        self._journal.recovered(state.turn if state is not None else None, rule, level)
        host = destination.shown(flow)
        self._write(partial(recovery_event, flow_id=flow.id, host=host, rule=rule, level=level))
        add_note(flow, f"refused ({rule}), taken after {level} other request(s)")

    def later(self, work: Coroutine[Any, Any, None], lease: Lease) -> None:
        """Run work in the background."""
        held = lease.share()

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            held.end()

        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended)


def _asked(answered: Answered) -> str:
    """A call of the injected tool, and what came of it."""
    name = answered.ref or "something that is no reference"
    return f"{name}, {answered.sent:,} bytes" if answered.found else f"{name}, which was not found"


async def _remember(looped: LoopedResponse, done: Done) -> None:
    """Store hidden exchanges. An exchange that can't be kept costs the next request its cache, and this one
    nothing."""
    try:
        await looped.expansions.remember(looped.prepared, done)
    except Exception as error:
        _log.error("penumbra: a response could not be kept: %s", place(error))
