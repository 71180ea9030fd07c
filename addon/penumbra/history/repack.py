"""Superseded results that were sent in full, sent smaller from now on: where the price model says it pays.

Only what the model has answered, what we have decided about, and what nothing else refers to. The forms
are decided before the request is rewritten, recorded with everything else, and then final.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penumbra import rewrite
from penumbra.calls import tools
from penumbra.history import cache_cost, superseded
from penumbra.history.cache_cost import Change, Prices
from penumbra.recovery.resend import Given, calls, decision, referents, request_facts
from penumbra.shadow.ledger import Decision
from penumbra.text import tokens
from penumbra.text.result import Redacted

_LEAST = 400
"""Bytes; smaller results are not worth a rewrite."""
_BOUND = ("anthropic", "bedrock", "bedrock_invoke")
"""Formats of APIs that may bind reasoning to what stands before it."""
_BYTES_PER_TOKEN = 3.6


@dataclass(frozen=True, slots=True)
class _Candidate:
    item: rewrite.Item
    decision: Decision
    original: str
    end: int
    """Offset behind the text, in the body as it came."""


def plan(
    request: rewrite.Request,
    known: Mapping[bytes, Decision],
    redact: Callable[[str, str], Redacted],
    shadows: rewrite.Shadows | None,
    idle: float | None,
    parameters: superseded.Parameters,
    drop_bound: bool = False,
) -> Given:
    """The forms that pay, and the line that says why; nothing where there is nothing to gain.

    `idle`: seconds since the conversation's last request, None if unknown. `drop_bound`: reasoning that the
    provider drops because of the rewrite is given up. Raises RedactionError.
    """
    found = superseded.find(calls(request, parameters), parameters) if known else {}
    candidates = _candidates(request, known, redact, shadows, found, parameters) if found else []
    if not candidates:
        return Given()
    price = cache_cost.prices(request.api.format, request.conversation.model, request.document.data)
    seen = _end_of_seen(request)
    saved_behind = _saved_behind(request, known)
    changes = [
        Change(
            before=request_facts(known, one.item).tokens_after,
            after=one.decision.facts.tokens_after,
            behind=max(0, int((seen - one.end) / _BYTES_PER_TOKEN) - saved_behind(one.end)),
        )
        for one in candidates
    ]
    made = len(request.document.items(request.conversation.messages)) // 2
    verdict = cache_cost.decide(
        changes,
        price,
        cache_cost.remaining_turns(made),
        cold=_is_cold(request, price, idle),
        bound=_is_bound(request, candidates, drop_bound),
    )
    chosen = candidates[len(candidates) - verdict.count :]
    decisions = {one.item.key: one.decision for one in chosen}
    originals = {one.decision.facts.ref: one.original for one in chosen if one.decision.facts.ref}
    return Given(decisions, originals, verdict.line)


def _candidates(
    request: rewrite.Request,
    known: Mapping[bytes, Decision],
    redact: Callable[[str, str], Redacted],
    shadows: rewrite.Shadows | None,
    found: Mapping[int, str],
    parameters: superseded.Parameters,
) -> list[_Candidate]:
    """What could be sent smaller, in the request's order."""
    referred = referents(known)
    candidates: list[_Candidate] = []
    for index, newer in sorted(found.items()):
        item = request.items[index]
        past = known.get(item.key)
        if past is None or past.facts.how in ("superseded", "recovered", "duplicate"):
            continue
        if item.key in referred or past.facts.bytes_after < _LEAST:
            continue
        if tools.skips(item.tool, request.settings.skip_tools):
            continue
        original = rewrite.original(request, item, redact)
        category = superseded.identify(
            item.tool, rewrite.tool_output(request, item).arguments, parameters
        ).category
        form = superseded.form(original, item.tool, item.result.call_id, newer, category, parameters)
        if form is None:
            continue
        ref = shadows.ref(original) if shadows is not None else ""
        text = (shadows.prefix(ref) if shadows is not None else "") + form
        made = decision("superseded", item.text, text, ref, past.facts)
        if made.facts.tokens_after < past.facts.tokens_after:
            end = request.document.place(item.result.value)[1]
            candidates.append(_Candidate(item, made, original, end))
    return candidates


def _end_of_seen(request: rewrite.Request) -> int:
    """Where the part of the body ends that the provider has seen before."""
    items = request.document.items(request.conversation.messages)
    last = min(max(request.conversation.last_answer - 1, 0), len(items) - 1)
    return request.document.place(items[last])[1] if items else 0


def _saved_behind(request: rewrite.Request, known: Mapping[bytes, Decision]) -> Callable[[int], int]:
    """Tokens that the forms behind an offset have fewer than the body as it came."""
    saved = [
        (request.document.place(item.result.value)[0], facts.tokens_before - facts.tokens_after)
        for item in request.items
        if (facts := request_facts(known, item)).tokens_before
    ]
    return lambda start: sum(count for place, count in saved if place > start)


def _is_cold(request: rewrite.Request, price: Prices, idle: float | None) -> bool:
    if idle is not None and idle > price.cold:
        return True
    # Without marks of the client's, gateways set their own: the prefix counts as cached all the same.
    return tokens.estimate(request.document.data[:40_000].decode("utf-8", "replace")) < price.minimum


def _is_bound(request: rewrite.Request, candidates: list[_Candidate], drop: bool) -> bool:
    if request.api.format not in _BOUND:
        return False
    behind = request.conversation.last_thinking > min(one.item.result.turn for one in candidates)
    return behind and not (drop and b'"drop_block"' in request.document.data)
