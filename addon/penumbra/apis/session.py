"""Which conversation a request belongs to, as far as the request itself tells.

Clients that name their conversations are believed; of the others, a conversation is known by how it
begins. Where the history is at the provider and nothing names it, all conversations of a caller that
may live there count as one. The result is only ever hashed together with the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from penumbra import rules
from penumbra.linear import LinearText, without_surrogates
from penumbra.short_texts import forgettable
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode

_LONGEST_ID = 512
_ELSEWHERE = "kept by the provider"
_LONGEST_OPENING = 100_000
"""Characters; what follows is not looked at."""


def identify(headers: Mapping[str, str], document: Document, opening: str) -> str:
    """What all requests of a conversation have in common.

    `headers` with names in lower case; `opening` is the text of the request's first user turn.
    """
    if named := _named(headers, document):
        return f"id {named}"
    if _may_continue_elsewhere(document):
        return _ELSEWHERE
    return f"opening {stable(opening)}"


def together(headers: Mapping[str, str], document: Document, opening: str) -> str:
    """The same of a conversation and those of its sub-agents, as far as they say to whom they belong; empty
    where conversations can't be told from each other."""
    name = next(filter(_is_id, map(headers.get, _parents())), "")
    if name:
        return f"id {name}"
    known_as = identify(headers, document, opening)
    return "" if known_as == _ELSEWHERE else known_as


def stable(text: str) -> str:
    """A text without what may change from request to request; white space counts as one space."""
    return _stable(text[:_LONGEST_OPENING])


@forgettable(64)
def _stable(text: str) -> str:
    text = without_surrogates(text)
    for pattern in _volatile():
        text = pattern.sub("", text)
    return " ".join(text.split())


def _named(headers: Mapping[str, str], document: Document) -> str:
    names, paths = _places()
    for id_ in (*(headers.get(name) for name in names), *_body_ids(document, paths)):
        if _is_id(id_):
            return str(id_)
    return ""


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_ID


def _body_ids(document: Document, paths: tuple[tuple[str, ...], ...]) -> Iterator[Any]:
    top = document.members(document.root)
    for first, *rest in paths:
        value = document.plain(top.get(first))
        for key in rest:
            value = _object(value).get(key)
        yield value


def _object(value: Any) -> dict[str, Any]:
    """An object, or the object that a string holds; empty for everything else."""
    if isinstance(value, str):
        try:
            value = decode(value.encode("utf-8", "surrogatepass"))
        except NotJson:
            return {}
    return value if isinstance(value, dict) else {}


def _may_continue_elsewhere(document: Document) -> bool:
    """Whether this request goes on with, or may be gone on with by, an id of the provider's."""
    top = document.members(document.root)
    if "previous_response_id" in top or "thread" in top:
        return True
    return "input" in top and document.plain(top.get("store")) is not False


@cache
def _places() -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Headers, and paths in the body, that may hold the id of a conversation."""
    content = rules.load("sessions.yaml")
    return tuple(content["headers"]), tuple(tuple(path.split(".")) for path in content["body"])


@cache
def _parents() -> tuple[str, ...]:
    """Headers that may hold the id of the conversation which a sub-agent's belongs to."""
    return tuple(rules.load("sessions.yaml")["parents"])


@cache
def _volatile() -> tuple[Any, ...]:
    return tuple(LinearText(pattern) for pattern in rules.load("sessions.yaml")["volatile"])
