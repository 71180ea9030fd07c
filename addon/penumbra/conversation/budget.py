"""Smaller forms for a request that is over the operator's budget, or over a limit that was learned."""

from __future__ import annotations

from collections.abc import Mapping

from penumbra.compress import token_estimate
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.config.settings import Settings
from penumbra.conversation import context_windows, shrink_to_fit, shrunk_request
from penumbra.conversation.decide import Inputs
from penumbra.conversation.model import Plan, Request
from penumbra.conversation.shrink_to_fit import SLACK, Need
from penumbra.store.conversations import ConversationState
from penumbra.store.decisions import Decision


def may_shorten(settings: Settings) -> bool:
    """Whether the operator lets results be left out to make a request fit."""
    return settings.recover == "auto" and settings.lossy != "off" and settings.shortens


def plan(inputs: Inputs, decided: Mapping[bytes, Decision], body: bytes, state: ConversationState) -> Plan:
    """The smaller forms; nothing if the request fits.

    `decided`: the form of every text; `body`: as it would be sent. Raises RedactionError.
    """
    request = inputs.request
    if not request.items or not may_shorten(request.settings):
        return Plan()
    planned = Plan()
    for needed in _needs(request, decided, body, state):
        current = {**decided, **planned.decisions}
        parameters = request.settings.tool_compaction
        planned = planned.plus(
            shrunk_request.smaller(request, current, needed, inputs.redact, inputs.references, parameters)
        )
    return planned


def _needs(
    request: Request, decided: Mapping[bytes, Decision], body: bytes, state: ConversationState
) -> list[Need]:
    needs: list[Need] = []
    limits = state.limits
    if limits.most:
        needs.append(Need(most=limits.most))
    if limits.bytes and len(body) > limits.bytes:
        needs.append(Need(bytes=len(body) - int(limits.bytes * SLACK)))
    # Three bytes a token is less than any text has: most requests need no counting.
    if limits.tokens and len(body) > 2 * limits.tokens:
        estimated = token_estimate.estimate(body.decode("utf-8", "replace"))
        if estimated > limits.tokens:
            needs.append(Need(tokens=estimated - int(limits.tokens * SLACK)))
    limit = _budget(request)
    if limit:
        sizes = [shrunk_request.request_facts(decided, item).bytes_after for item in request.items]
        if missing := shrink_to_fit.excess(sizes, limit):
            needs.append(Need(bytes=missing))
    return needs


def _budget(request: Request) -> int:
    """Bytes that the results of a request may have together; 0: no limit."""
    settings = request.settings
    limits = [settings.aggregate_budget_bytes] if settings.aggregate_budget_bytes else []
    window = context_windows.of(request.conversation.model, {}).believed
    if settings.budget_window_share and window:
        limits.append(int(window * settings.budget_window_share * BYTES_PER_TOKEN))
    return min(limits, default=0)
