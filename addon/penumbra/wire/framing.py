"""Which responses arrive piece by piece."""

from __future__ import annotations

_STREAMS = ("event-stream", "vnd.amazon.eventstream", "ndjson")
_JSON_ARRAY = ":streamgeneratecontent"


def is_stream(content_type: str, path: str) -> bool:
    """Whether a response is to be read as it arrives, by its content type and its request's path.

    Gemini streams an array of JSON documents unless it is asked for server-sent events.
    """
    kind = content_type.lower()
    if any(name in kind for name in _STREAMS):
        return True
    return "json" in kind and path.partition("?")[0].lower().endswith(_JSON_ARRAY)
