"""This module reports requests: by a log line, by the flow's comment, mark and metadata, by an event, and by
an entry in the journal.

The figures of a WebSocket's frames are added up in one flow.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, repeat

from cachetools import LRUCache
from msgspec import Raw, structs

from penumbra import errors
from penumbra.apis import prefix_hash
from penumbra.apis.formats import FORMATS
from penumbra.apis.prompt import declarations
from penumbra.config.settings import Settings
from penumbra.conversation import cache_price
from penumbra.conversation.cache_price import Prices
from penumbra.conversation.incoming import Accepted, EngineSettings, Incoming
from penumbra.conversation.model import Request, Shown
from penumbra.expand import reference
from penumbra.explain.result_facts import MOST_IN_FLOW, ResultFacts, ResultMemory, listed
from penumbra.flow import destination
from penumbra.flow import state as states
from penumbra.flow.current_settings import EngineHandle, Engines
from penumbra.flow.mitm import Flow
from penumbra.flow.page.contents import Texts
from penumbra.flow.state import FlowState, add_note
from penumbra.metrics import amounts, events
from penumbra.metrics.amounts import Rates
from penumbra.metrics.cache_miss import ComparedPrompt, Prompt
from penumbra.metrics.events import NewResult, SentRequest, Summary
from penumbra.metrics.journal import Journal
from penumbra.metrics.sessions import ResultRecord, TurnRecord
from penumbra.metrics.tool_use import DeclaredTool
from penumbra.redaction.redact_calls import ShowName
from penumbra.wire.document import Document

MARK = ":new_moon:"
_NOT_SHOWN = "Penumbra: the changes of a request can't be shown"
_STEP = 256
"""The number of new results that are counted before other work runs."""
_log = logging.getLogger(__name__)


@dataclass
class _Frames:
    """A `_Frames` has the sums over the frames of a WebSocket so far."""

    summary: Summary = field(default_factory=Summary)
    comment: str = ""
    """The part of the flow's comment that is about the frames."""


