"""What a conversation's size asks for: before a request is sent, and after it was refused.

Before: superseded results whose rewrite pays, the operator's budgets, limits learned from refusals. After:
a smaller request, at most `ladder.RESENDS` times. What a refused request became is remembered only when
the provider took it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from penumbra import errors
from penumbra.apis.parts import is_elsewhere
from penumbra.compress import token_estimate
from penumbra.compress.result import Mode, Redacted, Shortened
from penumbra.config.settings import Settings
from penumbra.conversation import (
    budget,
    context_windows,
    repack,
    rewrite,
    shrink_to_fit,
    shrunk_request,
    summary_requests,
    superseded_arguments,
)
from penumbra.conversation.budget import SLACK
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.shrunk_request import Plan
from penumbra.conversation.usage_scaling import UsageScale, told
from penumbra.expand import room
from penumbra.redaction import RedactionError
from penumbra.retry import refusals, thinking_binding
from penumbra.retry.refusals import Kind, Refusal
from penumbra.store.conversations import ConversationState, LearnedLimits, learned_from
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document

Redacting = Callable[[str, str], Redacted]
_BYTES_PER_TOKEN = 3.6
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it was sent, for the case that it is refused."""

    body: bytes
    path: str
    headers: Mapping[str, str]
    host: str
    """Name, and port where it is known."""
    decided: Mapping[bytes, Decision]
    """The form of every text."""


@dataclass(frozen=True, slots=True)
class Again:
    """What is to be sent instead."""

    refusal: Refusal
    given: Plan = field(default_factory=Plan)
    body: bytes | None = None
    """A whole body, where results alone are not what is shortened."""

    def then(self, other: Again) -> Again:
        """What holds when the request that this one led to was refused too."""
        return replace(other, given=self.given.plus(other.given))

    def helps(self, before: bytes, after: bytes) -> bool:
        """Whether a body that was refused and one that is to be sent instead differ in the right way."""
        return after != before if self.refusal.kind is Kind.BINDING else len(after) < len(before)


_LEAST_BYTES = 600
"""Smaller requests have nothing that could be left out."""


def may_help(request: rewrite.Request, body: bytes) -> bool:
    """Whether something can be done if a request, sent as this body, is refused."""
    settings = request.settings
    bound = request.conversation.last_thinking >= 0 and thinking_binding.may_drop(
        request.api.format, request.document
    )
    shortens = may_shorten(settings) and len(body) >= _LEAST_BYTES
    return shortens or (settings.recover == "auto" and bound)


