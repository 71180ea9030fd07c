"""This module computes the cost of a change to a cached prefix and the savings in later turns, and decides
which forms may change after a pause, when nothing is cached any more.

The unit is the price of one uncached input token. A result has `before` tokens, and `cached` tokens of the
cached prompt follow the result. If the result changes, all of these tokens are written to the cache again
once, and every later turn reads fewer tokens:

    once        write * (before + cached - saved) - read * (before + cached)
    each turn   read * saved

Several results change together, because everything after the first change is then written only once. With
a cold cache the whole prompt is written in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial

from msgspec import Struct

from penumbra import rules
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.conversation import adoption
from penumbra.conversation.model import Request
from penumbra.metrics.cache_miss import ColdTurn
from penumbra.short_texts import remembered
from penumbra.store.conversations import ConversationState
from penumbra.store.decisions import Decision, referents
from penumbra.wire.document import Document

COLD = "the cache is cold"


class Prices(Struct, frozen=True):
    """`Prices` has the limits of a model's cache, and prices as multiples of the price of an input token."""

    read: float
    write: float
    minimum: int
    """A prompt of fewer tokens is not cached."""
    step: int
    """The number of tokens in a cached prefix is a multiple of this number."""
    life: float
    """The number of seconds for which a cached prompt lives."""
    cold: float
    """After this number of seconds without a request, nothing can be cached any more."""


@dataclass(frozen=True, slots=True)
class Change:
    """A `Change` is a smaller form of one result. All sizes are tokens."""

    before: int
    after: int
    cached: int
    """The number of cached tokens after the result."""

    @property
    def saved(self) -> int:
        return self.before - self.after


class Gain(Struct, frozen=True):
    """A `Gain` is the number of changes that pay, with their cost, their saving and the reason."""

    count: int
    """The number of changes, counted from the end of the request; 0 if none pays."""
    once: float
    """The cost of the changes in this request; negative if they save at once."""
    each: float
    """The saving of each later turn."""
    line: str
    """The reason, for a log."""


table = partial(rules.table, "prices.yaml")


def prices(format_name: str, model: str, body: bytes) -> Prices:
    """Return the prices of a request. Raises KeyError for an unknown format."""
    asked = table()["formats"][format_name].get("asked")
    return _prices(format_name, model, asked is not None and _has(body, asked["marker"].encode()))


@remembered(256)
def _prices(format_name: str, model: str, asks: bool) -> Prices:
    """Return the prices. `asks` is true if the request asks for another cache life than the format's usual
    one."""
    name, entry = model.lower(), dict(table()["formats"][format_name])
    asked, whose = entry.pop("asked", None), entry.pop("whose", "*")
    entry |= next((own for own in table()["models"] if fnmatchcase(name, own["glob"])), {})
    entry |= asked if asks else {}
    if not fnmatchcase(name, whose):
        entry["cold"] = table()["unknown"]
    return Prices(**{key: value for key, value in entry.items() if key not in ("glob", "marker")})


def of_request(format_name: str, model: str, document: Document) -> Prices:
    """Return the prices of the request in a document. Raises KeyError for an unknown format."""
    asked = table()["formats"][format_name].get("asked")
    return _prices(format_name, model, asked is not None and document.once(_asking(asked["marker"])))


@cache
def _asking(marker: str) -> Callable[[Document], bool]:
    """Return a function that returns whether a document has a member with this name and value."""
    name, whole = marker.partition(":")[0].encode(), marker.encode()
    return lambda document: document.contains(name) and _has(document.text(), whole)


def _has(body: bytes, marker: bytes) -> bool:
    """Return whether a body has a member with this name and value. Spaces may be between them."""
    name = marker.partition(b":")[0]
    places = (place.start() for place in re.finditer(re.escape(name), body))
    return any(body[at : at + len(marker) + 8].replace(b" ", b"").startswith(marker) for at in places)


def remaining_turns(made: int) -> int:
    """Return the expected number of further requests in a conversation with `made` requests so far."""
    entry = table()["turns"]
    return min(int(made * entry["part"]), int(entry["most"]))


