"""Requests that two readers would read in two ways, so that one of them would see what was not searched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_CHARSETS = frozenset(("", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252"))
"""In which the signs of JSON are the bytes that they are in UTF-8."""
_CHARSET = re.compile(r"charset\s{0,8}=\s{0,8}[\"']?([^\"';,\s]{0,80})", re.IGNORECASE)
_ONCE = ("host", "content-type")


def ambiguity(headers: Iterable[tuple[str, str]]) -> str:
    """What in a request's head leaves open how it is to be read; empty: nothing."""
    pairs = [(name.lower(), value) for name, value in headers]
    counts = Counter(name for name, _ in pairs)
    for name in _ONCE:
        if counts[name] > 1:
            return f"it has more than one {name} header"
    for name, value in pairs:
        if name == "content-type" and any(one.lower() not in _CHARSETS for one in _CHARSET.findall(value)):
            return "its content type names another encoding than UTF-8"
    return ""