@dataclass(frozen=True)
class Reports:
    """A `Reports` reports requests to the journal, the page, the log, the flow and the event file."""

    _journal: Journal
    _texts: Texts
    _memory: ResultMemory
    _write: events.WriteEvent

    def accepted(
        self, flow: Flow, state: FlowState, handle: EngineHandle, incoming: Incoming, accepted: Accepted
    ) -> None:
        """Report a request, or a frame of a socket, that is sent on. `handle` is the handle that rewrote the
        request: the handle in a socket's flow has already ended. This method never raises, since a request
        that can't be reported must still be sent."""
        with errors.contained(_log, _NOT_SHOWN):
            self._report_all(flow, state, handle, incoming, accepted)

    def _report_all(
        self, flow: Flow, state: FlowState, handle: EngineHandle, incoming: Incoming, accepted: Accepted
    ) -> None:
        rewritten, prepared = accepted.rewritten, accepted.prepared
        summary = Summary.of(
            rewritten.shown,
            accepted.hidden,
            declared=prepared.declared if prepared else "",
            put_back=len(prepared.replayed.exchanges) if prepared else 0,
        )
        changed = rewritten.body is not incoming.body
        shown = [entry for entry in rewritten.shown if entry.new]
        new = [
            ResultFacts.of(entry, events.reason(entry.tool, entry.facts, accepted.request.settings))
            for entry in shown[:MOST_IN_FLOW]
        ]
        self._show(flow, state, incoming, accepted, summary, changed, new)
        # The flow shows the changes at once. Counting and logging can wait until the request is sent. Only a
        # frame is counted at once, because the figures of the next frames go to its entry in the journal.
        steps = self._account(flow, state, handle.share(), incoming, accepted, summary, shown, new)
        if incoming.socket:
            next(steps, None)
        do_afterwards(steps)

    def _account(
        self,
        flow: Flow,
        state: FlowState,
        handle: EngineHandle,
        incoming: Incoming,
        accepted: Accepted,
        summary: Summary,
        shown: list[Shown],
        new: list[ResultFacts],
    ) -> Iterator[None]:
        """Count and log a request with the new results `shown`, in steps of `_STEP` results. End the
        handle."""
        host, rewritten = destination.shown(flow), accepted.rewritten
        with handle:
            is_changed = summary.changed > 0 or bool(accepted.hidden)
            entry = sent_request(host, incoming, accepted, summary, shown, changed=is_changed, most=_STEP)
            state.turn = turn = self._journal.sent(entry)
            if handle.settings.page_originals == "on":
                self._texts.keep(handle, accepted, turn.results)
            self._remember(turn.session, accepted, shown, new, turn.results)
        yield
        for begin in range(_STEP, len(shown), _STEP):
            further = _new_results(accepted.request, shown[begin : begin + _STEP])
            self._journal.further(turn, further)
            yield
        if accepted.line:
            _log.info(f"Penumbra: {host}: {accepted.line}")
        changed = rewritten.body is not incoming.body
        if changed and not (summary.changed or summary.secrets):
            _log.debug(f"Penumbra: {host} {incoming.api.id}: {summary.line()}")
        elif changed:
            of_new = Summary.of(shown, accepted.hidden)
            _log.info(
                f"Penumbra: {host} {incoming.api.id}: {summary.line(of_new)}, "
                f"{len(incoming.body):,} -> {len(rewritten.body):,} bytes, {accepted.milliseconds:.1f} ms"
            )
        if summary.results or summary.secrets or accepted.line:
            self._event(flow, entry, accepted)

    def observed(self, flow: Flow, incoming: Incoming, accepted: Accepted, handle: EngineHandle) -> None:
        """Report the changes that Penumbra would make to a request that was sent unchanged. `handle` is the
        handle of the observation."""
        host, rewritten = destination.shown(flow), accepted.rewritten
        summary = Summary.of(rewritten.shown, accepted.hidden)
        new = [entry for entry in rewritten.shown if entry.new]
        of_new = Summary.of(new, accepted.hidden)
        _log.info(
            f"Penumbra would: {host} {incoming.api.id}: {summary.line(of_new)}, "
            f"{len(incoming.body):,} -> {len(rewritten.body):,} bytes"
        )
        add_note(flow, f"would: {summary.line()}")
        results: Sequence[ResultRecord] = ()
        changed = summary.changed > 0 or bool(accepted.hidden)
        entry = structs.replace(
            sent_request(host, incoming, accepted, summary, new, changed=changed), is_observed=True
        )
        if accepted.request.settings.observe:
            # No request waits for this work.
            turn = self._journal.sent(structs.replace(entry, milliseconds=0.0))
            self.await_response(flow, turn)
            results = turn.results
            if handle.settings.page_originals == "on":
                self._texts.keep(handle, accepted, results)
        facts = [ResultFacts.of(result.shown, result.kept) for result in entry.new[:MOST_IN_FLOW]]
        session = accepted.conversation.hex()[:8]
        self._remember(session, accepted, new, facts, results, is_observed=True)
        flow.metadata["penumbra_would"] = {**summary.metadata(), "session": session, "new": listed(facts)}
        self._event(flow, entry, accepted)

    def await_response(self, flow: Flow, turn: TurnRecord) -> None:
        """Complete the journal's entry when the response arrives. The response may already have arrived."""
        if (state := states.of(flow)) is not None:
            state.turn = turn
        elif flow.error is None and flow.response is not None:
            self._journal.responded(turn, flow.response.status_code)
        else:
            self._journal.failed(turn, flow.response.status_code if flow.response else None)

    def _event(self, flow: Flow, entry: SentRequest, accepted: Accepted) -> None:
        settings = accepted.request.settings
        shown, mode = accepted.rewritten.shown, str(settings.mode)
        self._write(partial(events.request_event, flow.id, entry, shown, mode, settings.strategy))

    def _remember(
        self,
        session: str,
        accepted: Accepted,
        fresh: Sequence[Shown],
        new: list[ResultFacts],
        results: Sequence[ResultRecord],
        *,
        is_observed: bool = False,
    ) -> None:
        """Remember the new results `fresh`, and the latest results if the session is not known yet."""
        shown = fresh if self._memory.knows(session) else accepted.rewritten.shown
        sent = (lambda entry: entry.item.text) if is_observed else accepted.sent
        numbers = chain((result.number for result in results), repeat(0))
        of_new = zip(new, numbers, strict=False)
        first = len(shown) - MOST_IN_FLOW
        for position, entry in enumerate(shown):
            facts, number = next(of_new, (None, 0)) if entry.new else (None, 0)
            if facts is None:
                if entry.new or position < first:
                    continue
                kept = events.reason(entry.tool, entry.facts, accepted.request.settings)
                facts = ResultFacts.of(entry, kept)
            self._memory.put(session, facts, sent(entry), number)

    def _show(
        self,
        flow: Flow,
        state: FlowState,
        incoming: Incoming,
        accepted: Accepted,
        summary: Summary,
        changed: bool,
        new: list[ResultFacts],
    ) -> None:
        earlier = flow.metadata.get("penumbra", {}) if incoming.socket else {}
        frames = state.get(_Frames) or _Frames()
        if incoming.socket:
            frames.summary = summary = frames.summary + summary
            state.put(frames)
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
            comment, before = f"Penumbra: {summary.line()}", frames.comment
            # Notes about responses, added since the last frame, stay after the new comment.
            flow.comment = comment + flow.comment.removeprefix(before) if before else comment
            flow.marked = flow.marked or MARK
            if incoming.socket:
                frames.comment = comment


