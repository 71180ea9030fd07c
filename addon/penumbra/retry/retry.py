"""This module makes another form of a request that was refused, at most `refusals.RESENDS` times. When the
provider has accepted the retry, `Engine.settle` remembers the forms of the results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from penumbra.apis.parts import is_elsewhere
from penumbra.compress import token_estimate
from penumbra.config.settings import Settings
from penumbra.conversation import adoption, summary_requests
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.conversation.model import Plan
from penumbra.conversation.planner import Need, Planner, may_shorten
from penumbra.redaction.redact_calls import Redact
from penumbra.retry import refusals
from penumbra.retry.refusals import Cause, Refusal, learned_from, need
from penumbra.store.conversations import LearnedLimits
from penumbra.wire.document import Document

_LEAST_BYTES = 600
"""A request of fewer bytes is not shortened."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A `Retry` is the request that replaces a refused request."""

    refusal: Refusal
    accepted: Accepted


def may_help(sent: Accepted) -> bool:
    """Return whether another request could help after a refusal."""
    request = sent.request
    settings = request.settings
    bound = request.conversation.last_thinking >= 0 and adoption.may_drop(
        request.api.format, request.document
    )
    shortens = may_shorten(settings) and len(sent.rewritten.body) >= _LEAST_BYTES
    return shortens or (settings.recover == "auto" and (bound or _declares_late(sent)))


async def instead(
    engine: Engine,
    incoming: Incoming,
    settings: Settings,
    sent: Accepted,
    count: int,
    status: int,
    response: bytes,
) -> Retry | None:
    """Return a request that replaces `sent`; None if the client gets the response. `count` is the number of
    earlier retries. `response` is a response's body, or the data of a stream's event."""
    body = sent.rewritten.body
    host = incoming.host.rpartition(":")[0] or incoming.host
    refusal = refusals.classify(status, response, host, len(body) // 4)
    if refusal is None or refusal.leave:
        return None
    accepted = await engine.retry(incoming, settings, sent, partial(_change, refusal, count, incoming, sent))
    if accepted is None:
        return None
    other, is_size = accepted.rewritten.body, refusal.kind not in (Cause.BINDING, Cause.DECLARATION)
    helps = len(other) < len(body) if is_size else other != body
    return Retry(refusal, accepted) if helps else None


def _declares_late(sent: Accepted) -> bool:
    """Return whether the injected tool is declared after a message."""
    return sent.prepared is not None and bool(sent.prepared.declared_at)


def _change(
    refusal: Refusal, count: int, incoming: Incoming, sent: Accepted, redact: Redact
) -> Plan | bytes | None:
    """Return a plan with smaller forms or new limits, or a whole body; None if no change helps. Raises
    RedactionError."""
    request, body = sent.request, sent.rewritten.body
    if refusal.kind is Cause.BINDING:
        return Plan(limits=LearnedLimits(drop=True))
    if refusal.kind is Cause.DECLARATION:
        return Plan(limits=LearnedLimits(tools_first=True)) if _declares_late(sent) else None
    if not may_shorten(request.settings):
        return None
    estimated = token_estimate.estimate(body.decode("utf-8", "replace"))
    elsewhere = is_elsewhere(request.document)
    needed = need(refusal, estimated, len(body), count, elsewhere=elsewhere)
    if needed is None:
        return None
    if refusal.kind in (Cause.INPUT, Cause.BYTES, Cause.WINDOW) and (
        bounded := _bounded(incoming, sent, needed, estimated)
    ):
        return bounded
    # A model without the tool can't ask for originals, so there are no references.
    prepared = sent.prepared
    references = prepared.references if prepared is not None and prepared.is_offered else None
    plan = Planner(request, sent.decided, redact, references).to_fit(needed)
    if not plan.decisions:
        return None
    return plan.plus(Plan(limits=learned_from(refusal, 0 if elsewhere else estimated)))


def _bounded(incoming: Incoming, sent: Accepted, needed: Need, estimated: int) -> bytes | None:
    """Return a smaller body for a request for a summary; None for other requests, or if that fails."""
    body, format_name = sent.rewritten.body, sent.request.api.format
    document = Document(body)
    summary = summary_requests.recognise(document, format_name, incoming.path, incoming.headers)
    if summary is None:
        return None
    missing = needed.bytes or needed.tokens * len(body) // max(1, estimated)
    budget_bytes = summary_requests.size_of(document, format_name) - missing
    return summary_requests.bound(body, format_name, budget_bytes, prompted=summary.prompted)
