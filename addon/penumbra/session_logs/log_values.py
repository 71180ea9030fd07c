"""Members of logged objects, read for what they should be; anything else counts as not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """An object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of a list."""
    return (each for each in (value if isinstance(value, list) else ()) if isinstance(each, dict))


def text(value: Any) -> str:
    """A string; empty for anything else."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int:
    """A count; 0 for anything else."""
    return value if type(value) is int and value > 0 else 0


def seconds(value: Any) -> float:
    """A time, as ISO 8601 or in milliseconds since the epoch, in seconds; 0 for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
        return value / 1000
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else 0.0
    except (ValueError, OverflowError, OSError):
        return 0.0


def texts_of(content: Any) -> tuple[str, ...]:
    """The texts of a content that is a string or a list of typed blocks with a `text`."""
    if isinstance(content, str):
        return (content,)
    return tuple(block["text"] for block in objects_in(content) if isinstance(block.get("text"), str))
