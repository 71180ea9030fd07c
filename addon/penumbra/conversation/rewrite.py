"""This module makes the sent body from a request that was read.

`compose` plans smaller forms that pay and gives every result its form (`rewrite`). If a request is too large,
`compose` chooses smaller forms. If a request for a summary is still too large, `compose` shrinks its body.
All this may run outside of the event loop.

The forms of the first messages' results are remembered with their edits. In the next turn, these forms are
valid if the results and the decisions are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from operator import attrgetter, is_, not_
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from penumbra.apis.parts import ResultText
from penumbra.compress import token_estimate
from penumbra.compress.result import Redacted
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.conversation import cache_price, context_windows, summary_requests, workers
from penumbra.conversation.decide import Decider, Inputs
from penumbra.conversation.earlier_texts import EarlierTexts, TextsSoFar
from penumbra.conversation.items import Item, Searched, put
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.model import Plan, Request, Rewritten, Shown
from penumbra.conversation.planner import SLACK, Planner, argument_keys, may_shorten, put_arguments
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Document, Edit

T = TypeVar("T")
_KEY = attrgetter("key")
_PAUSE_SECONDS = 240.0
"""After a pause of this number of seconds, the cache may be cold, so that sent forms may change."""
_CALL_ID = attrgetter("result.call_id")
_ITEM_BYTES = 1_000
"""The rough size in bytes of what is remembered about a result, apart from its form."""


class Forms(Struct):
    """A `Forms` has the forms of the results in the first messages."""

    texts: TextsSoFar
    items: list[Item] = msgspec.field(default_factory=list)
    decisions: list[Decision] = msgspec.field(default_factory=list)
    shown: list[Shown] = msgspec.field(default_factory=list)
    edits: list[Edit] = msgspec.field(default_factory=list)
    turns: list[int] = msgspec.field(default_factory=list)
    """The index of the message of each edit."""
    starts: list[int] = msgspec.field(default_factory=list)
    """The offsets that the messages had when the edits were made or last moved."""
    size: int = 0
    """Approximate bytes of the edits."""
    unedited: int = 0
    """The number of remembered edits that this document still lacks."""
    settled: int = 0
    """The number of entries at the beginning of `shown` that are not new."""

    def copy(self) -> Forms:
        """Return a copy for a later request. No entry in the copy is new."""
        known = [structs.replace(one, new=False) for one in self.shown[self.settled :]]
        return Forms(
            self.texts.copy(),
            self.items.copy(),
            self.decisions.copy(),
            [*self.shown[: self.settled], *known],
            self.edits.copy(),
            self.turns.copy(),
            self.starts.copy(),
            self.size,
            len(self.edits),
            len(self.shown),
        )

    def weigh(self) -> int:
        """Return the rough size in bytes."""
        return self.size + _ITEM_BYTES * (1 + len(self.items))

    def fits(self, items: tuple[Item, ...], past: Mapping[bytes, Decision], texts: EarlierTexts) -> bool:
        """Return whether these forms are valid for a request with these results and decisions."""
        count = len(self.items)
        return (
            len(items) >= count
            and all(map(is_, items, self.items))
            and (len(items) == count or items[count].result.turn >= len(self.starts))
            and all(map(is_, map(past.get, map(_KEY, self.items)), self.decisions))
            and texts.tells_apart_as(self.texts, list(map(_CALL_ID, self.items)))
        )

    def edit(self, edits: list[Edit], starts: Sequence[int]) -> None:
        """Add the remembered edits to `edits`. `starts` are the current offsets of the messages."""
        if not self.unedited:
            return
        count = len(self.starts)
        if (now := list(starts[:count])) != self.starts:
            moved = [new - old for new, old in zip(now, self.starts, strict=True)]
            self.edits = [
                Edit(start + moved[turn], end + moved[turn], data)
                for turn, (start, end, data) in zip(self.turns, self.edits, strict=True)
            ]
            self.starts = now
        edits += self.edits
        self.unedited = 0

    def note(self, item: Item, decision: Decision, shown: Shown, edits: list[Edit]) -> None:
        """Add the next result with the edits that give it its form."""
        self.items.append(item)
        self.decisions.append(decision)
        self.shown.append(shown)
        self.edits += edits
        self.turns += [item.result.turn] * len(edits)
        self.size += 2 * sum([len(edit.data) for edit in edits])


def rewrite(
    inputs: Inputs, line_indexes: LineIndexes, edited_calls: frozenset[str] = frozenset()
) -> Rewritten:
    """Give every result its form, and return the request as it is sent. Raises RedactionError.
    `line_indexes` has the indexes of active conversations. `edited_calls` has the ids of the calls with
    shortened arguments."""
    request = inputs.request
    earlier = EarlierTexts(
        request, line_indexes, edited_calls, inputs.provider_results, inputs.clean, inputs.show, inputs.shown
    )
    decider = Decider(inputs, earlier)
    # A form is remembered if only the result's earlier decision and earlier messages determine it.
    is_bound = inputs.references is not None or inputs.stays_bound
    may_remember = is_bound and not (inputs.planned or inputs.reopened) and earlier.is_simple
    shown = _remembered(inputs, decider) if may_remember else []
    for item in request.items[len(shown) :]:
        shown.append(_put(inputs, decider, item)[1])
    for other in request.searched:
        shown += _search(inputs, decider, other)
    decider.earlier.keep_index()
    return Rewritten(request.document.render(), tuple(shown), decider.decisions, decider.originals)


def _put(inputs: Inputs, decider: Decider, item: Item) -> tuple[Decision, Shown]:
    """Put the form of the next result into the request."""
    decider.earlier.note_call(item.result)
    decision, new = decider.decide(item)
    text = item.text if decision.text is None else decision.text
    if text != item.text:
        put(inputs.request.document, item.result.value, item.result.part, text)
    decider.earlier.note(item, text, decision.facts, new=new)
    return decision, Shown(item, decision.facts, new, inputs.show)


def _remembered(inputs: Inputs, decider: Decider) -> list[Shown]:
    """Put the forms of the results into the request, from memory if they are known. Return no forms if the
    messages can't be remembered."""
    request, earlier = inputs.request, decider.earlier
    document, messages, items = request.document, request.conversation.messages, request.items
    if (starts := document.starts(messages)) is None:
        return []

    def resume(forms: Forms) -> None:
        if forms.texts is not earlier.so_far:
            forms.edit(document.edits, starts)
            earlier.go_on_from(forms.texts)

    def step(forms: Forms, turn: int) -> None:
        resume(forms)
        forms.starts.append(starts[turn])
        while len(forms.items) < len(items) and items[len(forms.items)].result.turn == turn:
            item, before = items[len(forms.items)], len(document.edits)
            decision, shown = _put(inputs, decider, item)
            forms.note(item, decision, shown, document.edits[before:])
        forms.texts = earlier.so_far

    forms = document.computed(
        messages,
        len(starts),
        lambda: Forms(earlier.so_far),
        step,
        "forms",
        inputs.show,
        lambda forms: forms.fits(items, inputs.past, earlier),
    )
    resume(forms)
    return forms.shown


