"""A read request on its way to the body that is sent: what pays is planned, then every result gets its form,
then what does not fit gets smaller, and last a request for a summary is bounded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from operator import attrgetter, not_
from typing import TypeVar

from penumbra import errors
from penumbra.compress import token_estimate
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.conversation import (
    cache_price,
    context_windows,
    repack,
    shrunk_request,
    summary_requests,
    workers,
)
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Inputs
from penumbra.conversation.model import Head, Plan, Request, Rewritten
from penumbra.conversation.rewrite import rewrite
from penumbra.conversation.shrink_to_fit import SLACK
from penumbra.errors import RedactionError
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document

T = TypeVar("T")
_KEY = attrgetter("key")
_PAUSE_SECONDS = 240.0
"""From about then on a provider's cache may be cold, and what was sent may get another form."""
_log = logging.getLogger(__name__)


def keys(request: Request, state: ConversationState) -> dict[bytes, None]:
    """What the decisions of the past about a request are known by."""
    ordered = dict.fromkeys(map(_KEY, request.items))
    ordered |= dict.fromkeys(map(_KEY, request.searched))
    if edits_arguments(request, state):
        ordered |= dict.fromkeys(repack.argument_keys(request))
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
    plan = retry if retry is not None else _results(inputs, state) if first else Plan()
    arguments = _arguments(inputs, state, plan) if first else Plan()
    edited_calls: frozenset[str] = frozenset()
    if edits_arguments(request, state):
        edited_calls = repack.put_arguments(request, {**past, **arguments.decisions})
    saved = request.document.saved()
    planned = replace(inputs, planned=plan.decisions) if plan.decisions else inputs
    rewritten = rewrite(planned, line_indexes, edited_calls)
    if first:
        smaller = shrunk_request.plan(inputs, {**past, **rewritten.decisions}, rewritten.body, state)
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
    bounded = _bounded(request, rewritten.body, head or Head(), limits)
    if bounded is None:
        return rewritten, plan.line
    line = f"bounded a request for a summary: {len(rewritten.body):,} -> {len(bounded):,} bytes"
    return replace(rewritten, body=bounded, is_cut=True), "; ".join(filter(None, (plan.line, line)))


def _results(inputs: Inputs, state: ConversationState) -> Plan:
    """Return the forms that pay because results were superseded. Raises RedactionError."""
    request, settings = inputs.request, inputs.request.settings
    if settings.supersede == "idle" and state.idle is None:
        return Plan()
    plan = partial(
        repack.plan_results,
        *(request, inputs.past, inputs.redact, inputs.references, state.idle, settings.tool_compaction),
        settings.bound_thinking == "drop",
        priced=settings.supersede == "priced",
    )
    return _superseded(inputs, plan)


def _arguments(inputs: Inputs, state: ConversationState, results: Plan) -> Plan:
    """Return smaller forms of superseded calls' arguments, behind those of results. Raises RedactionError."""
    plan = partial(
        repack.plan_arguments,
        *(inputs.request, inputs.past, results, inputs.redact, inputs.references, state.idle),
        priced=inputs.request.settings.supersede != "idle",
    )
    return _superseded(inputs, plan)


def _superseded(inputs: Inputs, plan: Callable[[], Plan]) -> Plan:
    """Return a plan where what was superseded may get smaller; it fails open, but for RedactionError."""
    settings = inputs.request.settings
    allowed = inputs.references is not None or settings.lossy == "on"
    asked_for = settings.supersede != "off" and settings.lossy != "off"
    if not (allowed and asked_for and settings.rewrites_history):
        return Plan()
    try:
        return plan()
    except RedactionError:
        raise
    except Exception as error:
        _log.warning("Penumbra leaves what was superseded as it is: %s", errors.place(error))
        return Plan()


def _bounded(request: Request, body: bytes, head: Head, limits: LearnedLimits) -> bytes | None:
    """Return the body of a request for a summary, bounded where it would not fit and nothing of it is cached;
    None: it stays as it is.

    `body`: as it would be sent.
    """
    if request.api.kind not in ("messages", "compact") or not shrunk_request.may_shorten(request.settings):
        return None
    # Looked for in what has been read already: nearly all requests are none.
    summary = summary_requests.recognise(request.document, request.api.format, head.path, head.headers)
    if summary is None:
        return None
    size = summary_requests.size_of(Document(body), request.api.format)
    window = context_windows.of(request.conversation.model, head.headers, head.path)
    room = size
    if not summary.shares_cache:
        wanted = request.settings.compaction_budget_bytes
        room = wanted or max(summary_requests.BUDGET, int(window.believed * BYTES_PER_TOKEN / 2))
    limit = _limit(limits, window)
    if 0 < limit < len(body):
        # A token has more than one byte: most requests need no counting.
        estimated = token_estimate.estimate(body.decode("utf-8", "replace"))
        if estimated > limit:
            missing = (estimated - int(limit * SLACK)) * len(body) // estimated
            room = min(room, max(0, size - missing))
    if room >= size:
        return None
    return summary_requests.bound(body, request.api.format, room, prompted=summary.prompted)


def _limit(limits: LearnedLimits, window: context_windows.Window) -> int:
    """Estimated tokens that a request may have, as far as that is known for sure; 0: not known."""
    return min((limit for limit in (limits.tokens, limits.window, window.tokens) if limit), default=0)
