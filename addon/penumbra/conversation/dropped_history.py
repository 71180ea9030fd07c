"""What of a history a provider drops: all in front of a compaction, and what it may clear by itself."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from penumbra.wire.document import Document

_COMPACTIONS = {"compaction", "compaction_summary", "compaction_trigger", "context_compaction"}
"""Types of the items and content blocks that stand for all in front of them."""
_BEGINNINGS = (b'"compaction', b'"context_compaction')
_THINKING_ONLY = "clear_thinking_"
"""What the type of an edit begins with that drops reasoning and nothing else."""
_PLUGIN = "context-compression"
"""OpenRouter's, which takes messages out of the middle; so does what `transforms` names."""
_NESTED = "additionalModelRequestFields"
"""The member that holds what Bedrock hands to the model's own API."""


def keeps_results(document: Document) -> bool:
    """Whether the provider drops no result of a history by itself, as far as the request says."""
    return document.once(_keeps_results)


def _keeps_results(document: Document) -> bool:
    top = document.members(document.root)
    return all(_keeps(document, place) for place in (top, document.members(top.get(_NESTED))))


def keeps_all(document: Document, messages: Raw | None) -> bool:
    """Whether all results of a history are there when the request is answered."""
    return keeps_results(document) and last_compaction(document, messages) < 0


def last_compaction(document: Document, messages: Raw | None) -> int:
    """Index of the last message with a compaction; -1 if there is none."""
    if not document.once(_may_be_compacted):
        return -1
    listed = document.items(messages)
    places = range(len(listed) - 1, -1, -1)
    return next((place for place in places if document.about(listed[place], _is_compaction)), -1)


def _may_be_compacted(document: Document) -> bool:
    return any(map(document.contains, _BEGINNINGS))


def _keeps(document: Document, members: dict[str, Raw]) -> bool:
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
    parts = (members, *map(document.members, document.items(members.get("content"))))
    return any(document.string(part.get("type")) in _COMPACTIONS for part in parts)