def undecided(request: Request, past: Mapping[bytes, Decision]) -> list[Item]:
    """Return the items for which `rewrite` would choose a new form."""
    inputs = Inputs(request, past, lambda text, hint: Redacted(text), None)
    decider = Decider(inputs, EarlierTexts(request, LineIndexes()))
    items: list[Item] = []
    for item in request.items:
        decider.earlier.note_call(item.result)
        if decider.is_open(item):
            items.append(item)
        decider.earlier.note_form(item, past[item.key].facts if item.key in past else Facts())
    return items


def _search(inputs: Inputs, decider: Decider, other: Searched) -> list[Shown]:
    """Remove the secrets of a text that is not shortened."""
    request = inputs.request
    decision = inputs.past.get(other.key) or decider.decisions.get(other.key)
    new = decision is None
    if decision is None:
        seen = other.turn >= decider.last_decided
        may_keep = seen and inputs.gaps is None
        if may_keep and other.keeps_secrets(request.settings.adopt, request.conversation, request.api.format):
            return []
        decision = decider.decisions[other.key] = other.redacted(request.document, inputs.redact)
    other.edit(request.document, decision)
    return [Shown(_item(other), decision.facts, new, inputs.show)] if decision.text is not None else []


def _item(other: Searched) -> Item:
    """Return an item for logs and metrics."""
    return Item(ResultText(other.value, "", other.call, False, other.turn), "", b"", other.key)


def keys(request: Request, state: ConversationState) -> dict[bytes, None]:
    """Return the keys of past decisions about a request."""
    ordered = dict.fromkeys(map(_KEY, request.items))
    ordered |= dict.fromkeys(map(_KEY, request.searched))
    if edits_arguments(request, state):
        ordered |= dict.fromkeys(argument_keys(request))
    return ordered


def start(request: Request) -> bytes:
    """Return a key that all conversations with the same first result share; empty without a result."""
    return b"start" + request.items[0].key if request.items else b""


def answered(request: Request) -> Iterator[bytes]:
    """Return the keys of the results that a response follows. Such results were sent."""
    last = request.conversation.last_response
    return (item.key for item in request.items if item.result.turn <= last)


