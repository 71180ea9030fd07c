"""Amazon Bedrock's InvokeModel with Anthropic's models: their own responses, in Bedrock's framing.

Each message of a stream carries one of Anthropic's events in base64, beside some padding. The last one
has Bedrock's own figures in it. Bedrock knows no keep-alive, and errors are its own.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from dataclasses import dataclass, field, replace
from typing import cast

from penumbra.apis import anthropic_response
from penumbra.apis.anthropic_response import AnthropicArguments, AnthropicTurns, AnthropicWhole
from penumbra.apis.base import Failure
from penumbra.apis.bedrock_response import error_body, exception, raised
from penumbra.apis.event import Event
from penumbra.apis.responses import Responses
from penumbra.apis.stream import Framing
from penumbra.apis.turns import Turns
from penumbra.apis.whole_turns import WholeTurns
from penumbra.wire.document import Document
from penumbra.wire.framing import MessageReader, StreamMessage
from penumbra.wire.json_values import NotJson

USAGE = replace(
    anthropic_response.USAGE,
    beside={"amazon-bedrock-invocationMetrics": ("outputTokenCount", "invocationLatency")},
)
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


class InvokeTurns(AnthropicTurns):
    """An event stream."""

    usage = USAGE

    def failed_by(self, event: Event) -> Failure:
        return raised(cast(Chunk, event.piece).message)

    def error(self, failure: Failure) -> Chunk:
        return Chunk(exception(failure, self.injected_tool), _ERROR)


class InvokeWhole(AnthropicWhole):
    """One JSON document."""

    usage = USAGE

    def error(self, failure: Failure) -> bytes:
        return error_body(failure, self.injected_tool)


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


class InvokeResponses(Responses):
    """Bedrock's InvokeModel with Anthropic's models."""

    usage = USAGE
    arguments = AnthropicArguments

    def framing(self) -> Framing:
        return Framing(ChunkReader)

    def turns(self, framing: Framing, injected_tool: str, before: str) -> Turns:
        return InvokeTurns(injected_tool)

    def whole_turns(self, injected_tool: str, before: str) -> WholeTurns:
        return InvokeWhole(injected_tool)
