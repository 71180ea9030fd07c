"""JSON values as Python objects, and back; lone surrogates survive both ways."""

from __future__ import annotations

import json
from typing import Any

import orjson


class NotJson(ValueError):
    """The bytes are no JSON document that could be edited safely."""


def encode(value: Any) -> bytes:
    """Return compact JSON of a value; lone surrogates in strings survive as escapes."""
    try:
        # orjson leaves its buffer, up to eight times as long as the text, to the bytes that it returns.
        return bytes(memoryview(orjson.dumps(value)))
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def decode(data: bytes | memoryview) -> Any:
    """Return the value of a JSON text; lone surrogates survive. Raises NotJson.

    Integers beyond 64 bits may arrive as floats: for reading only, never to be written back.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(bytes(data).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None