def do_afterwards(steps: Iterator[None]) -> None:
    """Run steps soon on the event loop, with the loop's other work between them. Without an event loop, run
    them at once."""
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
    """Take the next step. Return False if no step is left."""
    with errors.contained(_log, _NOT_SHOWN):
        return next(steps, steps) is None
    return False


_AGENT = re.compile(r"[A-Za-z][\w.-]{0,39}", re.ASCII)
_BREAKPOINT = re.compile(rb',? ?"cache_control": ?\{[^{}]{0,100}\}')
_TOOLS: LRUCache[bytes, tuple[DeclaredTool, ...]] = LRUCache(64)
"""The declared tools, by a hash of all declarations."""
_MOST_TOOLS = 400
_BYTES_A_TOKEN = 4
_ON_REQUEST = ("anthropic", "bedrock", "bedrock_invoke")
"""The formats in which the client marks the prefix that the provider caches."""


def sent_request(
    host: str,
    incoming: Incoming,
    accepted: Accepted,
    summary: Summary,
    new: Sequence[Shown],
    *,
    changed: bool,
    most: int | None = None,
) -> SentRequest:
    """Return the journal's entry of a forwarded request, with at most `most` of the results in `new`. `host`
    is the name to show."""
    request = accepted.request
    model = request.conversation.model
    prices = cache_price.of_request(incoming.api.format, model, request.document)
    rates = (amounts.price(model) or Rates()).with_cache(prices.read, prices.write)
    prepared = accepted.prepared
    return SentRequest(
        conversation=accepted.conversation,
        model=accepted.model,
        agent=agent(incoming.headers.get("user-agent", "")),
        is_turn=incoming.api.kind == "messages",
        project=accepted.project,
        host=host,
        api=incoming.api.id,
        note=accepted.line,
        summary=summary,
        new=_new_results(request, new[:most]),
        secrets=accepted.hidden,
        changed=changed,
        body=(len(incoming.body), len(accepted.rewritten.body)),
        milliseconds=accepted.milliseconds,
        prompt=_prompt(incoming, accepted, prices),
        rates=rates,
        dollars_saved=_dollars(
            incoming, summary, new, rates.at(len(accepted.rewritten.body) // _BYTES_A_TOKEN)
        ),
        declared=reference.tool_tokens(prepared.tool) if prepared is not None and prepared.is_offered else 0,
        put_back=_put_back(accepted),
        tools=_tools(incoming, request, accepted.show),
        called=frozenset(map(accepted.show, {call.name for call in request.conversation.calls.values()})),
    )


def agent(user_agent: str) -> str:
    found = _AGENT.match(user_agent)
    return found[0] if found else ""


def _new_results(request: Request, shown: Sequence[Shown]) -> list[NewResult]:
    return [_new(request, entry) for entry in shown]


def _new(request: Request, entry: Shown) -> NewResult:
    call = entry.item.result.call
    source = request.document.source(call.arguments) if call and call.arguments is not None else b""
    digest = hashlib.blake2b(entry.item.digest + entry.tool.encode("utf-8", "replace"), digest_size=16)
    digest.update(b"\0" + source)
    kept = events.reason(entry.tool, entry.facts, request.settings)
    return NewResult(entry, digest.digest(), kept)


def _prompt(incoming: Incoming, accepted: Accepted, prices: Prices) -> Prompt:
    request = accepted.request
    return Prompt(
        time=time.time(),
        model=request.conversation.model,
        head=prefix_hash.prompt_head(request.document),
        messages=request.chain.history if incoming.api.kind == "messages" else (),
        least=prices.minimum,
        life=prices.life,
        is_automatic=incoming.api.format not in _ON_REQUEST,
        rewrote=accepted.line,
        compared=_compared(incoming, request),
        cold_turn=accepted.cold_turn,
    )


def _tools(incoming: Incoming, request: Request, show: ShowName) -> tuple[DeclaredTool, ...]:
    """Return the client's tools. If a later request has equal declarations, they are not read again."""
    arrays = tuple(FORMATS[incoming.api.format].prompt(request.document).tools)
    source = hashlib.blake2b(digest_size=16)
    for array in arrays:
        source.update(memoryview(array))
    key = source.digest()
    if (found := _TOOLS.get(key)) is None:
        found = _TOOLS[key] = tuple(
            DeclaredTool(show(name), len(declaration) // _BYTES_A_TOKEN)
            for name, declaration in islice(declarations(request.document, arrays), _MOST_TOOLS)
        )
    return found


def _compared(incoming: Incoming, request: Request) -> ComparedPrompt | None:
    """Return the digests of a prompt's messages if the client asks the provider to compare the prompt;
    otherwise None."""
    document, wire = request.document, FORMATS[incoming.api.format]
    if (named := wire.compared_with(document)) is None:
        return None
    messages = document.items(wire.prompt(document).place)
    places = [document.place(message) for message in messages]
    digests = [hashlib.blake2b(digest_size=8) for _ in (*messages, None)]
    is_edited = [False] * len(digests)
    for edit in sorted(document.edits, key=lambda edit: (edit.start, edit.end)):
        # An insertion after a message, such as a hidden exchange, belongs to this message.
        index = bisect_right(places, (edit.start, len(document.data))) - 1
        if index < 0 or edit.start > places[index][1] + 1:
            index = len(messages)
        relative = edit.start - places[index][0] if index < len(messages) else 0
        digests[index].update(b"%d %d " % (relative, len(edit.data)) + edit.data)
        is_edited[index] = True
    written = tuple(document.about(message, _without_breakpoints) for message in messages)
    edits = (digest.digest() if one else b"" for digest, one in zip(digests, is_edited, strict=True))
    return ComparedPrompt(document.text_of(named), written, tuple(edits))


def _without_breakpoints(_: Document, message: Raw) -> bytes:
    """Return a digest of a message without `cache_control`. Providers don't compare that member."""
    return hashlib.blake2b(_BREAKPOINT.sub(b"", memoryview(message)), digest_size=8).digest()


def _dollars(incoming: Incoming, totals: Summary, new: Sequence[Shown], rates: Rates) -> float | None:
    """Return the dollars that shortened results save in a request; None if the model's price is unknown."""
    if incoming.api.kind != "messages":
        return 0.0
    if not rates.input:
        return None
    saved = totals.tokens_before - totals.tokens_after
    if saved <= 0:
        return 0.0
    saved_new = sum([each.facts.tokens_before - each.facts.tokens_after for each in new])
    return saved_new * rates.written + (saved - saved_new) * rates.cached


def _put_back(accepted: Accepted) -> int:
    exchanges = accepted.prepared.replayed.exchanges if accepted.prepared is not None else ()
    # The client sends the visible part of `hidden.last` again, so `hidden.last` is not counted.
    return sum(len(part) for hidden in exchanges for part in (*hidden.before, *hidden.results))


SECONDS = 5.0
"""The seconds between a change of the figures and their write into the store."""


@dataclass
class HistoryWriter:
    """A `HistoryWriter` writes the journal's figures into the store from time to time."""

    _journal: Journal
    _handle: Callable[[], EngineHandle]
    _written: Callable[[], None]
    """The function that is called when figures were passed to the store."""
    _due: asyncio.TimerHandle | None = None

    def changed(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(SECONDS, self._write_if_it_answers)

    def _write_if_it_answers(self) -> None:
        """Write the figures. While the disk does not answer, only add them up."""
        self._due = None
        with self._handle() as handle:
            hangs = handle.engine.database.hangs
        if hangs:
            self.changed()
        else:
            self.write()

    def write(self) -> None:
        """Pass the figures to the database. The database writes them after its earlier work."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        pending = self._journal.take()
        sums = pending.all.record()
        if not sums:
            return
        conversations = {
            name: {
                **amounts.record(),
                "agent": pending.agents.get(name, ""),
                "project": pending.projects.get(name, ""),
            }
            for name, amounts in pending.conversations.items()
        }
        with self._handle() as handle:
            handle.engine.history.add(sums, conversations, pending.tools.take()).add_done_callback(_report)
        self._written()


def _report(written: Future[None]) -> None:
    if (error := written.exception()) is not None:
        # No request waits for this write.
        _log.debug("Penumbra could not write its history: %s", error)


_MOST = 32
"""The greatest number of requests that are observed at once. Further requests are not observed."""
_MEMORY_BYTES = 64_000_000
"""The greatest size in bytes of the decisions and originals in an observation's database."""


@dataclass(frozen=True)
class Observation:
    """An `Observation` rewrites copies of requests that are sent unchanged, and reports the changes. No
    request waits for an observation. A form that was never sent must not count as the first form of its
    result. The database of the observation's engine is therefore in memory and ends with the process."""

    _engines: Engines
    _made_with: Callable[[], EngineSettings]
    """The function that returns the settings of the engine that changes requests."""
    _reports: Reports
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, flow: Flow, incoming: Incoming, settings: Settings) -> None:
        """Begin to rewrite a copy of a request. The request may be sent meanwhile."""
        if len(self._tasks) >= _MOST:
            return
        # An external compressor would cost money in vain, and would get texts that only the provider may get.
        alone = replace(settings, strategy="pipeline") if settings.external_strategy else settings
        made_with = self._made_with()
        most_bytes = min(made_with.database_max_bytes, _MEMORY_BYTES)
        made_with = replace(made_with, database=None, shared=None, database_max_bytes=most_bytes)
        task = asyncio.create_task(self._work(flow, incoming, self._engines.handle(alone, made_with)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, flow: Flow, incoming: Incoming, handle: EngineHandle) -> None:
        with handle:
            words = "Penumbra can't work out the would-be form of a request"
            with errors.contained(_log, words, logging.WARNING):
                outcome = await handle.engine.process(incoming, handle.settings)
                if isinstance(outcome, Accepted):
                    self._reports.observed(flow, incoming, outcome, handle)

    def forget(self) -> None:
        """Delete the content of the observations' engine."""
        self._engines.forget()

    def close(self, *, at_once: bool) -> None:
        for task in self._tasks:
            task.cancel()
        self._engines.close(at_once=at_once)
