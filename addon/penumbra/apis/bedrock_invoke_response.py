"""Amazon Bedrock's InvokeModel with Anthropic's models: their own answers, in Bedrock's framing.

Each message of a stream carries one of Anthropic's events in base64, beside some padding. The last one
has Bedrock's own figures in it. Bedrock knows no keep-alive, and errors are its own.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any

from penumbra.apis.anthropic_response import AnthropicBody, AnthropicStream
from penumbra.apis.base import Failure
from penumbra.apis.bedrock_response import error_body, exception, raised
from penumbra.apis.usage import added, flat, only, plus
from penumbra.wire.document import Document, NotJson
from penumbra.wire.event_stream import MessageReader, StreamMessage
from penumbra.wire.framing import Piece, Reader

_METRICS = "amazon-bedrock-invocationMetrics"
_SUMMED = ("outputTokenCount", "invocationLatency")
_ERROR = b'{"type":"error"}'
"""What an exception is for those who read Anthropic's events."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One message, read as the event within it."""

    message: StreamMessage
    data: bytes | None

    @property
    def raw(self) -> bytes:
        """The bytes on the wire."""
        return self.message.raw

    def with_data(self, data: bytes) -> bytes:
        """The message's bytes with another event in it; its padding stays."""
        assert self.message.data is not None
        document = Document(self.message.data)
        document.replace(document.members(document.root)["bytes"], b64encode(data).decode())
        return self.message.with_data(document.render())


@dataclass(slots=True)
class ChunkReader:
    """Cuts a byte stream into chunks."""

    _messages: MessageReader = field(default_factory=MessageReader)

    def feed(self, data: bytes) -> list[Chunk]:
        """The chunks that these bytes complete."""
        return [Chunk(message, _event(message)) for message in self._messages.feed(data)]

    def close(self) -> list[Chunk]:
        """What is left at the end of the stream."""
        return [Chunk(message, None) for message in self._messages.close()]


class InvokeStream(AnthropicStream):
    """An answer that arrives as an event stream."""

    keep_alive = b""

    def __init__(self, injected_tool: str) -> None:
        super().__init__(injected_tool)
        self._hidden_metrics: dict[str, int] = {}

    def go_on(self) -> bytes:
        for event in self._turn.held:
            self._note(event)
        return super().go_on()

    def fail(self, failure: Failure) -> bytes:
        return b"" if self._turn.failed and not self._continued else exception(failure, self._injected_tool)

    def _error(self, event: Piece, value: dict[str, Any]) -> bytes:
        out = super()._error(event, value)
        if self._turn.failure is not None and isinstance(event, Chunk):
            self._turn.failure = raised(event.message)
        return out

    def _new_reader(self) -> Reader:
        return ChunkReader()

    def _note(self, event: Piece) -> None:
        document = Document(event.data or b"{}")
        metrics = document.members(document.root).get(_METRICS)
        self._hidden_metrics = plus(self._hidden_metrics, only(flat(document.plain(metrics)), _SUMMED))

    def _last_event(self, event: Piece) -> bytes:
        document = Document(event.data or b"{}")
        members = document.members(document.root)
        metrics = document.plain(members.get(_METRICS))
        if not isinstance(metrics, dict) or not self._hidden_metrics:
            return event.raw
        document.replace(members[_METRICS], added(metrics, self._hidden_metrics))
        return event.with_data(document.render())


class InvokeBody(AnthropicBody):
    """An answer that arrives as one JSON document."""

    def fail(self, failure: Failure) -> bytes:
        return error_body(failure, self._injected_tool)


def _event(message: StreamMessage) -> bytes | None:
    """The event that a message carries; None if it carries none."""
    if message.is_exception:
        return _ERROR
    if message.data is None:
        return None
    try:
        document = Document(message.data)
        text = document.string(document.members(document.root).get("bytes"))
        return None if text is None else b64decode(text, validate=True)
    except (NotJson, binascii.Error, ValueError):
        return None
