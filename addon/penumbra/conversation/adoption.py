"""Results that the provider has already seen without us: what it has seen raw stays raw.

A change to what the provider holds in its prompt cache costs the cache, and newer Anthropic models
refuse thinking blocks whose prefix has changed. So a result that is followed by a response which did
not pass through us is left as it came, wherever either may be at
stake. After a pause that no cache outlives, only thinking is: such results get the form then that they would
have had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from penumbra.apis.parts import Conversation
from penumbra.apis.recognise import Cache
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.conversation.bound_thinking import binds
from penumbra.metrics.cache_miss import ColdTurn
from penumbra.store.conversations import ConversationState
from penumbra.store.decisions import Decision, Facts, referents
from penumbra.wire.document import Document

if TYPE_CHECKING:
    from penumbra.conversation.model import Request

# A low guess on purpose: it is safer to take a prefix for cached than for cold.
_BYTES_PER_TOKEN = 3
_LEAST = 400
"""Bytes; smaller results are not looked at again."""


def stays_raw(adopt: str, turn: int, conversation: Conversation, cached: bool) -> bool:
    """Whether an answered result of message `turn` that is unknown to us must keep its form.

    `adopt` is auto, raw or compress; `cached` is what `may_be_cached` says of the request.
    """
    if adopt == "auto":
        return cached or turn < conversation.last_thinking
    return adopt == "raw"


def keeps_secrets(adopt: str, turn: int, conversation: Conversation, format: str) -> bool:
    """Whether such a result keeps its secrets, too.

    A cache is worth less than a secret, which may be new to the provider: had the ledger been lost, it
    would have seen a placeholder. Thinking that is refused with another prefix is worth more.
    """
    return adopt == "raw" or (binds(format, conversation.model) and turn < conversation.last_thinking)


def may_be_cached(document: Document, cache: Cache) -> bool:
    """Whether the provider may hold a prefix of this request in its cache."""
    if cache.explicit and not document.contains(cache.marker):
        return False
    return len(document.text()) >= cache.minimum_tokens * _BYTES_PER_TOKEN


def is_cold(request: Request, state: ConversationState, cold: float) -> bool:
    """Return whether a change costs nothing, since nothing of the conversation can be cached any more.

    `cold`: seconds without a request after which that is so.
    """
    settings = request.settings
    may_change = settings.adopt == "auto" and settings.rewrites_history
    return may_change and (state.idle or 0.0) > cold


def reopened(request: Request, state: ConversationState, past: Mapping[bytes, Decision]) -> frozenset[bytes]:
    """Return the keys of the results whose form may change where the cache is cold.

    These are the adopted ones, and all of a conversation that had no injected tool; none to which thinking is
    bound, and none that others refer to.
    """
    conversation = request.conversation
    first = conversation.last_thinking + 1 if binds(request.format, conversation.model) else 0
    fixed = referents(past)
    return frozenset(
        item.key
        for item in request.items
        if first <= item.result.turn <= conversation.last_response
        and item.key not in fixed
        and (facts := past[item.key].facts).bytes_after >= _LEAST
        and facts.how in ("kept", "shortened", "adopted")
        and (facts.how == "adopted" or _is_redacted_only(facts) or not state.tool)
    )


def cold_turn(request: Request, changed: Collection[bytes], *, declares: bool) -> ColdTurn | None:
    """Return what a request leaves as it was whose cache is cold; None if it leaves everything so.

    `changed`: keys of the answered results that have another form; `declares`: the tools have one.
    """
    document, messages = request.document, request.conversation.messages
    places = [document.place(item.result.value)[0] for item in request.items if item.key in changed]
    if messages is None or not (places or declares):
        return None
    begin, end = document.place(messages)
    head = (len(document.text()) - (end - begin)) / BYTES_PER_TOKEN
    kept = 0 if declares else (min(places) - begin) / BYTES_PER_TOKEN
    return ColdTurn(int(head), int(kept))


def _is_redacted_only(facts: Facts) -> bool:
    """Return whether a text was sent whole but for its secrets, as adopted ones are."""
    return bool(facts.redactions) and not facts.stages and not facts.ref
