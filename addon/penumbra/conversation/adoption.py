"""This module decides about results and reasoning that reached the provider without Penumbra.

If a cached prefix changes, the provider writes the prefix to its cache again. Newer Anthropic models also
refuse thinking blocks whose prefix has changed (`rules/thinking.yaml`). A result that reached the provider
without Penumbra therefore keeps its form if a cached prefix or thinking depends on the form.

If the prefix of reasoning has changed, the request asks the provider to drop the reasoning. If the request
can't ask for this, Penumbra removes the reasoning, as far as the API allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial

from penumbra import rules
from penumbra.apis.formats import FORMATS
from penumbra.apis.parts import Conversation
from penumbra.apis.recognise import Cache
from penumbra.wire.document import Document

HEADER = "anthropic-beta"
_BETA = "thinking-binding-controls-2026-08-01"
_FAMILY = "thinking-binding-controls"
_FORMAT = "anthropic"
_OWN_HOSTS = (".anthropic.com",)
"""Hosts that know all betas of the API."""
table = partial(rules.table, "thinking.yaml")


def binds(format_name: str, model: str) -> bool:
    """Return whether the API refuses a model's thinking blocks whose prefix has changed."""
    if format_name not in table()["formats"]:
        return False
    return not any(fnmatchcase(model.lower(), glob) for glob in table()["unbound"])


def may_drop(format_name: str, document: Document) -> bool:
    """Return whether Penumbra may ask the provider to drop thinking: True unless the client's request itself
    says what happens to thinking whose prefix has changed."""
    if format_name != _FORMAT:
        return False
    thinking = document.members(document.members(document.root).get("thinking"))
    return "prefix_mismatch_behavior" not in document.members(thinking.get("block_binding"))


def drop(document: Document, headers: Mapping[str, str], host: str, dropped: bool) -> str:
    """Ask the provider to drop thinking whose prefix has changed, or remove it. `may_drop` must be true.

    Return the new value of the header `anthropic-beta`; empty if the header stays. Names in `headers` are in
    lower case. `host` has no port. `dropped` is true if the request has already dropped thinking.
    """
    betas = headers.get(HEADER, "")
    offered = _FAMILY in betas
    if offered and dropped:
        return ""
    own = f".{host}".endswith(_OWN_HOSTS)
    changed = FORMATS[_FORMAT].drop_unbound(document, 0, offered or own)
    asks = changed and "thinking" in document.members(document.root)
    return ",".join(filter(None, (betas, _BETA))) if asks and own and not offered else ""


_BYTES_PER_TOKEN = 3
"""The bytes of a token. The estimate is low, so that no cached prefix counts as too short to be cached."""


def keeps_secrets(adopt: str, turn: int, conversation: Conversation, format: str) -> bool:
    """Return whether a result that keeps its form without a decision also keeps its secrets.

    The provider may not have the secret yet, if the decision that had removed the secret was lost. Secrets
    are therefore removed even if the cached prefix changes. Secrets stay only if `adopt` is `raw`, or if the
    provider would otherwise refuse the conversation's thinking.
    """
    return adopt == "raw" or (binds(format, conversation.model) and turn < conversation.last_thinking)


def may_be_cached(document: Document, cache: Cache) -> bool:
    """Return whether the provider may have a prefix of this request in its cache."""
    if cache.explicit and not document.contains(cache.marker):
        return False
    return len(document.text()) >= cache.minimum_tokens * _BYTES_PER_TOKEN