def may_shorten(settings: Settings) -> bool:
    """Whether the operator lets results be left out to make a request fit."""
    return settings.recover == "auto" and settings.lossy != "off" and settings.mode is not Mode.DISABLED


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a request beside its body."""

    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""


def keys(request: rewrite.Request, past: ConversationState) -> dict[bytes, None]:
    """What the ledger may know of a request."""
    found = dict.fromkeys(item.key for item in request.items)
    found |= dict.fromkeys(other.key for other in request.searched)
    return found | dict.fromkeys(superseded_arguments.keys(request)) if _trims(request, past) else found


def _trims(request: rewrite.Request, past: ConversationState) -> bool:
    """Whether arguments may have another form than they came in."""
    return request.settings.tool_compaction.arguments or past.lesson.arguments


def rewritten(
    request: rewrite.Request,
    known: Mapping[bytes, Decision],
    forms: Mapping[bytes, Shortened],
    past: ConversationState | None,
    redact: Redacting,
    shadows: rewrite.Shadows | None,
    given: Plan | None,
    line_indexes: LineIndexes,
    sent: Head | None = None,
) -> tuple[rewrite.Rewritten, str]:
    """The request as it is to be sent, and why, if its conversation as a whole has a say in that.

    `past` None: the conversation has none. `given`: forms that the request gets because it was refused;
    None: it is sent for the first time. Raises RedactionError.
    """
    past = past or ConversationState()
    first = given is None and request.api.kind == "messages"
    if given is None:
        given = before(request, known, past, redact, shadows) if first else Plan()
    trimmed = arguments(request, known, past, given, redact, shadows) if first else Plan()
    trims = _trims(request, past)
    without = superseded_arguments.put(request, {**known, **trimmed.decisions}) if trims else frozenset()
    edits = list(request.document.edits)
    write = partial(rewrite.rewrite, request, known, redact, shadows, line_indexes, forms, trimmed=without)
    result = write(given.decisions)
    if first:
        decided = {**known, **result.decisions}
        more = fitting(request, decided, result.body, past, redact, shadows)
        if more.decisions:
            request.document.edits[:] = edits
            line = f"shortened {len(more.decisions)} results to fit"
            given = given.plus(Plan({**result.decisions, **more.decisions}, result.originals, line))
            given = given.plus(Plan({}, more.originals))
            result = write(given.decisions)
    given = given.plus(Plan({}, trimmed.originals, trimmed.line))
    result = replace(
        result,
        decisions={**result.decisions, **trimmed.decisions},
        originals={**result.originals, **given.originals},
    )
    lesson = past.lesson.learned(given.lesson)
    bounded = _summarised(request, result.body, sent or Head(), lesson)
    if bounded is None:
        return result, given.line
    line = f"bounded a request for a summary: {len(result.body):,} -> {len(bounded):,} bytes"
    return replace(result, body=bounded), "; ".join(filter(None, (given.line, line)))


def _summarised(request: rewrite.Request, body: bytes, sent: Head, lesson: LearnedLimits) -> bytes | None:
    """A request that has its history summarised, bounded where it would not fit, and where nothing of it is
    cached; None: it stays as it is."""
    if request.api.kind not in ("messages", "compact") or not may_shorten(request.settings):
        return None
    # Looked for in what has been read already: nearly all requests are none.
    found = summary_requests.recognise(request.document, request.api.format, sent.path, sent.headers)
    if found is None:
        return None
    size = summary_requests.size_of(Document(body), request.api.format)
    window = context_windows.of(request.conversation.model, sent.headers, sent.path)
    budget = size
    if not found.shares_cache:
        wanted = request.settings.compaction_budget_bytes
        budget = wanted or max(summary_requests.BUDGET, int(window.believed * _BYTES_PER_TOKEN / 2))
    limit = _limit(lesson, window)
    if 0 < limit < len(body):
        # A token has more than one byte: most requests need no counting.
        estimated = token_estimate.estimate(body.decode("utf-8", "replace"))
        if estimated > limit:
            missing = (estimated - int(limit * SLACK)) * len(body) // estimated
            budget = min(budget, max(0, size - missing))
    if budget >= size:
        return None
    return summary_requests.bound(body, request.api.format, budget, prompted=found.prompted)


def _limit(lesson: LearnedLimits, window: context_windows.Window) -> int:
    """Estimated tokens that a request may have, as far as that is known for sure; 0: not known."""
    return min((limit for limit in (lesson.tokens, lesson.window, window.tokens) if limit), default=0)


def before(
    request: rewrite.Request,
    known: Mapping[bytes, Decision],
    past: ConversationState,
    redact: Redacting,
    shadows: rewrite.Shadows | None,
) -> Plan:
    """Forms that pay because the results were superseded. Raises RedactionError."""
    settings = request.settings
    allowed = shadows is not None or settings.lossy == "on"
    if settings.supersede == "off" or settings.lossy == "off" or not allowed:
        return Plan()
    if settings.supersede == "idle" and past.idle is None:
        return Plan()
    drop = settings.bound_thinking == "drop"
    try:
        priced = settings.supersede == "priced"
        return repack.plan(
            request, known, redact, shadows, past.idle, settings.tool_compaction, drop, priced=priced
        )
    except RedactionError:
        raise
    except Exception as error:
        _log.warning("Penumbra looks at no older results of a request: %s", errors.place(error))
        return Plan()


def arguments(
    request: rewrite.Request,
    known: Mapping[bytes, Decision],
    past: ConversationState,
    given: Plan,
    redact: Redacting,
    shadows: rewrite.Shadows | None,
) -> Plan:
    """Forms of the arguments of superseded calls. Raises RedactionError."""
    settings = request.settings
    allowed = shadows is not None or settings.lossy == "on"
    if settings.supersede == "off" or settings.lossy == "off" or not allowed:
        return Plan()
    try:
        priced = settings.supersede != "idle"
        return superseded_arguments.plan(request, known, given, redact, shadows, past.idle, priced=priced)
    except RedactionError:
        raise
    except Exception as error:
        _log.warning("Penumbra leaves the arguments of a request as they are: %s", errors.place(error))
        return Plan()


def fitting(
    request: rewrite.Request,
    decided: Mapping[bytes, Decision],
    body: bytes,
    past: ConversationState,
    redact: Redacting,
    shadows: rewrite.Shadows | None,
) -> Plan:
    """Smaller forms for a request that is over a budget or a limit that was learned; nothing if it fits.

    `body`: as it would be sent. Raises RedactionError.
    """
    if not request.items or not may_shorten(request.settings):
        return Plan()
    given = Plan()
    for needed in _needs(request, decided, body, past):
        current = {**decided, **given.decisions}
        given = given.plus(
            shrunk_request.smaller(
                request, current, needed, redact, shadows, request.settings.tool_compaction
            )
        )
    return given


def _needs(
    request: rewrite.Request, decided: Mapping[bytes, Decision], body: bytes, past: ConversationState
) -> list[shrink_to_fit.Need]:
    needs: list[shrink_to_fit.Need] = []
    lesson = past.lesson
    if lesson.most:
        needs.append(shrink_to_fit.Need(most=lesson.most))
    if lesson.bytes and len(body) > lesson.bytes:
        needs.append(shrink_to_fit.Need(bytes=len(body) - int(lesson.bytes * SLACK)))
    # Three bytes a token is less than any text has: most requests need no counting.
    if lesson.tokens and len(body) > 2 * lesson.tokens:
        estimated = token_estimate.estimate(body.decode("utf-8", "replace"))
        if estimated > lesson.tokens:
            needs.append(shrink_to_fit.Need(tokens=estimated - int(lesson.tokens * SLACK)))
    limit = _budget(request)
    if limit:
        sizes = [shrunk_request.request_facts(decided, item).bytes_after for item in request.items]
        if missing := budget.excess(sizes, limit):
            needs.append(shrink_to_fit.Need(bytes=missing))
    return needs


def _budget(request: rewrite.Request) -> int:
    """Bytes that the results of a request may have together; 0: no limit."""
    settings = request.settings
    limits = [settings.aggregate_budget_bytes] if settings.aggregate_budget_bytes else []
    window = context_windows.of(request.conversation.model, {}).believed
    if settings.budget_window_share and window:
        limits.append(int(window * settings.budget_window_share * _BYTES_PER_TOKEN))
    return min(limits, default=0)


def usage_scale(
    request: rewrite.Request, rewritten: rewrite.Rewritten, lesson: LearnedLimits, sent: Head
) -> UsageScale | None:
    """What the client is told of a request's size; None: what the provider says."""
    if request.settings.context_guard == "off" or request.api.kind != "messages":
        return None
    cut = any(shown.facts.how == "recovered" for shown in rewritten.shown)
    window = context_windows.of(request.conversation.model, sent.headers, sent.path)
    return told(lesson, window.believed, cut)


