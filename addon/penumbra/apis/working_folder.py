"""The folder in which a client says that it works, in its words in front of the model's first ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from cachetools import LRUCache
from msgspec import Raw

from penumbra import rules
from penumbra.apis.prompt import Kind, Prompt
from penumbra.linear import LinearText
from penumbra.wire.document import Document

_LONGEST_TEXT = 200_000
"""Bytes of JSON; longer texts are not looked at."""
_LONGEST = 1_000
"""Characters of a folder that count."""
_STATED: LRUCache[bytes, str] = LRUCache(512)
"""By hashes of texts: those are long, and come every turn."""


def stated(prompt: Prompt, document: Document) -> str:
    """The folder as the client writes it; empty if it does not say."""
    return next((found for text in _texts(prompt) if (found := _in(document, text))), "")


def _texts(prompt: Prompt) -> Iterator[Raw]:
    for part in prompt.system:
        yield from part.texts
    for message in prompt.messages:
        if message.by_model:
            return
        for part in message.of(Kind.TEXT):
            yield from part.texts


def _in(document: Document, text: Raw) -> str:
    source = document.source(text)
    if len(source) > _LONGEST_TEXT:
        return ""
    digest = hashlib.blake2b(source, digest_size=16).digest()
    if (found := _STATED.get(digest)) is None:
        found = _STATED[digest] = find(document.string(text) or "")
    return found


def find(text: str) -> str:
    """The folder that a text names; empty if it names none."""
    matches = (pattern.search(text) for pattern in _patterns())
    return next((match[1].strip()[:_LONGEST] for match in matches if match), "")


@cache
def _patterns() -> tuple[Any, ...]:
    return tuple(LinearText(pattern) for pattern in rules.load("sessions.yaml")["folders"])
