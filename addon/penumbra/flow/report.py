"""What is shown of a request: log line, comment, mark, metadata and event.

Frames of a WebSocket add up in one flow until it ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, repeat

from mitmproxy import http

from penumbra import errors
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.conversation.model import Shown
from penumbra.explain.result_facts import MOST_IN_FLOW, ResultFacts, ResultMemory, listed
from penumbra.flow import destination, journal_entry
from penumbra.flow import state as states
from penumbra.flow.engines import Lease
from penumbra.flow.page.texts import Texts
from penumbra.flow.state import FlowState
from penumbra.metrics import events
from penumbra.metrics.events import Summary, Totals
from penumbra.metrics.sessions import ResultRecord, TurnRecord
from penumbra.metrics.totals import Metrics

MARK = ":new_moon:"
_STEP = 256
"""New results that are counted before others go on."""
_log = logging.getLogger(__name__)


def add_note(flow: http.HTTPFlow, note: str) -> None:
    """Say more of a flow in its comment."""
    flow.comment = f"{flow.comment}; {note}" if flow.comment else f"Penumbra: {note}"


class Reports:
    """State: the figures, texts that may be shown, what was done to results. `write` takes an event."""

    def __init__(
        self,
        metrics: Metrics,
        texts: Texts,
        memory: ResultMemory,
        write: events.WriteEvent,
    ) -> None:
        self._metrics = metrics
        self._texts = texts
        self._memory = memory
        self._write = write

    def accepted(
        self, flow: http.HTTPFlow, state: FlowState, lease: Lease, incoming: Incoming, accepted: Accepted
    ) -> None:
        """A request, or a frame of a socket, is sent on. `lease`: by which it was rewritten; that of a
        socket's flow has ended. Never raises: what can't be shown is sent all the same."""
        try:
            self._tell(flow, state, lease, incoming, accepted)
        except Exception as error:
            _log.error("Penumbra: what was done to a request can't be shown: %s", errors.place(error))

    def _tell(
        self, flow: http.HTTPFlow, state: FlowState, lease: Lease, incoming: Incoming, accepted: Accepted
    ) -> None:
        rewritten, prepared = accepted.rewritten, accepted.prepared
        totals = Totals.of(rewritten.shown)
        summary = Summary.of(
            rewritten.shown,
            accepted.hidden,
            declared=prepared.tool if prepared else "",
            put_back=len(prepared.replayed.exchanges) if prepared else 0,
            totals=totals,
        )
        changed = rewritten.body is not incoming.body
        new = [
            ResultFacts.of(entry, events.reason(entry.tool, entry.facts, accepted.request.settings))
            for entry in islice((entry for entry in rewritten.shown if entry.new), MOST_IN_FLOW)
        ]
        self._show(flow, state, incoming, accepted, summary, changed, new)
        # The flow says so at once. What only counts and logs can wait until the request is on its way; of a
        # frame it says whose response the next frames are.
        steps = self._account(flow, state, lease.share(), incoming, accepted, totals, summary, new)
        if incoming.socket:
            next(steps, None)
        do_afterwards(steps)

    def _account(
        self,
        flow: http.HTTPFlow,
        state: FlowState,
        lease: Lease,
        incoming: Incoming,
        accepted: Accepted,
        totals: Totals,
        summary: Summary,
        new: list[ResultFacts],
    ) -> Iterator[None]:
        """Count and log a request, in steps of so many results. Ends the lease."""
        host, rewritten = destination.shown(flow), accepted.rewritten
        shown = [entry for entry in rewritten.shown if entry.new]
        with lease:
            turn = self._count(host, state, lease, incoming, accepted, totals, shown, new)
        yield
        for begin in range(_STEP, len(shown), _STEP):
            further = journal_entry.new_results(accepted.request, shown[begin : begin + _STEP])
            self._metrics.journal.further(turn, further)
            yield
        if accepted.line:
            _log.info(f"Penumbra: {host}: {accepted.line}")
        changed = rewritten.body is not incoming.body
        if changed and not (summary.changed or summary.secrets):
            _log.debug(f"Penumbra: {host} {incoming.api.id}: {summary.line()}")
        elif changed:
            of_new = Summary.of((entry for entry in rewritten.shown if entry.new), accepted.hidden)
            _log.info(
                f"Penumbra: {host} {incoming.api.id}: {summary.line(of_new)}, "
                f"{len(incoming.body):,} -> {len(rewritten.body):,} bytes, {accepted.milliseconds:.1f} ms"
            )
        if summary.results or summary.secrets or accepted.line:
            self._event(flow, host, incoming, accepted, totals)

    def observed(self, flow: http.HTTPFlow, incoming: Incoming, accepted: Accepted, lease: Lease) -> None:
        """What would have become of a request that was sent on as it came. `lease`: by which it was found."""
        host, rewritten = destination.shown(flow), accepted.rewritten
        totals = Totals.of(rewritten.shown)
        summary = Summary.of(rewritten.shown, accepted.hidden, totals=totals)
        of_new = Summary.of((entry for entry in rewritten.shown if entry.new), accepted.hidden)
        _log.info(
            f"Penumbra would: {host} {incoming.api.id}: {summary.line(of_new)}, "
            f"{len(incoming.body):,} -> {len(rewritten.body):,} bytes"
        )
        add_note(flow, f"would: {summary.line()}")
        results: Sequence[ResultRecord] = ()
        changed = summary.changed > 0 or bool(accepted.hidden)
        new = [entry for entry in rewritten.shown if entry.new]
        entry = journal_entry.of(host, incoming, accepted, totals, new, changed=changed)
        if accepted.request.settings.observe:
            self._metrics.observed += 1
            self._metrics.add(rewritten.shown)
            # Nobody has waited.
            turn = self._metrics.journal.sent(replace(entry, milliseconds=0.0, is_observed=True))
            self._await_response(flow, turn)
            results = turn.results
            if lease.settings.page_originals == "on":
                self._texts.keep(lease, accepted, results)
        facts = [ResultFacts.of(result.shown, result.kept) for result in entry.new[:MOST_IN_FLOW]]
        session = accepted.conversation.hex()[:8]
        self._remember(session, accepted, facts, results, is_observed=True)
        flow.metadata["penumbra_would"] = {**summary.metadata(), "session": session, "new": listed(facts)}
        self._event(flow, host, incoming, accepted, totals, is_observed=True)

    def _await_response(self, flow: http.HTTPFlow, turn: TurnRecord) -> None:
        """Whether the provider takes a request that has not waited for us, its response says: it may have."""
        if (state := states.of(flow)) is not None:
            state.turn = turn
        elif flow.error is None and flow.response is not None:
            self._metrics.journal.responded(turn, flow.response.status_code)
        else:
            self._metrics.journal.failed(turn, flow.response.status_code if flow.response else None)

    def _event(
        self,
        flow: http.HTTPFlow,
        host: str,
        incoming: Incoming,
        accepted: Accepted,
        totals: Totals,
        *,
        is_observed: bool = False,
    ) -> None:
        rewritten, settings = accepted.rewritten, accepted.request.settings
        self._write(
            partial(
                events.request_event,
                flow_id=flow.id,
                is_observed=is_observed,
                host=host,
                api=incoming.api.id,
                model=accepted.model,
                mode=str(settings.mode),
                strategy=settings.strategy,
                note=accepted.line,
                totals=totals,
                shown=rewritten.shown,
                outside=accepted.hidden,
                body_before=len(incoming.body),
                body_after=len(rewritten.body),
                milliseconds=accepted.milliseconds,
            )
        )

    def _count(
        self,
        host: str,
        state: FlowState,
        lease: Lease,
        incoming: Incoming,
        accepted: Accepted,
        totals: Totals,
        shown: list[Shown],
        new: list[ResultFacts],
    ) -> TurnRecord:
        """Count a request, and keep its first new results for those who look at it."""
        self._metrics.add(accepted.rewritten.shown)
        changed = totals.changed > 0 or bool(accepted.hidden)
        entry = journal_entry.of(host, incoming, accepted, totals, shown, changed=changed, most=_STEP)
        state.turn = turn = self._metrics.journal.sent(entry)
        if lease.settings.page_originals == "on":
            self._texts.keep(lease, accepted, turn.results)
        self._remember(turn.session, accepted, new, turn.results)
        return turn

    def _remember(
        self,
        session: str,
        accepted: Accepted,
        new: list[ResultFacts],
        results: Sequence[ResultRecord],
        *,
        is_observed: bool = False,
    ) -> None:
        """What was done to results, for the requests that carry them again."""
        shown = accepted.rewritten.shown
        sent = (lambda entry: entry.item.text) if is_observed else accepted.sent
        is_known = self._memory.knows(session)
        numbers = chain((result.number for result in results), repeat(0))
        of_new = zip(new, numbers, strict=False)
        first = len(shown) - MOST_IN_FLOW
        for position, entry in enumerate(shown):
            facts, number = next(of_new, (None, 0)) if entry.new else (None, 0)
            if facts is None:
                if is_known or entry.new or position < first:
                    continue
                kept = events.reason(entry.tool, entry.facts, accepted.request.settings)
                facts = ResultFacts.of(entry, kept)
            self._memory.put(session, facts, sent(entry), number)

    def _show(
        self,
        flow: http.HTTPFlow,
        state: FlowState,
        incoming: Incoming,
        accepted: Accepted,
        summary: Summary,
        changed: bool,
        new: list[ResultFacts],
    ) -> None:
        earlier = flow.metadata.get("penumbra", {}) if incoming.socket else {}
        if incoming.socket:
            summary = state.frames = state.frames + summary
        sizes = earlier.get("body_bytes", [0, 0])
        metadata = flow.metadata["penumbra"] = {
            **summary.metadata(),
            "api": incoming.api.id,
            "session": accepted.conversation.hex()[:8],
            "new": listed(new, earlier.get("new")),
            "changed": changed or bool(earlier.get("changed")),
            "body_bytes": [sizes[0] + len(incoming.body), sizes[1] + len(accepted.rewritten.body)],
            "milliseconds": round(earlier.get("milliseconds", 0.0) + accepted.milliseconds, 2),
        }
        if incoming.socket:
            metadata["frames"] = earlier.get("frames", 0) + 1
        if metadata["changed"]:
            comment, before = f"Penumbra: {summary.line()}", state.frames_comment
            # What was said of responses in between stays behind it.
            flow.comment = comment + flow.comment.removeprefix(before) if before else comment
            flow.marked = flow.marked or MARK
            if incoming.socket:
                state.frames_comment = comment


def do_afterwards(steps: Iterator[None]) -> None:
    """Do what nobody waits for once what goes on now has been written to its connection, and before anything
    that comes in later is looked at; at once where no event loop runs. Others go on between two steps."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        while _is_step(steps):
            pass
    else:
        loop.call_soon(_go_on, loop, steps)


def _go_on(loop: asyncio.AbstractEventLoop, steps: Iterator[None]) -> None:
    if _is_step(steps):
        loop.call_soon(_go_on, loop, steps)


def _is_step(steps: Iterator[None]) -> bool:
    """Take a step; false: there was none left."""
    try:
        return next(steps, steps) is None
    except Exception as error:
        _log.error("Penumbra: what was done to a request can't be shown: %s", errors.place(error))
        return False