def room_of(request: rewrite.Request, lesson: LearnedLimits, sent: Head, learn: room.Learn) -> room.Room:
    """How much may be put behind the answers to a request."""
    window = context_windows.of(request.conversation.model, sent.headers, sent.path)
    return room.of(lesson, window, again=request.settings.recover == "auto", learn=learn)


def refused(status: int, body: bytes, sent: Sent) -> Refusal | None:
    """The refusal in an answer that shortening may help against; None if it is none."""
    name = sent.host.rpartition(":")[0] or sent.host
    found = refusals.classify(status, body, name, len(sent.body) // 4)
    return None if found is None or found.leave else found


def again(
    refusal: Refusal,
    count: int,
    request: rewrite.Request,
    sent: Sent,
    redact: Redacting,
    shadows: rewrite.Shadows | None,
) -> Again | None:
    """What to send instead of a request that was refused for the `count`th time, from 0; None: give up.

    Raises RedactionError.
    """
    if refusal.kind is Kind.BINDING:
        return Again(refusal, Plan(lesson=LearnedLimits(drop=True)))
    if not may_shorten(request.settings):
        return None
    estimated = token_estimate.estimate(sent.body.decode("utf-8", "replace"))
    elsewhere = is_elsewhere(request.document)
    needed = shrink_to_fit.need(refusal, estimated, len(sent.body), count, elsewhere=elsewhere)
    if needed is None:
        return None
    if refusal.kind in (Kind.INPUT, Kind.BYTES, Kind.WINDOW) and (
        bounded := _bounded(request, sent, needed, estimated)
    ):
        return Again(refusal, body=bounded)
    parameters = request.settings.tool_compaction
    given = shrunk_request.smaller(request, sent.decided, needed, redact, shadows, parameters)
    if not given.decisions:
        return None
    return Again(refusal, given.plus(Plan(lesson=learned_from(refusal, 0 if elsewhere else estimated))))


def _bounded(
    request: rewrite.Request, sent: Sent, needed: shrink_to_fit.Need, estimated: int
) -> bytes | None:
    """A smaller compaction request; None if it is no compaction request."""
    format_name = request.api.format
    document = Document(sent.body)
    found = summary_requests.recognise(document, format_name, sent.path, sent.headers)
    if found is None:
        return None
    missing = needed.bytes or needed.tokens * len(sent.body) // max(1, estimated)
    budget_bytes = summary_requests.size_of(document, format_name) - missing
    return summary_requests.bound(sent.body, format_name, budget_bytes, prompted=found.prompted)
