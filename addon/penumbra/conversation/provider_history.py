"""This module finds the results in histories that the provider stores. Later results may refer to them.

A response is remembered by its id and credential, together with the results before it. A later request may
continue the response. A provider may drop parts of a history: everything before a compaction, and results
that `context_management`, `truncation` or a plugin clears. If a request allows this, no result refers to a
result of the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import Any

from msgspec import Raw

from penumbra.apis.parts import decoded_arguments, is_elsewhere
from penumbra.compress.result import Loss
from penumbra.config.per_request import OverrideError
from penumbra.conversation.call_names import can_name
from penumbra.conversation.model import Request, Rewritten, Shown
from penumbra.expand.hidden_exchanges import Prepared
from penumbra.store.exchanges import ProviderResult
from penumbra.wire.document import Document

_COMPACTIONS = {"compaction", "compaction_summary", "compaction_trigger", "context_compaction"}
"""The types of items and content blocks that replace the whole history before them."""
_BEGINNINGS = (b'"compaction', b'"context_compaction')
_THINKING_ONLY = "clear_thinking_"
"""Edits whose type begins with this drop only reasoning."""
_PLUGIN = "context-compression"
"""OpenRouter's plugin that removes messages from the middle of a conversation, as `transforms` does."""
_DROPPING = ("truncation", "transforms", "context_management", "plugins")
"""The members with which a request may ask the provider to drop parts of the history."""
_NESTED = "additionalModelRequestFields"
"""The member with the parameters that Bedrock passes to the model's own API."""


def keeps_results(document: Document) -> bool:
    """Return whether the provider must keep all results of the history, apart from compactions."""
    return document.once(_keeps_results)


def _keeps_results(document: Document) -> bool:
    top = document.members(document.root)
    return all(_keeps(document, place) for place in (top, document.members(top.get(_NESTED))))


def keeps_all(document: Document, messages: Raw | None) -> bool:
    """Return whether the model sees all results of a history when it answers the request."""
    return keeps_results(document) and last_compaction(document, messages) < 0


def last_compaction(document: Document, messages: Raw | None) -> int:
    """Return the index of the last message with a compaction; -1 if there is no such message."""
    if not any(map(document.contains, _BEGINNINGS)):
        return -1
    listed = document.items(messages)
    places = range(len(listed) - 1, -1, -1)
    return next((place for place in places if document.about(listed[place], _is_compaction)), -1)


def _keeps(document: Document, members: dict[str, Raw]) -> bool:
    if members.keys().isdisjoint(_DROPPING):
        return True
    truncation, transforms = (document.plain(members.get(name)) for name in ("truncation", "transforms"))
    if truncation not in (None, "disabled") or transforms:
        return False
    if not _clears_nothing(document.plain(members.get("context_management"))):
        return False
    plugins = document.items(members.get("plugins"))
    return not any(document.string(document.members(one).get("id")) == _PLUGIN for one in plugins)


def _clears_nothing(management: Any) -> bool:
    if not isinstance(management, dict) or management.keys() != {"edits"}:
        return not management
    edits = management["edits"]
    if not isinstance(edits, list):
        return False
    kinds = [edit.get("type") if isinstance(edit, dict) else None for edit in edits]
    return all(isinstance(kind, str) and kind.startswith(_THINKING_ONLY) for kind in kinds)


def _is_compaction(document: Document, message: Raw) -> bool:
    members = document.members(message)
    places = (members, *map(document.members, document.items(members.get("content"))))
    return any(document.string(part.get("type")) in _COMPACTIONS for part in places)


MOST = 128
"""At most this number of a history's results is remembered, the latest ones."""
_MORE = (ProviderResult(b"", b"", "", "", complete=False),)
"""The value for a history whose results are unknown."""
_REFUSED = (
    "_forge.tool_output_compression.session_id: the provider holds this request's history, and {}, so "
    "no reference can replace a duplicate; send the whole history, or leave session_id or dedup out"
)
_MAY_DROP = "may drop parts of it (truncation, context_management, compaction)"
_UNKNOWN = "Penumbra knows of one only what came with this credential and with the tool expand_context"


def results_before(request: Request, prepared: Prepared | None) -> tuple[ProviderResult, ...]:
    """Return the results that the provider stored before a request. Raises OverrideError if the request names
    a session and Penumbra may not know all these results."""
    if not is_elsewhere(request.document):
        return ()
    is_sure = keeps_all(request.document, request.conversation.messages)
    is_followed = prepared is not None and prepared.is_followed
    if _wants_duplicates(request) and not (is_sure and is_followed):
        raise OverrideError(_REFUSED.format(_UNKNOWN if is_sure else _MAY_DROP))
    return prepared.provider_results if prepared is not None and is_followed and is_sure else _MORE


def _wants_duplicates(request: Request) -> bool:
    """Return whether the request names a session and may refer to its results."""
    settings = request.settings
    if not (settings.session_id and settings.dedup and settings.shortens):
        return False
    return request.api.kind == "messages" and bool(request.items)


def results_after(
    request: Request,
    rewritten: Rewritten,
    before: tuple[ProviderResult, ...],
    name: Callable[[str, Any], str],
) -> tuple[ProviderResult, ...]:
    """Return the latest results of the history after the response, in order. `before` are the results before
    the request. `name` returns the name of a call, given its tool and its arguments."""
    if rewritten.is_cut or not keeps_all(request.document, request.conversation.messages):
        return _MORE
    # An id that occurs twice does not identify a text.
    times = Counter(entry.item.result.call_id for entry in rewritten.shown)
    results = [entry for entry in rewritten.shown if entry.item.digest]
    # Several texts of one result count as one result.
    numbered = groupby(enumerate(results), lambda numbered: numbered[1].item.result.call_id or numbered[0])
    new = [next(texts)[1] for _, texts in numbered][-MOST:]
    later = []
    for entry in new:
        arguments = decoded_arguments(request.document, entry.item.result.call)
        is_unique = times[entry.item.result.call_id] == 1
        later.append(_provider_result(entry, name(entry.item.tool, arguments), is_unique=is_unique))
    return tuple([*before, *later][-MOST:])


def _provider_result(entry: Shown, name: str, *, is_unique: bool) -> ProviderResult:
    item, facts = entry.item, entry.facts
    is_whole = facts.how not in ("duplicate", "superseded", "recovered")
    is_referable = is_unique and is_whole and can_name(entry.item.result.call_id, entry.item.tool)
    if not is_referable:
        return ProviderResult(b"", item.key, "", name, complete=False)
    return ProviderResult(item.digest, item.key, item.tool, name, facts.loss < Loss.LOSSY)
