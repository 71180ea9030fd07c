"""The arguments of calls that a later call has made useless, sent smaller from now on; only by request.

They are priced like superseded results, behind which they come: what is written anew for those costs
nothing more. A call that others refer to, whose message is signed, or that stands in front of reasoning
which is bound to it, stays as it is. What was decided is final.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Raw

from penumbra.apis import prefix_hash
from penumbra.compress import token_estimate
from penumbra.compress.calls import tools
from penumbra.compress.result import Redacted
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.conversation import bound_thinking, cache_price, repack, superseded
from penumbra.conversation.cache_price import Change
from penumbra.conversation.dedup import call_key
from penumbra.conversation.items import Item
from penumbra.conversation.model import Plan, Request
from penumbra.conversation.shrunk_request import calls, decision
from penumbra.expand.reference import References
from penumbra.store.decisions import Decision, Facts, referents

_SIGNED = (b"thoughtSignature", b"thought_signature")
"""Messages with one of these are the provider's to the byte."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Arguments that could be sent smaller."""

    key: bytes
    start: int
    end: int
    before: str
    decision: Decision
    original: str


def keys(request: Request) -> dict[bytes, Item]:
    """What the ledger knows the arguments of the request's calls by, each with a text of its result."""
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


def put(request: Request, decided: Mapping[bytes, Decision]) -> frozenset[str]:
    """Edit the request: arguments in the form that was decided. The ids of the calls that were edited."""
    document = request.document
    edited: set[str] = set()
    for key, item in keys(request).items():
        decision, value = decided.get(key), _arguments(item)
        if decision is None or decision.text is None or value is None or _is_edited(request, value):
            continue
        if document.is_string(value):
            document.replace(value, decision.text)
        else:
            document.rewrite(value, decision.text.encode("utf-8", "surrogatepass"))
        edited.add(item.result.call_id)
    return frozenset(edited)


def plan(
    request: Request,
    past: Mapping[bytes, Decision],
    given: Plan,
    redact: Callable[[str, str], Redacted],
    references: References | None,
    idle: float | None,
    *,
    priced: bool,
) -> Plan:
    """The forms that pay; nothing where the settings don't ask for it.

    `given`: what was decided about results. `idle`, `priced`: as `repack.plan` has them. Raises
    RedactionError.
    """
    parameters = request.settings.tool_compaction
    price = cache_price.of_request(request.api.format, request.conversation.model, request.document)
    if not parameters.arguments or (not priced and (idle is None or idle <= price.cold)):
        return Plan()
    older = superseded.older(calls(request, parameters), parameters) if past else []
    candidates = [
        candidate
        for index in older
        if (candidate := _candidate(request, past, request.items[index], redact, references)) is not None
    ]
    if not candidates:
        return Plan()
    anew = min(
        (
            request.document.place(candidate.result.value)[0]
            for candidate in request.items
            if candidate.key in given.decisions
        ),
        default=repack.end_of_seen(request),
    )
    seen = min(anew, repack.end_of_seen(request))
    free = [candidate for candidate in candidates if given.decisions and candidate.start >= anew]
    others = [candidate for candidate in candidates if candidate not in free]
    verdict = cache_price.decide(
        [_change(candidate, seen) for candidate in others],
        price,
        cache_price.remaining_turns(len(request.document.items(request.conversation.messages)) // 2),
        cold=repack.is_cold(request, price, idle),
        bound=False,
    )
    return _given([*others[len(others) - verdict.count :], *free])


def _given(chosen: Sequence[_Candidate]) -> Plan:
    if not chosen:
        return Plan()
    return Plan(
        {candidate.key: candidate.decision for candidate in chosen},
        {
            candidate.decision.facts.ref: candidate.original
            for candidate in chosen
            if candidate.decision.facts.ref
        },
        f"left out arguments of {len(chosen)} older calls",
    )


def _change(candidate: _Candidate, seen: int) -> Change:
    facts = candidate.decision.facts
    return Change(
        facts.tokens_before, facts.tokens_after, max(0, int((seen - candidate.end) / BYTES_PER_TOKEN))
    )


def _candidate(
    request: Request,
    past: Mapping[bytes, Decision],
    item: Item,
    redact: Callable[[str, str], Redacted],
    references: References | None,
) -> _Candidate | None:
    """What could be sent instead of the arguments of an item's call."""
    value, parameters = _arguments(item), request.settings.tool_compaction
    if value is None or item.key not in past or not _may_change(request, past, item, value):
        return None
    document = request.document
    source = document.source(value)
    text = document.string(value)
    before = source.decode("utf-8", "surrogatepass") if text is None else text
    original = redact(before, "").text if request.settings.redact_secrets else before
    ref = references.ref(original) if references is not None else ""
    made = superseded.trimmed(
        before.encode("utf-8", "surrogatepass"),
        parameters.input_trim_bytes,
        parameters.tool_identifier_fields.get(item.tool, ()),
        ref,
    )
    key = _key(item, source)
    if made is None or key in past:
        return None
    form = made.decode("utf-8", "surrogatepass")
    if token_estimate.estimate(form) >= token_estimate.estimate(before):
        return None
    start, end = document.place(value)
    return _Candidate(key, start, end, before, decision("superseded", before, form, ref, Facts()), original)


def _may_change(request: Request, past: Mapping[bytes, Decision], item: Item, value: Raw) -> bool:
    """Whether nothing holds a call's arguments as they are."""
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
    binds = bound_thinking.binds(request.api.format, request.conversation.model)
    return not binds or request.conversation.last_thinking < at or drops


def _arguments(item: Item) -> Raw | None:
    return item.result.call.arguments if item.result.call is not None else None


def _is_edited(request: Request, value: Raw) -> bool:
    start, end = request.document.place(value)
    return request.document.is_edited(start, end)
