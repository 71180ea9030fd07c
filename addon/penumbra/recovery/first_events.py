"""The first events of a stream: some providers refuse with status 200 and an error event.

A client byte waits for its own event only. In answers to large requests the announcements in front of
the first content wait too, since a refusal comes behind them: there is still time to send it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penumbra.wire.document import NotJson, decode
from penumbra.wire.sse import SseEvent, SseReader

_MOST_HELD = 65_536
"""Bytes that are held before the stream goes on whatever it is."""
_ANNOUNCEMENTS = (
    "message_start",
    "ping",
    "response.created",
    "response.queued",
    "response.in_progress",
)


class Verdict(Enum):
    """What the events so far say."""

    WAIT = "wait"
    GO = "go"
    ERROR = "error"


@dataclass(slots=True)
class FirstEvents:
    """Reads a stream until it is known what it is."""

    patient: bool
    """Announcements are waited out."""
    plain: Callable[[bytes], bytes] | None
    """Takes the content coding off; None: it can't be taken off."""
    error: bytes = b""
    """Data of the error event."""
    _reader: SseReader = field(default_factory=SseReader)
    _held: int = 0

    def feed(self, data: bytes) -> Verdict:
        """What follows from these bytes too. After a verdict other than WAIT there is nothing to feed."""
        if self.plain is None:
            return Verdict.GO
        try:
            events = self._reader.feed(self.plain(data))
        except Exception:
            return Verdict.GO
        self._held += len(data)
        for event in events:
            verdict = self._verdict(event)
            if verdict is not Verdict.WAIT:
                return verdict
        return Verdict.GO if self._held > _MOST_HELD else Verdict.WAIT

    def _verdict(self, event: SseEvent) -> Verdict:
        if event.data is None:
            return Verdict.WAIT if self.patient else Verdict.GO
        try:
            value = decode(event.data)
        except NotJson:
            return Verdict.GO
        if is_error(event.name, value):
            self.error = event.data
            return Verdict.ERROR
        return Verdict.WAIT if self.patient and _announces(value) else Verdict.GO


def is_error(name: str, value: Any) -> bool:
    """Whether the data of an event is an error of the provider's."""
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
    said = [
        part
        for delta in deltas
        if isinstance(delta, dict)
        for key, part in delta.items()
        if key != "role" and part
    ]
    ended = any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices)
    return not said and not ended
