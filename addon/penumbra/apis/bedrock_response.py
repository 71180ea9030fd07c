"""This module reads and edits responses of Amazon Bedrock's Converse and InvokeModel (with Anthropic's
models). The responses are event streams or JSON.

In a stream of Converse, each call begins with a start event. Each text or reasoning begins with its first
piece. In a stream of InvokeModel, each message contains an event of Anthropic's API in base64, and padding.
The last message has Bedrock's own token counts. Neither API has a keep-alive event. See `content_blocks.py`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec import Raw, Struct, structs

from penumbra.apis import anthropic
from penumbra.apis.anthropic import AnthropicArguments, AnthropicTurns
from penumbra.apis.base import ENDED_IN_AN_ERROR, Event, Failure, Turn
from penumbra.apis.bedrock import ConverseFormat, write_error
from penumbra.apis.call_arguments import NumberedArguments
from penumbra.apis.content_blocks import Block, BlockTurns, EventKind, object_or_empty
from penumbra.apis.prompt import Part
from penumbra.apis.responses import Responses
from penumbra.apis.turns import Framing
from penumbra.apis.upstream_error import AMAZON, DescribedError, by_status
from penumbra.apis.usage import EndingTable, UsageTable
from penumbra.wire.document import Document
from penumbra.wire.event_stream import MessageReader, StreamMessage, message_bytes
from penumbra.wire.json_values import NotJson, decode, encode


@dataclass(slots=True)
class ConverseBlock(Block):
    known: bool = True
    """False if the block has content that this module can't assemble."""
    _start: dict[str, Any] = field(default_factory=dict)
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _lists: dict[str, list[Any]] = field(default_factory=dict)

    def start(self, value: dict[str, Any]) -> None:
        self._start = value
        self.known = self.known and self._start.keys() <= {"toolUse", "toolResult"}

    def add(self, delta: dict[str, Any]) -> None:
        for kind, value in delta.items():
            if kind == "text" and isinstance(value, str):
                self._texts.setdefault("text", []).append(value)
            elif kind == "toolUse" and isinstance(value, dict):
                self._texts.setdefault("input", []).append(str(value.get("input", "")))
            elif kind == "reasoningContent" and isinstance(value, dict):
                for name, piece in value.items():
                    self._texts.setdefault(f"reasoning {name}", []).append(str(piece))
            elif kind == "citation":
                self._lists.setdefault("citations", []).append(value)
            elif kind == "toolResult" and isinstance(value, list):
                self._lists.setdefault("content", []).extend(value)
            else:
                self.known = False

    def json(self) -> bytes:
        if call := self._call():
            return b'{"toolUse":' + encode(call)[:-1] + b',"input":' + object_or_empty(self.arguments) + b"}}"
        if "toolResult" in self._start:
            result = {**self._start["toolResult"], "content": self._lists.get("content", [])}
            return encode({"toolResult": result})
        if any(name.startswith("reasoning") for name in self._texts):
            return encode({"reasoningContent": self._reasoning()})
        text, citations = self._text("text"), self._lists.get("citations")
        if text.strip() and citations:
            return encode({"citationsContent": {"content": [{"text": text}], "citations": citations}})
        return encode({"text": text})

    @property
    def arguments(self) -> str:
        return self._text("input") or "{}"

    def _call(self) -> dict[str, Any]:
        call = self._start.get("toolUse")
        return call if isinstance(call, dict) else {}

    def _text(self, name: str) -> str:
        return "".join(self._texts.get(name, ()))

    def _reasoning(self) -> dict[str, Any]:
        if redacted := self._redacted():
            return {"redactedContent": redacted}
        signature = self._text("reasoning signature")
        signed = {"signature": signature} if signature else {}
        return {"reasoningText": {"text": self._text("reasoning text"), **signed}}

    def _redacted(self) -> str:
        pieces = self._texts.get("reasoning redactedContent", [])
        if len(pieces) < 2:
            return "".join(pieces)
        return b64encode(b"".join(map(b64decode, pieces))).decode()


_INPUTS = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
USAGE = UsageTable(
    inputs=_INPUTS,
    outputs=("outputTokens",),
    total="totalTokens",
    in_total=_INPUTS,
    beside={"metrics": ("latencyMs",)},
)
ENDS = EndingTable(reasons=(("stopReason",),))
_KINDS = {
    "messageStart": EventKind.START,
    "contentBlockStart": EventKind.BLOCK_BEGINS,
    "contentBlockDelta": EventKind.BLOCK_GROWS,
    "contentBlockStop": EventKind.BLOCK_ENDS,
    "messageStop": EventKind.END,
    "metadata": EventKind.END,
}
_CONTINUABLE = ("", "end_turn", "tool_use", "stop_sequence", "max_tokens")
_EXCEPTIONS = by_status(AMAZON)