def edits_arguments(request: Request, state: ConversationState) -> bool:
    """Return whether arguments of calls may have a smaller form."""
    return request.settings.tool_compaction.arguments or state.limits.arguments


def is_heavy(request: Request, past: Mapping[bytes, Decision], state: ConversationState) -> bool:
    """Return whether decisions about a request take long: if many bytes have no decision in `past`, or if old
    decisions of a large request may change after a refusal or a pause."""
    size, most = len(request.document.data), request.settings.offload_bytes
    if state.limits != LearnedLimits() or (state.idle or 0.0) > _PAUSE_SECONDS:
        return size > most
    texts = [len(item.text) for item in _undecided(request.items, past)]
    others = [len(memoryview(other.value)) for other in _undecided(request.searched, past)]
    return workers.cost(sum(texts) + sum(others), size) > most


def _undecided(listed: Sequence[T], past: Mapping[bytes, Decision]) -> Iterator[T]:
    return compress(listed, map(not_, map(past.__contains__, map(_KEY, listed))))


def compose(inputs: Inputs, retry: Plan | None, line_indexes: LineIndexes) -> tuple[Rewritten, str]:
    """Return the request that is sent, and a log line about changes outside of new results. Raises
    RedactionError. `retry` has the new forms for a refused request; None if the request is sent for the first
    time."""
    request, past, state = inputs.request, inputs.past, inputs.state
    first = retry is None and request.api.kind == "messages"
    planner = Planner.of(inputs)
    results, arguments = planner.superseded() if first else (Plan(), Plan())
    plan = results if retry is None else retry
    edited_calls: frozenset[str] = frozenset()
    if edits_arguments(request, state):
        edited_calls = put_arguments(request, {**past, **arguments.decisions})
    saved = request.document.saved()
    planned = structs.replace(inputs, planned=plan.decisions) if plan.decisions else inputs
    rewritten = rewrite(planned, line_indexes, edited_calls)
    if first and may_shorten(request.settings):
        sent = structs.replace(planner, decided={**past, **rewritten.decisions})
        smaller = sent.to_fit(*sent.needs(rewritten.body, state.limits))
        if smaller.decisions:
            request.document.restore(saved)
            line = f"shortened {len(smaller.decisions)} results to fit"
            plan = plan.plus(Plan({**rewritten.decisions, **smaller.decisions}, rewritten.originals, line))
            plan = plan.plus(Plan({}, smaller.originals))
            rewritten = rewrite(structs.replace(inputs, planned=plan.decisions), line_indexes, edited_calls)
    if anew := rewritten.decisions.keys() & inputs.reopened - plan.decisions.keys():
        plan = plan.plus(Plan(line=f"rewrote {len(anew)} results: {cache_price.COLD}"))
    plan = plan.plus(Plan({}, arguments.originals, arguments.line))
    if arguments.decisions or plan.originals:
        rewritten = structs.replace(
            rewritten,
            decisions={**rewritten.decisions, **arguments.decisions},
            originals={**rewritten.originals, **plan.originals},
        )
    limits = state.limits.learned(plan.limits)
    bounded = _bounded(request, rewritten.body, limits)
    if bounded is None:
        return rewritten, plan.line
    line = f"bounded a request for a summary: {len(rewritten.body):,} -> {len(bounded):,} bytes"
    return structs.replace(rewritten, body=bounded, is_cut=True), "; ".join(filter(None, (plan.line, line)))


def _bounded(request: Request, body: bytes, limits: LearnedLimits) -> bytes | None:
    """Return a smaller body if a request asks for a summary and is too large, otherwise None. A request
    without a cached prefix has a lower limit."""
    if request.api.kind not in ("messages", "compact") or not may_shorten(request.settings):
        return None
    # The request's document is already read, and very few requests are for a summary.
    summary = summary_requests.recognise(request.document, request.api.format, request.path, request.headers)
    if summary is None:
        return None
    size = summary_requests.size_of(Document(body), request.api.format)
    window = context_windows.of_request(request)
    space = size
    if not summary.shares_cache:
        space = max(summary_requests.BUDGET, int(window.believed * BYTES_PER_TOKEN / 2))
    # `window.believed`, the size that clients expect, is no limit of the provider.
    limit = min(filter(None, (limits.tokens, limits.window, window.tokens)), default=0)
    if 0 < limit < len(body):
        # A token has more than one byte, so most requests need no count.
        estimated = token_estimate.estimate(body.decode("utf-8", "replace"))
        if estimated > limit:
            missing = (estimated - int(limit * SLACK)) * len(body) // estimated
            space = min(space, max(0, size - missing))
    if space >= size:
        return None
    return summary_requests.bound(body, request.api.format, space, prompted=summary.prompted)
