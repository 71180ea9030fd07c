"""Placeholders that a model writes into the arguments of its calls: there, a tool would take them for
the values that they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.prompt import Kind
from penumbra.redaction.placeholder import PATTERN
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson

NOTE = (
    "[Note: the arguments of this call hold a [REDACTED:…] placeholder: the tool got those very characters, "
    "not the secret, and so did any file that it wrote them to.]"
)
"""The line at the end of such a call's result, for the model."""


def calls(wire: ApiFormat, body: bytes, *, stream: bool) -> int:
    """How many calls of a response have a placeholder in their arguments.

    `body`: the response as the client got it, without content coding.
    """
    response = wire.stream("") if stream else wire.body("")
    response.feed(body)
    return within(wire, response.end_turn().message)


def within(wire: ApiFormat, message: bytes | None) -> int:
    """The same for a message as a request would carry it."""
    if message is None or PATTERN.search(message.decode("utf-8", "replace")) is None:
        return 0
    try:
        # Some formats write a message as several items.
        document = Document(b"[" + message + b"]")
    except NotJson:
        return 0
    messages = (wire.message(document, item) for item in document.items(document.root))
    made = (part for turn in messages for part in turn.of(Kind.CALL) if part.arguments is not None)
    return sum(any(marks(document.plain(part.arguments))) for part in made)


def marks(arguments: Any) -> Iterator[str]:
    """Yield the placeholders in decoded arguments."""
    waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield from PATTERN.findall(value)
        waiting += value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
