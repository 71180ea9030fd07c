"""This module converts JSON to Python objects and back. Lone surrogates are preserved both ways."""

from __future__ import annotations

import json
from typing import Any

import orjson


class NotJson(ValueError):
    """The bytes are not JSON, or not JSON that can be edited safely."""


def encode(value: Any) -> bytes:
    """Return a value as compact JSON. Lone surrogates in strings become escapes."""
    try:
        # The copy frees orjson's buffer, which can be eight times as long as the text.
        return bytes(memoryview(orjson.dumps(value)))
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def decode(data: bytes | memoryview) -> Any:
    """Return the value of a JSON text, with lone surrogates preserved. Raises NotJson.

    Integers of more than 64 bits may become floats, so the result must not be encoded and sent again.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(bytes(data).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None