class ConverseTurns(BlockTurns):
    """A `ConverseTurns` reads a response of Converse: an event stream, or one document."""

    usage = USAGE
    ends = ENDS
    index = "contentBlockIndex"
    begins = "start"
    new_block = ConverseBlock
    error_body = staticmethod(write_error)

    def kind(self, event: Event) -> EventKind | None:
        return _KINDS.get(cast(StreamMessage, event.piece).event)

    def is_error(self, event: Event) -> bool:
        return cast(StreamMessage, event.piece).is_exception

    def failed_by(self, event: Event) -> Failure:
        return raised(cast(StreamMessage, event.piece))

    def note(self, event: Event, document: Document) -> None:
        self.note_usage(document, document.root)
        self.finished |= cast(StreamMessage, event.piece).event == "messageStop"

    def reason(self, document: Document) -> Raw | None:
        return document.top.get("stopReason")

    def is_continuable(self) -> bool:
        blocks = self.seen.blocks
        is_known = all(isinstance(block, ConverseBlock) and block.known for _, block in blocks)
        return is_known and self.seen.stop_reason in _CONTINUABLE

    def error(self, error: DescribedError) -> StreamMessage:
        return exception(error)

    def content(self, document: Document) -> Raw | None:
        return _content(document)

    def parts(self, document: Document, block: Raw) -> Sequence[Part]:
        return ConverseFormat().block(document, block)

    def read_whole(self, document: Document) -> Turn:
        return super().read_whole(document) if self.content(document) is not None else Turn()


class ConverseArguments(NumberedArguments):
    index = "contentBlockIndex"
    begins = "start"
    fragment = "delta", "toolUse", "input"

    def ends(self, document: Document, members: dict[str, Raw]) -> bool:
        return "start" not in members and "delta" not in members

    def blocks(self, document: Document) -> Iterable[Raw]:
        return document.items(_content(document))

    def parts(self, document: Document, block: Raw) -> Iterable[Part]:
        return ConverseFormat().block(document, block)


def _content(document: Document) -> Raw | None:
    """Return the array of blocks of a response that is one document."""
    output = document.members(document.top.get("output"))
    return document.members(output.get("message")).get("content")


def exception(error: DescribedError) -> StreamMessage:
    type_ = error.type if error.type.endswith("Exception") else ""
    kind = type_ or _EXCEPTIONS.get(error.status or 0, "internalServerException")
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    data = encode({"message": error.message})
    return StreamMessage(message_bytes(headers, data), data, exception=kind)


def raised(message: StreamMessage) -> Failure:
    """Return the failure for an exception within a stream."""
    try:
        content = decode(message.data or b"")
    except NotJson:
        content = {}
    text = content.get("message") if isinstance(content, dict) else ""
    error = encode({"error": {"type": message.exception, "message": text}})
    return Failure(None, error, ENDED_IN_AN_ERROR, reported=True)


CONVERSE = Responses(ConverseTurns, ConverseArguments, lambda: Framing(MessageReader))
INVOKE_USAGE = structs.replace(
    anthropic.USAGE, beside={"amazon-bedrock-invocationMetrics": ("outputTokenCount", "invocationLatency")}
)
_ERROR = b'{"type":"error"}'
"""This event replaces an exception, because the reader expects events of Anthropic's API."""


class Chunk(Struct, frozen=True):
    """A `Chunk` is a message of InvokeModel, with the JSON of Anthropic's event in it."""

    message: StreamMessage
    data: bytes | None

    @property
    def raw(self) -> bytes:
        return self.message.raw

    def with_data(self, data: bytes) -> bytes:
        """Return the bytes of the message with another event and the same padding."""
        assert self.message.data is not None
        document = Document(self.message.data)
        document.replace(document.top["bytes"], b64encode(data).decode())
        return self.message.with_data(document.render())


@dataclass(slots=True)
class ChunkReader:
    _messages: MessageReader = field(default_factory=MessageReader)

    def feed(self, data: bytes) -> list[Chunk]:
        return [Chunk(message, _event(message)) for message in self._messages.feed(data)]

    def close(self) -> list[Chunk]:
        return [Chunk(message, None) for message in self._messages.close()]


class InvokeTurns(AnthropicTurns):
    """An `InvokeTurns` reads a response of InvokeModel: an event stream, or one document."""

    usage = INVOKE_USAGE
    error_body = staticmethod(write_error)

    def failed_by(self, event: Event) -> Failure:
        return raised(cast(Chunk, event.piece).message)

    def error(self, error: DescribedError) -> Chunk:
        return Chunk(exception(error), _ERROR)


def _event(message: StreamMessage) -> bytes | None:
    """Return the event in a message. For an exception, return an error event; without an event, None."""
    if message.is_exception:
        return _ERROR
    if message.data is None:
        return None
    try:
        document = Document(message.data)
        text = document.string(document.top.get("bytes"))
        return None if text is None else b64decode(text, validate=True)
    except (NotJson, binascii.Error, ValueError):
        return None


INVOKE = Responses(InvokeTurns, AnthropicArguments, lambda: Framing(ChunkReader))
