"""The calls that the model made in a request, with or without a result, in every API's way to write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from msgspec import Raw

from penumbra.apis.gemini import inner, member
from penumbra.apis.openai_responses import CALLS
from penumbra.wire.document import Document


@dataclass(frozen=True, slots=True)
class PastCall:
    """One call of a request's history."""

    turn: int
    """Index of its message."""
    name: str
    arguments: Raw
    """A string that holds JSON or free text, or an object."""


def past_calls(format_name: str, document: Document) -> Iterator[PastCall]:
    """The calls of the client's tools, in order; none for a format that is not known."""
    find = _FORMATS.get(format_name)
    for turn, name, arguments in find(document) if find else ():
        if arguments is not None:
            yield PastCall(turn, document.string(name) or "", arguments)


_Found = Iterator[tuple[int, Raw | None, Raw | None]]


def _messages(document: Document) -> list[Raw]:
    return document.items(document.members(document.root).get("messages"))


def _anthropic(document: Document) -> _Found:
    for turn, message in enumerate(_messages(document)):
        for item in document.items(document.members(message).get("content")):
            block = document.members(item)
            if document.string(block.get("type")) == "tool_use":
                yield turn, block.get("name"), block.get("input")


def _converse(document: Document) -> _Found:
    for turn, message in enumerate(_messages(document)):
        for item in document.items(document.members(message).get("content")):
            use = document.members(document.members(item).get("toolUse"))
            yield turn, use.get("name"), use.get("input")


def _chat(document: Document) -> _Found:
    """Also Ollama's, whose arguments are objects."""
    for turn, message in enumerate(_messages(document)):
        for item in document.items(document.members(message).get("tool_calls")):
            call = document.members(item)
            function, custom = document.members(call.get("function")), document.members(call.get("custom"))
            yield turn, function.get("name"), function.get("arguments")
            yield turn, custom.get("name"), custom.get("input")


def _responses(document: Document) -> _Found:
    for turn, entry in enumerate(document.items(document.members(document.root).get("input"))):
        item = document.members(entry)
        kind = document.string(item.get("type")) or ""
        if kind in CALLS:
            # Calls of a type of their own have their tool's name as type.
            yield turn, item.get("name") or item["type"], item.get(CALLS[kind][1])


def _gemini(document: Document) -> _Found:
    for turn, content in enumerate(document.items(inner(document).get("contents"))):
        for part in document.items(document.members(content).get("parts")):
            call = document.members(member(document.members(part), "functionCall"))
            yield turn, call.get("name"), call.get("args")


_FORMATS: Mapping[str, Callable[[Document], _Found]] = {
    "anthropic": _anthropic,
    "bedrock": _converse,
    "bedrock_invoke": _anthropic,
    "gemini": _gemini,
    "ollama": _chat,
    "openai_chat": _chat,
    "openai_responses": _responses,
}
