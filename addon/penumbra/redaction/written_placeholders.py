"""Placeholders that a model writes into the arguments of its calls: there, a tool would take them for
the values that they stand for."""

from __future__ import annotations

from typing import Any

from penumbra.apis.api_format import ApiFormat
from penumbra.redaction.placeholder import PATTERN
from penumbra.wire.document import NotJson, decode

_ARGUMENTS = frozenset(("action", "args", "arguments", "input", "operation"))
"""The members under which the formats keep what a call is given."""


def calls(wire: ApiFormat, body: bytes, *, stream: bool) -> int:
    """How many calls of an answer have a placeholder in their arguments.

    `body`: the answer as the client got it, without content coding.
    """
    answer = wire.stream("") if stream else wire.body("")
    answer.feed(body)
    return within(answer.end_turn().message)


def within(message: bytes | None) -> int:
    """The same for a message as a request would carry it."""
    if message is None or PATTERN.search(message.decode("utf-8", "replace")) is None:
        return 0
    try:
        # Some formats write a message as several items.
        return _count(decode(b"[" + message + b"]"))
    except NotJson:
        return 0


def _count(message: Any) -> int:
    """Members with arguments that hold a placeholder, anywhere in a message."""
    found = 0
    waiting = [message]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for name, member in value.items():
                if name in _ARGUMENTS:
                    found += _holds(member)
                else:
                    waiting.append(member)
    return found


def _holds(arguments: Any) -> bool:
    waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and PATTERN.search(value):
            return True
        waiting += value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return False
