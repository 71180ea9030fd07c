"""What a call says: its arguments, decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from penumbra.apis.parts import ToolCall
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode


def decoded(document: Document, call: ToolCall | None, *, came: bool = False) -> Any:
    """Return the arguments of a call; a text that is no JSON stays a text; None if unreadable. `came`: as the
    client sent them, whatever was amended since."""
    if call is None or (call.arguments is None and call.cached is None):
        return None
    try:
        value: Any = call.cached
        if call.arguments is not None:
            value = decode(document.came(call.arguments)) if came else document.plain(call.arguments)
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
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)
