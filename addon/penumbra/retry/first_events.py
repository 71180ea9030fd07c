"""This module reads the first events of a stream, since some providers refuse with status 200 and an error
event.

After a byte has reached the client, no other request can be sent. Providers may send some events, such as
`message_start`, before they have read the request. These events wait for the next event, which may be the
refusal. Other events are passed on at once. The caller bounds the wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penumbra.wire.framing import ArrayReader, LineReader, SseReader
from penumbra.wire.json_values import NotJson, decode

_MOST_WAITING = 65_536
"""The greatest number of bytes of a stream that may wait."""
_ANNOUNCEMENTS = ("message_start", "ping", "response.created", "response.queued", "response.in_progress")


class Verdict(Enum):
    """A `Verdict` is the meaning of a stream's first events."""

    WAIT = "wait"
    GO = "go"
    ERROR = "error"


@dataclass(slots=True)
class FirstEvents:
    """A `FirstEvents` reads the beginning of one stream."""

    kind: str
    plain: Callable[[bytes], bytes] | None
    """The decoder for the content coding; None if the coding is unknown."""
    error: bytes = b""
    """Data of the error event."""
    _cut: Callable[[bytes], list[tuple[str, bytes | None]]] | None = field(init=False)
    _waiting: int = 0

    def __post_init__(self) -> None:
        self._cut = _cutter(self.kind)

    def feed(self, data: bytes) -> Verdict:
        """Return the verdict after these bytes. Only after WAIT may more bytes be fed."""
        if self.plain is None or self._cut is None:
            return Verdict.GO
        try:
            events = self._cut(self.plain(data))
        except Exception:
            return Verdict.GO
        self._waiting += len(data)
        for name, content in events:
            verdict = self._verdict(name, content)
            if verdict is not Verdict.WAIT:
                return verdict
        return Verdict.GO if self._waiting > _MOST_WAITING else Verdict.WAIT

    def _verdict(self, name: str, content: bytes | None) -> Verdict:
        if content is None or not content.strip():
            return Verdict.WAIT
        try:
            value = decode(content)
        except NotJson:
            return Verdict.GO
        if is_error(name, value):
            self.error = content
            return Verdict.ERROR
        return Verdict.WAIT if _announces(value) else Verdict.GO


def _cutter(kind: str) -> Callable[[bytes], list[tuple[str, bytes | None]]] | None:
    """Return a function that cuts a stream into names and data of events; None for unknown framings."""
    if "event-stream" in kind:
        events = SseReader()
        return lambda data: [(event.name, event.data) for event in events.feed(data)]
    if "ndjson" in kind:
        lines = LineReader()
        return lambda data: [("", line.raw) for line in lines.feed(data)]
    if "json" in kind:
        items = ArrayReader()
        return lambda data: [("", item.data) for item in items.feed(data)]
    return None


def is_error(name: str, value: Any) -> bool:
    """Return whether an event's data is a provider's error."""
    if not isinstance(value, dict):
        return False
    base = value.get("base_resp")
    return (
        name == "error"
        or value.get("type") in ("error", "response.failed")
        or bool(value.get("error"))
        or (isinstance(base, dict) and bool(base.get("status_code")))
    )


def _announces(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("type") in _ANNOUNCEMENTS:
        return True
    choices = value.get("choices")
    if not isinstance(choices, list):
        return False
    deltas = [choice.get("delta") for choice in choices if isinstance(choice, dict)]
    content = [
        part
        for delta in deltas
        if isinstance(delta, dict)
        for key, part in delta.items()
        if key != "role" and part
    ]
    ended = any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices)
    return not content and not ended