def decide(changes: Sequence[Change], price: Prices, turns: int, *, cold: bool, bound: bool) -> Gain:
    """Return how many of the changes pay, counted from the end of the request. `changes` are in the order of
    the request. `turns` is the expected number of further requests. `cold` is true if no part of the request
    is cached. `bound` is true if the provider would refuse the reasoning after a change."""
    if not changes:
        return Gain(0, 0.0, 0.0, "")
    if bound:
        line = f"kept {len(changes)} results: reasoning after them is bound to what stands before it"
        return Gain(0, 0.0, 0.0, line)
    last = changes[-1]
    best: tuple[float, int, float, float] | None = None
    saved = 0
    for count, change in enumerate(reversed(changes), 1):
        saved += change.saved
        once, each = _costs(change.before + change.cached, saved, price, cold)
        net = each * turns - once * (table()["margin"] if once > 0 else 1.0)
        if best is None or net > best[0]:
            best = (net, count, once, each)
    assert best is not None
    net, count, once, each = best
    cached = changes[-count].cached
    if net <= 0:
        once, each = _costs(last.before + last.cached, last.saved, price, cold)
        pays = f"in {once / each:.0f} turns at best" if each > 0 else "never"
        line = f"kept {len(changes)} results: the last alone pays back {pays}, {turns} are expected"
        return Gain(0, once, each, line)
    if once <= 0:
        why = COLD if cold else f"after them are only {cached:,} cached tokens"
        return Gain(count, once, each, f"rewrote {count} results: {why}, it pays at once")
    line = f"rewrote {count} results before {cached:,} cached tokens: pays back in {once / each:.0f} turns"
    return Gain(count, once, each, line)


def _costs(region: int, saved: int, price: Prices, cold: bool) -> tuple[float, float]:
    """Return the cost of writing `region - saved` tokens again, and the saving of each later turn."""
    unchanged = region * (price.write if cold else price.read)
    return (region - saved) * price.write - unchanged, saved * price.read


# A cold cache

_LEAST_REOPENED = 400
"""The size in bytes of the smallest result whose form may change again."""


def is_cold(request: Request, state: ConversationState, cold: float) -> bool:
    """Return whether forms may change because no part of the conversation is cached any more. After `cold`
    seconds without a request, nothing is cached."""
    settings = request.settings
    may_change = settings.adopt == "auto" and settings.rewrites_history
    return may_change and (state.idle or 0.0) > cold


def reopened(request: Request, state: ConversationState, past: Mapping[bytes, Decision]) -> frozenset[bytes]:
    """Return the keys of the results whose form may change with a cold cache: adopted results, and also other
    results if the conversation has no injected tool. Small forms stay. Forms to which thinking is bound, or
    to which another result refers, also stay."""
    conversation = request.conversation
    first = conversation.last_thinking + 1 if adoption.binds(request.format, conversation.model) else 0
    fixed = referents(past)
    return frozenset(
        item.key
        for item in request.items
        if first <= item.result.turn <= conversation.last_response
        and item.key not in fixed
        and (facts := past[item.key].facts).bytes_after >= _LEAST_REOPENED
        and facts.how in ("kept", "shortened", "adopted")
        # A result also counts as adopted if only its secrets were removed.
        and (
            not state.tool or facts.how == "adopted" or (facts.redactions and not (facts.stages or facts.ref))
        )
    )


def cold_turn(request: Request, changed: Collection[bytes], *, declares: bool) -> ColdTurn | None:
    """Return the size of the unchanged prefix of a request with a cold cache; None if nothing changes.
    `changed` are the keys of answered results whose form changes. `declares` is true if the tools change."""
    document, messages = request.document, request.conversation.messages
    places = [document.place(item.result.value)[0] for item in request.items if item.key in changed]
    if messages is None or not (places or declares):
        return None
    begin, end = document.place(messages)
    head = (len(document.text()) - (end - begin)) / BYTES_PER_TOKEN
    kept = 0 if declares else (min(places) - begin) / BYTES_PER_TOKEN
    return ColdTurn(int(head), int(kept))
