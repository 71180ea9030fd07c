"""This module finds the name of a request's conversation and the working folder of the conversation.

The client may give the name. Otherwise the name is derived from the opening of the conversation.
Conversations without a name whose history the provider stores count as one conversation for each caller. The
folder is found in the texts before the model's first message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from cachetools import LRUCache
from msgspec import Raw

from penumbra import rules
from penumbra.apis.prompt import Kind, Prompt
from penumbra.linear import LinearText, without_surrogates
from penumbra.short_texts import forgettable
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode

_LONGEST_ID = 512
_ELSEWHERE = "kept by the provider"
_LONGEST_OPENING = 100_000
"""The greatest number of characters of the opening that are read."""


def identify(headers: Mapping[str, str], document: Document, opening: str) -> str:
    """Return the name that all requests of a conversation share. The names in `headers` are in lower case."""
    if named := _named(headers, document):
        return f"id {named}"
    if _may_continue_elsewhere(document):
        return _ELSEWHERE
    return f"opening {stable(opening)}"


def stable(text: str) -> str:
    """Return the first 100,000 characters of a text. White space becomes single spaces, and parts that change
    between requests are removed."""
    return _stable(text[:_LONGEST_OPENING])


@forgettable(64)
def _stable(text: str) -> str:
    text = without_surrogates(text)
    for pattern in _volatile():
        text = pattern.sub("", text)
    return " ".join(text.split())


def _named(headers: Mapping[str, str], document: Document) -> str:
    names, paths = _places()
    found: list[Any] = [headers[name] for name in names if name in headers]
    top = document.members(document.root)
    for first, *rest in paths:
        if first in top:
            value = document.plain(top[first])
            for key in rest:
                value = _object(value).get(key)
            found.append(value)
    return next((name for name in found if isinstance(name, str) and 0 < len(name) <= _LONGEST_ID), "")


def _object(value: Any) -> dict[str, Any]:
    """Return an object, or the object that a string of JSON contains; empty for any other value."""
    if isinstance(value, str):
        try:
            value = decode(value.encode("utf-8", "surrogatepass"))
        except NotJson:
            return {}
    return value if isinstance(value, dict) else {}


def _may_continue_elsewhere(document: Document) -> bool:
    """Return whether an id of the provider may replace the history, here or in the next request."""
    top = document.members(document.root)
    if "previous_response_id" in top or "thread" in top:
        return True
    return "input" in top and document.plain(top.get("store")) is not False


@cache
def _places() -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the headers, and the paths in the body, that may contain the id of a conversation."""
    content = rules.load("sessions.yaml")
    return tuple(content["headers"]), tuple(tuple(path.split(".")) for path in content["body"])


@cache
def _volatile() -> tuple[Any, ...]:
    return tuple(LinearText(pattern) for pattern in rules.load("sessions.yaml")["volatile"])


_LONGEST_TEXT = 200_000
"""The size in bytes of the largest text (JSON) that is read."""
_LONGEST = 1_000
"""The number of characters of a folder that are used."""
_STATED: LRUCache[bytes, str] = LRUCache(512)
"""Maps the hash of a text to the folder that it names. These texts are long, and later turns repeat them."""


def stated(prompt: Prompt, document: Document) -> str:
    """Return the working folder, as the client writes it; empty if no text names a folder."""
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
    """Return the folder that a text names; empty if the text names no folder."""
    matches = (pattern.search(text) for pattern in _patterns())
    return next((match[1].strip()[:_LONGEST] for match in matches if match), "")


@cache
def _patterns() -> tuple[Any, ...]:
    return tuple(LinearText(pattern) for pattern in rules.load("sessions.yaml")["folders"])
