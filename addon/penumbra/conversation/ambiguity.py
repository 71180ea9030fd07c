"""Requests that two readers would read in two ways, so that one of them would see what was not searched."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penumbra.apis import repeated_members
from penumbra.conversation.model import Request

_CHARSETS = frozenset(("", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252"))
"""In which the signs of JSON are the bytes that they are in UTF-8."""
_CHARSET = re.compile(r"charset\s{0,8}=\s{0,8}[\"']?([^\"';,\s]{0,80})", re.IGNORECASE)


def hosts(headers: Iterable[tuple[str, str]]) -> str:
    """What leaves open whom a request is for; empty: nothing."""
    return _more_than_one(headers, "host")


def content(headers: Iterable[tuple[str, str]]) -> str:
    """What leaves open how a body is to be read; empty: nothing."""
    headers = list(headers)
    charsets = (
        charset
        for name, value in headers
        if name.lower() == "content-type"
        for charset in _CHARSET.findall(value)
    )
    if any(charset.lower() not in _CHARSETS for charset in charsets):
        return "its content type names another encoding than UTF-8"
    return _more_than_one(headers, "content-type")


def says_twice(request: Request) -> bool:
    """Whether a body may be read in two ways where results of tools stand, or all that is searched."""
    settings = request.settings
    return settings.must_search and repeated_members.on_the_way(
        request.document, request.conversation.messages, said=settings.redact_scope == "all"
    )


def _more_than_one(headers: Iterable[tuple[str, str]], name: str) -> str:
    count = sum(header.lower() == name for header, _ in headers)
    return f"it has more than one {name} header" if count > 1 else ""
