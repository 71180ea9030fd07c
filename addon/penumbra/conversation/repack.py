"""Superseded results and arguments that were sent in full get smaller where the price model says it pays.

Only results change that the model has answered, that Penumbra has decided about, and that no other result
refers to. Arguments of superseded calls change on request only, after results: after the first changed
result, everything is written to the cache again in any case. Calls that others refer to, in signed messages
or before reasoning that is bound to them, stay as they are. Forms are decided before the request is
rewritten, recorded, and then final.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec import Raw

from penumbra.apis import parts, prefix_hash
from penumbra.compress import token_estimate
from penumbra.compress.calls import tools
from penumbra.compress.calls.classify import classify
from penumbra.compress.result import Redacted
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.config.parsers import ToolCompaction
from penumbra.conversation import adoption, cache_price, result_text, superseded
from penumbra.conversation.cache_price import Change, Prices, Verdict
from penumbra.conversation.dedup import call_key
from penumbra.conversation.items import Item
from penumbra.conversation.model import Plan, Request
from penumbra.conversation.shrunk_request import calls, decision, request_facts
from penumbra.expand.reference import References
from penumbra.store.decisions import Decision, Facts, referents

_LEAST = 400
"""Bytes; smaller results are not worth a rewrite."""
_SIGNED = (b"thoughtSignature", b"thought_signature")
"""Messages with one of these are the provider's to the byte."""


@dataclass(frozen=True, slots=True)
class _Superseded:
    """A superseded result whose form could change."""

    item: Item
    facts: Facts
    """Facts of the form in which the result was sent."""
    newer: str
    """Id of the call that superseded it."""
    written: bool
    """The newer call wrote the file that was read."""
    end: int
    """Offset after the text, in the original body."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A smaller form that could be sent from now on."""

    key: bytes
    decision: Decision
    original: str
    before: int
    """Tokens of the form that was sent."""
    start: int
    end: int
    """Offsets of the text, in the original body."""


