"""What a call says: its arguments, decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from penumbra.wire.conversation import ToolCall
from penumbra.wire.document import Document, NotJson

_HINT_KEYS = ("command", "cmd", "file_path", "path", "absolute_path", "filePath")


def decoded(document: Document, call: ToolCall | None) -> Any:
    """The arguments of a call; a text that is no JSON stays a text; None if unreadable."""
    if call is None or (call.arguments is None and call.heard is None):
        return None
    try:
        value = document.plain(call.arguments) if call.arguments is not None else call.heard
        if isinstance(value, str) and value[:1] in ("{", "["):
            return json.loads(value)
    except NotJson:
        return None
    except (ValueError, RecursionError):
        return value
    return value


def strings(value: Any) -> Iterator[str]:
    """Every string within decoded arguments, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings(one)


def hint(arguments: Any) -> str:
    """Path or command of the call: it tells a scanner what kind of text to expect."""
    if isinstance(arguments, str):
        return arguments[:1000]
    if isinstance(arguments, dict):
        for key in _HINT_KEYS:
            value = arguments.get(key)
            if isinstance(value, list):
                value = " ".join(part for part in value if isinstance(part, str))
            if isinstance(value, str) and value:
                return value[:1000]
    return ""
