"""What a call says: its arguments, decoded."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from penumbra.apis.parts import ToolCall
from penumbra.compress.calls.tools import tool_rules
from penumbra.wire.document import Document, NotJson

_HINT = 4_000
"""Characters of a hint."""


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
        return arguments[:_HINT]
    if not isinstance(arguments, dict):
        return ""
    if isinstance(arguments.get("action"), dict):
        arguments = arguments["action"]
    keys = tool_rules().arguments
    for key in (*keys.command, *keys.path):
        value = arguments.get(key)
        if isinstance(value, list):
            value = _joined([part for part in value if isinstance(part, str)])
        if isinstance(value, str) and value:
            return value[:_HINT]
    return ""


def _joined(words: list[str]) -> str:
    """Command lines one below the other; an argument vector as one line."""
    if any("\n" in word or " " in word.strip() for word in words[:1]):
        return "\n".join(words)
    return shlex.join(words)