def plan_results(
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
    """Plans the smaller results that pay, and says why; empty where there is nothing to gain.

    `idle`: seconds since the conversation's last request, None if unknown. `drop_bound`: the rewrite may cost
    reasoning, which the provider then drops. `priced` False: only after a pause that the provider's cache
    does not outlive. Raises RedactionError.
    """
    if (price := _price(request, idle, priced)) is None:
        return Plan()
    results = calls(request, parameters) if past else []
    useless = superseded.find(results, parameters)
    replaceable = _replaceable(request, past, useless, superseded.writers(results)) if useless else []
    if not replaceable:
        return Plan()
    decide = _chooser(request, price, idle, bound=_is_bound(request, replaceable, drop_bound))
    behind = _behind(request, past)
    # Making the forms costs time in every turn, so they are made only where even empty forms would pay.
    best = decide([Change(result.facts.tokens_after, 0, behind(result.end)) for result in replaceable])
    if not best.count:
        return Plan(line=best.line)
    candidates = _candidates(request, redact, references, replaceable, parameters)
    verdict = decide([_change(candidate, behind(candidate.end)) for candidate in candidates])
    return _plan(candidates[len(candidates) - verdict.count :], verdict.line if candidates else "")


def _price(request: Request, idle: float | None, priced: bool) -> Prices | None:
    """The prices of a request's cached prompt; None where changes wait for a longer pause."""
    price = cache_price.of_request(request.api.format, request.conversation.model, request.document)
    return price if priced or (idle is not None and idle > price.cold) else None


def _chooser(
    request: Request, price: Prices, idle: float | None, *, bound: bool
) -> Callable[[Sequence[Change]], Verdict]:
    """A function that decides how many of some changes to a request pay."""
    made = len(request.document.items(request.conversation.messages)) // 2
    return partial(
        cache_price.decide,
        price=price,
        turns=cache_price.remaining_turns(made),
        cold=is_cold(request, price, idle),
        bound=bound,
    )


def _change(candidate: _Candidate, behind: int) -> Change:
    return Change(candidate.before, candidate.decision.facts.tokens_after, behind)


def _plan(chosen: Sequence[_Candidate], line: str) -> Plan:
    decisions = {candidate.key: candidate.decision for candidate in chosen}
    made = ((candidate.decision.facts.ref, candidate.original) for candidate in chosen)
    return Plan(decisions, {ref: original for ref, original in made if ref}, line)


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
    """Smaller forms, in the request's order."""
    candidates: list[_Candidate] = []
    for result in replaceable:
        item = result.item
        original = result_text.original(request, item, redact)
        category = classify(item.tool, parts.decoded_arguments(request.document, item.result.call)).category
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
            start, end = request.document.place(item.result.value)
            before = result.facts.tokens_after
            candidates.append(_Candidate(item.key, made, original, before, start, end))
    return candidates


def _behind(request: Request, past: Mapping[bytes, Decision]) -> Callable[[int], int]:
    """A function that counts the tokens after an offset that the provider has seen, in their sent forms."""
    seen = end_of_seen(request)
    saved = _saved_behind(request, past)
    return lambda end: max(0, int((seen - end) / BYTES_PER_TOKEN) - saved(end))


def end_of_seen(request: Request) -> int:
    """The end of the part of the body that the provider has seen before."""
    items = request.document.items(request.conversation.messages)
    last = min(max(request.conversation.last_response - 1, 0), len(items) - 1)
    return request.document.place(items[last])[1] if items else 0


def _saved_behind(request: Request, past: Mapping[bytes, Decision]) -> Callable[[int], int]:
    """The tokens that the sent forms after an offset save."""
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
    # Without the client's cache breakpoints, gateways set their own: the prefix counts as cached all the
    # same.
    return (
        token_estimate.estimate(request.document.text()[:40_000].decode("utf-8", "replace")) < price.minimum
    )


def _is_bound(request: Request, replaceable: Sequence[_Superseded], drop: bool) -> bool:
    if not adoption.binds(request.api.format, request.conversation.model):
        return False
    behind = request.conversation.last_thinking > min(candidate.item.result.turn for candidate in replaceable)
    return behind and not (drop and b'"drop_block"' in request.document.text())


def argument_keys(request: Request) -> dict[bytes, Item]:
    """The ledger's keys of the arguments of calls, each with a text of the call's result."""
    items: dict[bytes, Item] = {}
    seen: set[int] = set()
    for item in request.items:
        value = _arguments(item)
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        items[_key(item, request.document.source(value))] = item
    return items


def _key(item: Item, source: bytes) -> bytes:
    return hashlib.blake2b(b"arguments\0" + item.key + b"\0" + source, digest_size=16).digest()


def put_arguments(request: Request, decided: Mapping[bytes, Decision]) -> frozenset[str]:
    """Edit the request: arguments in the form that was decided. The ids of the calls that were edited."""
    document = request.document
    edited: set[str] = set()
    for key, item in argument_keys(request).items():
        decision, value = decided.get(key), _arguments(item)
        if decision is None or decision.text is None or value is None or _is_edited(request, value):
            continue
        if document.is_string(value):
            document.replace(value, decision.text)
        else:
            document.rewrite(value, decision.text.encode("utf-8", "surrogatepass"))
        edited.add(item.result.call_id)
    return frozenset(edited)


def plan_arguments(
    request: Request,
    past: Mapping[bytes, Decision],
    results: Plan,
    redact: Callable[[str, str], Redacted],
    references: References | None,
    idle: float | None,
    *,
    priced: bool,
) -> Plan:
    """Plans the smaller arguments that pay; empty where the settings don't ask for that.

    `results`: the plan for results; everything after the first of them is written to the cache again in any
    case. `idle`, `priced`: as for `plan_results`. Raises RedactionError.
    """
    parameters = request.settings.tool_compaction
    if not parameters.arguments or not past or (price := _price(request, idle, priced)) is None:
        return Plan()
    candidates = [
        candidate
        for index in superseded.older(calls(request, parameters), parameters)
        if (candidate := _smaller_arguments(request, past, request.items[index], redact, references))
    ]
    if not candidates:
        return Plan()
    seen = end_of_seen(request)
    changed = (item.result.value for item in request.items if item.key in results.decisions)
    anew = min((request.document.place(value)[0] for value in changed), default=seen)
    free = [candidate for candidate in candidates if results.decisions and candidate.start >= anew]
    others = [candidate for candidate in candidates if candidate not in free]
    seen = min(anew, seen)
    decide = _chooser(request, price, idle, bound=False)
    verdict = decide([_change(one, max(0, int((seen - one.end) / BYTES_PER_TOKEN))) for one in others])
    chosen = [*others[len(others) - verdict.count :], *free]
    return _plan(chosen, f"left out arguments of {len(chosen)} older calls" if chosen else "")


def _smaller_arguments(
    request: Request,
    past: Mapping[bytes, Decision],
    item: Item,
    redact: Callable[[str, str], Redacted],
    references: References | None,
) -> _Candidate | None:
    """A smaller form of the arguments of an item's call; None if there is none or they have to stay."""
    value, parameters = _arguments(item), request.settings.tool_compaction
    if value is None or item.key not in past or not _may_change(request, past, item, value):
        return None
    document = request.document
    source = document.source(value)
    text = document.string(value)
    before = source.decode("utf-8", "surrogatepass") if text is None else text
    original = redact(before, "").text if request.settings.redact_secrets else before
    ref = references.ref(original) if references is not None else ""
    trimmed = superseded.trimmed(
        before.encode("utf-8", "surrogatepass"),
        parameters.input_trim_bytes,
        parameters.tool_identifier_fields.get(item.tool, ()),
        ref,
    )
    key = _key(item, source)
    if trimmed is None or key in past:
        return None
    form = trimmed.decode("utf-8", "surrogatepass")
    if token_estimate.estimate(form) >= token_estimate.estimate(before):
        return None
    start, end = document.place(value)
    made = decision("superseded", before, form, ref, Facts())
    return _Candidate(key, made, original, made.facts.tokens_before, start, end)


def _may_change(request: Request, past: Mapping[bytes, Decision], item: Item, value: Raw) -> bool:
    """True if no other part of the conversation forbids a change of a call's arguments."""
    document = request.document
    if tools.skips(item.tool, request.settings.skip_tools) or _is_edited(request, value):
        return False
    if call_key(item.result.call_id, prefix_hash.said_by(document, value)) in referents(past):
        return False
    messages = document.items(request.conversation.messages)
    places = [request.document.place(message) for message in messages]
    at = bisect_right([start for start, _ in places], request.document.place(value)[0]) - 1
    message = request.document.data[slice(*places[at])] if at >= 0 else b""
    if any(mark in message for mark in _SIGNED):
        return False
    drops = request.settings.bound_thinking == "drop" and b'"drop_block"' in request.document.text()
    binds = adoption.binds(request.api.format, request.conversation.model)
    return not binds or request.conversation.last_thinking < at or drops


def _arguments(item: Item) -> Raw | None:
    return item.result.call.arguments if item.result.call is not None else None


def _is_edited(request: Request, value: Raw) -> bool:
    start, end = request.document.place(value)
    return request.document.is_edited(start, end)
