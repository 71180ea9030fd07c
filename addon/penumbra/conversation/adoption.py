"""Results that the provider has already seen without us: what it has seen raw stays raw.

A change to what the provider holds in its prompt cache costs the cache, and newer Anthropic models
refuse thinking blocks whose prefix has changed. So a result that is followed by a response which did
not pass through us is left as it came, wherever either may be at stake.
"""

from __future__ import annotations

from penumbra.apis.parts import Conversation
from penumbra.apis.recognise import Cache
from penumbra.conversation.bound_thinking import binds
from penumbra.wire.document import Document

# A low guess on purpose: it is safer to take a prefix for cached than for cold.
_BYTES_PER_TOKEN = 3


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
