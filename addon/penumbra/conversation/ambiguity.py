"""This module recognises ambiguous requests. The provider may read such a request in another way than
Penumbra, so secrets could get through.

If a host, a content type or a member of an object occurs twice, the request is ambiguous. Penumbra reads the
last of several members, but a provider may read the first. A provider may also ignore case and underscores in
names. At the top of a request, only members that lead to a tool result matter (to any text, if all text is
searched). Within a message, every repeated member matters, except below members that contain no result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Raw

from penumbra.config.settings import Settings
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson

_CHARSETS = frozenset(("", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252"))
"""Encodings whose brackets, quotes, commas and colons have the same bytes as in UTF-8."""
_CHARSET = re.compile(r"charset\s{0,8}=\s{0,8}[\"']?([^\"';,\s]{0,80})", re.IGNORECASE)
_WAY = frozenset(
    (
        *("messages", "contents", "input", "request", "generatecontentrequest", "items"),
        *("role", "content", "parts", "type", "text", "value"),
        *("toolresult", "tooluseid", "toolcallid", "functionresponse", "response", "json"),
        *("output", "outputs", "result", "stdout", "stderr"),
    )
)
"""Plain names of the members that contain a tool result or identify a tool result."""
_WRAPPERS = ("request", "generatecontentrequest")
"""Plain names of the members that may contain the whole request."""
_TEXT_WAY = _WAY | {"instructions", "system", "systeminstruction"}
"""Plain names of members that contain any text."""
_ELSEWHERE = frozenset(("action", "args", "arguments", "cachecontrol", "input", "operation"))
"""Plain names of a message's members that contain no result."""
_PAYLOAD = frozenset(("json", "response", "structuredcontent"))
"""Plain names of members with data of a tool. Names in such data are case-sensitive."""


def hosts(headers: Iterable[tuple[str, str]]) -> str:
    """Return the reason why the host of a request is ambiguous; empty if the host is not ambiguous."""
    count = sum(name.lower() == "host" for name, _ in headers)
    return "it has more than one host header" if count > 1 else ""


def content(headers: Iterable[tuple[str, str]]) -> str:
    """Return the reason why the encoding of a body is ambiguous; empty if the encoding is not ambiguous."""
    types = [value for name, value in headers if name.lower() == "content-type"]
    charsets = (charset for value in types for charset in _CHARSET.findall(value))
    if any(charset.lower() not in _CHARSETS for charset in charsets):
        return "its content type names another encoding than UTF-8"
    return "it has more than one content-type header" if len(types) > 1 else ""


def is_around(document: Document, names: frozenset[str]) -> bool:
    """Return whether an object around the messages has a repeated member through which text to be searched
    could be missed."""
    around = [document.root] if names else []
    for value in around:
        members = document.members(value)
        plain = _plain(members)
        if _is_twice(plain, names):
            return True
        if document.repeats(value) and not names.isdisjoint(_plain(document.repeated(value))):
            return True
        if value is document.root:
            named = zip(plain, members.values(), strict=True)
            around += [inner for name, inner in named if name in _WRAPPERS]
    return False


def names_to(settings: Settings) -> frozenset[str]:
    """Return the plain names of the members through which text to be searched could be missed."""
    if not settings.must_search:
        return frozenset()
    return _TEXT_WAY if settings.redact_scope == "all" else _WAY


class _Members(list[tuple[str, Any]]):
    """A `_Members` has the names and values of an object in order, with all repetitions."""


_CONTAINERS = (list, dict)
_DECODER = json.JSONDecoder(object_pairs_hook=_Members, parse_int=str, parse_float=str, strict=False)


def is_within(document: Document, message: Raw, names: frozenset[str]) -> bool:
    """Return whether any member occurs twice within a message, or a member with one of these names occurs in
    two spellings. The time does not depend on how deeply objects are nested. Raises NotJson for a message
    that is nested deeper than Python reads."""
    if not names:
        return False
    if (value := document.exact(message)) is None:
        try:
            value = _DECODER.decode(document.source(message).decode())
        except RecursionError:
            raise NotJson("nested too deeply") from None
    waiting = [(value, False)] if isinstance(value, _CONTAINERS) else []
    while waiting:
        one, is_data = waiting.pop()
        if isinstance(one, list) and not isinstance(one, _Members):
            waiting += [(inner, is_data) for inner in one if inner and isinstance(inner, _CONTAINERS)]
            continue
        members = one if isinstance(one, dict) else dict(one)
        plain = _plain(members)
        if len(members) < len(one) or (not is_data and _is_twice(plain, names)):
            return True
        # An object with a repeated name is ambiguous, and never gets here.
        waiting += [
            (inner, is_data or name in _PAYLOAD)
            for name, inner in zip(plain, members.values(), strict=True)
            if inner and isinstance(inner, _CONTAINERS) and (is_data or name not in _ELSEWHERE)
        ]
    return False


def _is_twice(plain: list[str], names: frozenset[str]) -> bool:
    """Return whether one of these names occurs twice in a list."""
    meant = [name for name in plain if name in names]
    return len(meant) > 1 and len(set(meant)) < len(meant)


def _plain(names: Collection[str]) -> list[str]:
    """Return names in lower case without underscores. Some readers of JSON ignore both."""
    plain = "\n".join(names).replace("_", "").lower().split("\n")
    return plain if len(plain) == len(names) else [name.replace("_", "").lower() for name in names]
