"""What the user wants to know: the last words of a human in a conversation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from msgspec import Raw

from penumbra.external.external_provider import table
from penumbra.wire.document import Document

LIMIT = 2_000
"""Characters that are handed on, the last ones."""
_KINDS = (None, "text", "input_text")


def question(document: Document, messages: Raw | None) -> str:
    """The text of the last user message that holds a human's words; empty if there is none.

    What agents add to such messages between tags of their own is left out.
    """
    for message in reversed(document.items(messages)):
        members = document.members(message)
        if document.string(members.get("role")) != "user":
            continue
        content = members.get("content") or members.get("parts")
        text = without_injected("\n".join(_texts(document, content)))
        if text:
            return text[-LIMIT:]
    return ""


def _texts(document: Document, content: Raw | None) -> Iterator[str]:
    whole = document.string(content)
    if whole is not None:
        yield whole
        return
    for block in document.items(content):
        members = document.members(block)
        text = document.string(members.get("text"))
        if text is not None and document.string(members.get("type")) in _KINDS:
            yield text


@cache
def _tags() -> tuple[str, ...]:
    return tuple(table()["injected"])


def without_injected(text: str) -> str:
    """A text without what agents inject, blanks at its ends trimmed. Linear in its length."""
    for tag in _tags():
        if f"<{tag}" in text:
            text = _without(text, tag)
    return text.strip()


def _without(text: str, tag: str) -> str:
    pieces: list[str] = []
    position = 0
    closing = f"</{tag}>"
    while (start := text.find(f"<{tag}", position)) >= 0:
        behind = start + len(tag) + 1
        if text[behind : behind + 1] not in (">", " ", "\n"):
            pieces.append(text[position:behind])
            position = behind
            continue
        pieces.append(text[position:start])
        end = text.find(closing, behind)
        position = len(text) if end < 0 else end + len(closing)
    return "".join([*pieces, text[position:]])
