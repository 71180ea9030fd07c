"""A read request on its way to the body that is sent: what pays is planned, then every result gets its form,
then what does not fit gets smaller, and last a request for a summary is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from operator import attrgetter, not_
from typing import TypeVar

from penumbra.conversation import (
    budget,
    cache_price,
    summary_limit,
    superseded_arguments,
    superseded_plan,
    workers,
)
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.model import Head, Plan, Request, Rewritten
from penumbra.conversation.rewrite import rewrite
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.store.decisions import Decision

T = TypeVar("T")
_KEY = attrgetter("key")
_PAUSE_SECONDS = 240.0
"""From about then on a provider's cache may be cold, and what was sent may get another form."""


def keys(request: Request, state: ConversationState) -> dict[bytes, None]:
    """What the decisions of the past about a request are known by."""
    ordered = dict.fromkeys(map(_KEY, request.items))
    ordered |= dict.fromkeys(map(_KEY, request.searched))
    if edits_arguments(request, state):
        ordered |= dict.fromkeys(superseded_arguments.keys(request))
    return ordered


def answered(request: Request) -> Iterator[bytes]:
    """Keys of the results that a response has followed: they were sent."""
    last = request.conversation.last_response
    return (item.key for item in request.items if item.result.turn <= last)


def edits_arguments(request: Request, state: ConversationState) -> bool:
    """Whether arguments of calls may have another form than they came in."""
    return request.settings.tool_compaction.arguments or state.limits.arguments


def is_heavy(request: Request, past: Mapping[bytes, Decision], state: ConversationState) -> bool:
    """Whether it takes long to decide about a request, of whose texts `past` is decided: where much is new,
    and where what was decided may be decided anew, after a refusal or a pause."""
    size, most = len(request.document.data), request.settings.offload_bytes
    if state.limits != LearnedLimits() or (state.idle or 0.0) > _PAUSE_SECONDS:
        return size > most
    texts = [len(item.text) for item in _undecided(request.items, past)]
    others = [len(memoryview(other.value)) for other in _undecided(request.searched, past)]
    return workers.is_heavy(sum(texts) + sum(others), size, most)


def _undecided(listed: Sequence[T], past: Mapping[bytes, Decision]) -> Iterator[T]:
    """What has a key under which nothing was decided. Nothing is done for each by itself: there are
    thousands."""
    return compress(listed, map(not_, map(past.__contains__, map(_KEY, listed))))


def compose(
    inputs: Inputs,
    state: ConversationState | None,
    retry: Plan | None,
    line_indexes: LineIndexes,
    head: Head | None = None,
) -> tuple[Rewritten, str]:
    """The request as it is to be sent, and why, if its conversation as a whole has a say in that.

    `state` None: the conversation has none. `retry`: forms that the request gets because it was refused;
    None: it is sent for the first time. Raises RedactionError.
    """
    request, past = inputs.request, inputs.past
    state = state or ConversationState()
    first = retry is None and request.api.kind == "messages"
    plan = retry if retry is not None else superseded_plan.results(inputs, state) if first else Plan()
    arguments = superseded_plan.arguments(inputs, state, plan) if first else Plan()
    edited_calls: frozenset[str] = frozenset()
    if edits_arguments(request, state):
        edited_calls = superseded_arguments.put(request, {**past, **arguments.decisions})
    saved = request.document.saved()
    planned = replace(inputs, planned=plan.decisions) if plan.decisions else inputs
    rewritten = rewrite(planned, line_indexes, edited_calls)
    if first:
        smaller = budget.plan(inputs, {**past, **rewritten.decisions}, rewritten.body, state)
        if smaller.decisions:
            request.document.restore(saved)
            line = f"shortened {len(smaller.decisions)} results to fit"
            plan = plan.plus(Plan({**rewritten.decisions, **smaller.decisions}, rewritten.originals, line))
            plan = plan.plus(Plan({}, smaller.originals))
            rewritten = rewrite(replace(inputs, planned=plan.decisions), line_indexes, edited_calls)
    if anew := rewritten.decisions.keys() & inputs.reopened - plan.decisions.keys():
        plan = plan.plus(Plan(line=f"rewrote {len(anew)} results: {cache_price.COLD}"))
    plan = plan.plus(Plan({}, arguments.originals, arguments.line))
    if arguments.decisions or plan.originals:
        rewritten = replace(
            rewritten,
            decisions={**rewritten.decisions, **arguments.decisions},
            originals={**rewritten.originals, **plan.originals},
        )
    limits = state.limits.learned(plan.limits)
    bounded = summary_limit.bounded(request, rewritten.body, head or Head(), limits)
    if bounded is None:
        return rewritten, plan.line
    line = f"bounded a request for a summary: {len(rewritten.body):,} -> {len(bounded):,} bytes"
    return replace(rewritten, body=bounded, is_cut=True), "; ".join(filter(None, (plan.line, line)))
