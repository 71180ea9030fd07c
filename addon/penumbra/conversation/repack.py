"""Superseded results that were sent in full, sent smaller from now on: where the price model says it pays.

Only what the model has answered, what we have decided about, and what nothing else refers to. The forms
are decided before the request is rewritten, recorded with everything else, and then final.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from penumbra.apis import arguments
from penumbra.compress import token_estimate
from penumbra.compress.calls import tools
from penumbra.compress.calls.classify import classify
from penumbra.compress.result import Redacted
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.config.parsers import ToolCompaction
from penumbra.conversation import bound_thinking, cache_price, result_text, superseded
from penumbra.conversation.cache_price import Change, Prices
from penumbra.conversation.items import Item
from penumbra.conversation.model import Plan, Request
from penumbra.conversation.shrunk_request import calls, decision, request_facts
from penumbra.expand.reference import References
from penumbra.store.decisions import Decision, Facts, referents

_LEAST = 400
"""Bytes; smaller results are not worth a rewrite."""


@dataclass(frozen=True, slots=True)
class _Superseded:
    """A superseded result whose form could change."""

    item: Item
    facts: Facts
    """Of the form in which it was sent."""
    newer: str
    """Id of the call that superseded it."""
    written: bool
    """That call wrote the file that was read."""
    end: int
    """Offset behind the text, in the body as it came."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What would be sent instead."""

    result: _Superseded
    decision: Decision
    original: str


def plan(
    request: Request,
    past: Mapping[bytes, Decision],
    redact: Callable[[str, str], Redacted],
    references: References | None,
    idle: float | None,
    parameters: ToolCompaction,
    drop_bound: bool = False,
    *,
    priced: bool = True,
) -> Plan:
    """The forms that pay, and the line that says why; nothing where there is nothing to gain.

    `idle`: seconds since the conversation's last request, None if unknown. `drop_bound`: reasoning that the
    provider drops because of the rewrite is given up. `priced` False: only after a pause that the provider's
    cache does not outlive. Raises RedactionError.
    """
    price = cache_price.of_request(request.api.format, request.conversation.model, request.document)
    if not priced and (idle is None or idle <= price.cold):
        return Plan()
    results = calls(request, parameters) if past else []
    useless = superseded.find(results, parameters)
    replaceable = _replaceable(request, past, useless, superseded.writers(results)) if useless else []
    if not replaceable:
        return Plan()
    made = len(request.document.items(request.conversation.messages)) // 2
    decide = partial(
        cache_price.decide,
        price=price,
        turns=cache_price.remaining_turns(made),
        cold=is_cold(request, price, idle),
        bound=_is_bound(request, replaceable, drop_bound),
    )
    behind = _behind(request, past)
    # Making the forms costs time in every turn: only where it would pay if they were empty.
    best = decide([Change(candidate.facts.tokens_after, 0, behind(candidate)) for candidate in replaceable])
    if not best.count:
        return Plan(line=best.line)
    candidates = _candidates(request, redact, references, replaceable, parameters)
    verdict = decide(
        [
            Change(
                candidate.result.facts.tokens_after,
                candidate.decision.facts.tokens_after,
                behind(candidate.result),
            )
            for candidate in candidates
        ]
    )
    chosen = candidates[len(candidates) - verdict.count :]
    decisions = {candidate.result.item.key: candidate.decision for candidate in chosen}
    originals = {
        candidate.decision.facts.ref: candidate.original
        for candidate in chosen
        if candidate.decision.facts.ref
    }
    return Plan(decisions, originals, verdict.line if candidates else "")


def _replaceable(
    request: Request,
    known: Mapping[bytes, Decision],
    useless: Mapping[int, str],
    writers: frozenset[str],
) -> list[_Superseded]:
    """The superseded results that may change, in the request's order."""
    referred = referents(known)
    replaceable: list[_Superseded] = []
    for index, newer in sorted(useless.items()):
        item = request.items[index]
        past = known.get(item.key)
        if past is None or past.facts.how in ("superseded", "recovered", "duplicate"):
            continue
        if item.key in referred or past.facts.bytes_after < _LEAST:
            continue
        if not tools.skips(item.tool, request.settings.skip_tools):
            end = request.document.place(item.result.value)[1]
            replaceable.append(_Superseded(item, past.facts, newer, newer in writers, end))
    return replaceable


def _candidates(
    request: Request,
    redact: Callable[[str, str], Redacted],
    references: References | None,
    replaceable: Sequence[_Superseded],
    parameters: ToolCompaction,
) -> list[_Candidate]:
    """What could be sent smaller, in the request's order."""
    candidates: list[_Candidate] = []
    for result in replaceable:
        item = result.item
        original = result_text.original(request, item, redact)
        category = classify(item.tool, arguments.decoded(request.document, item.result.call)).category
        form = superseded.form(
            original,
            item.tool,
            item.result.call_id,
            result.newer,
            category,
            parameters,
            written=result.written and category == "read",
        )
        if form is None:
            continue
        ref = references.ref(original) if references is not None else ""
        text = (references.prefix(ref) if references is not None else "") + form
        made = decision("superseded", item.text, text, ref, result.facts)
        if made.facts.tokens_after < result.facts.tokens_after:
            candidates.append(_Candidate(result, made, original))
    return candidates


def _behind(request: Request, past: Mapping[bytes, Decision]) -> Callable[[_Superseded], int]:
    """Tokens that the provider has seen behind a result, as they were sent."""
    seen = end_of_seen(request)
    saved = _saved_behind(request, past)
    return lambda result: max(0, int((seen - result.end) / BYTES_PER_TOKEN) - saved(result.end))


def end_of_seen(request: Request) -> int:
    """Where the part of the body ends that the provider has seen before."""
    items = request.document.items(request.conversation.messages)
    last = min(max(request.conversation.last_response - 1, 0), len(items) - 1)
    return request.document.place(items[last])[1] if items else 0


def _saved_behind(request: Request, past: Mapping[bytes, Decision]) -> Callable[[int], int]:
    """Tokens that the forms behind an offset have fewer than the body as it came."""
    places: list[int] = []
    sums = [0]
    for item in request.items:
        facts = request_facts(past, item)
        places.append(request.document.place(item.result.value)[0])
        sums.append(sums[-1] + facts.tokens_before - facts.tokens_after)
    return lambda start: sums[-1] - sums[bisect_right(places, start)]


def is_cold(request: Request, price: Prices, idle: float | None) -> bool:
    if idle is not None and idle > price.cold:
        return True
    # Without marks of the client's, gateways set their own: the prefix counts as cached all the same.
    return (
        token_estimate.estimate(request.document.text()[:40_000].decode("utf-8", "replace")) < price.minimum
    )


def _is_bound(request: Request, replaceable: Sequence[_Superseded], drop: bool) -> bool:
    if not bound_thinking.binds(request.api.format, request.conversation.model):
        return False
    behind = request.conversation.last_thinking > min(candidate.item.result.turn for candidate in replaceable)
    return behind and not (drop and b'"drop_block"' in request.document.text())
