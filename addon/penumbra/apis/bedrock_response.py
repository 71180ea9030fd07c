"""Amazon Bedrock's Converse: responses, as event streams and as JSON. See `content_blocks.py`.

Only calls and the like have a start, texts and reasoning begin with their first piece. The API knows no
keep-alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Failure, Said, Turn
from penumbra.apis.bedrock import error, said
from penumbra.apis.bedrock_block import ConverseBlock
from penumbra.apis.call_arguments import BlockArguments, Made
from penumbra.apis.content_blocks import BlockTurns, Kind, WholeBlocks
from penumbra.apis.ending import EndingTable
from penumbra.apis.event import Event
from penumbra.apis.responses import Responses
from penumbra.apis.stream import Framing
from penumbra.apis.turns import Turns
from penumbra.apis.upstream_error import described
from penumbra.apis.usage import UsageTable
from penumbra.apis.whole_turns import WholeTurns
from penumbra.wire.document import Document
from penumbra.wire.framing import MessageReader, StreamMessage, message_bytes
from penumbra.wire.json_values import NotJson, decode, encode

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
    "messageStart": Kind.START,
    "contentBlockStart": Kind.BLOCK_BEGINS,
    "contentBlockDelta": Kind.BLOCK_GROWS,
    "contentBlockStop": Kind.BLOCK_ENDS,
    "messageStop": Kind.END,
    "metadata": Kind.END,
}
_CONTINUABLE = ("", "end_turn", "tool_use", "stop_sequence", "max_tokens")
_EXCEPTIONS = {
    400: "validationException",
    424: "modelStreamErrorException",
    429: "throttlingException",
    503: "serviceUnavailableException",
}


class ConverseTurns(BlockTurns):
    """An event stream."""

    usage = USAGE
    ends = ENDS
    index = "contentBlockIndex"
    begins = "start"
    new_block = ConverseBlock

    def kind(self, event: Event) -> Kind | None:
        return _KINDS.get(cast(StreamMessage, event.piece).event)

    def is_error(self, event: Event) -> bool:
        return cast(StreamMessage, event.piece).is_exception

    def failed_by(self, event: Event) -> Failure:
        return raised(cast(StreamMessage, event.piece))

    def note(self, event: Event, document: Document) -> None:
        self.note_usage(document, document.root)
        self.finished |= cast(StreamMessage, event.piece).event == "messageStop"

    def reason(self, document: Document) -> Raw | None:
        return document.members(document.root).get("stopReason")

    def is_continuable(self) -> bool:
        blocks = self.seen.blocks.values()
        is_known = all(isinstance(block, ConverseBlock) and block.known for block in blocks)
        return is_known and self.seen.stop_reason in _CONTINUABLE

    def error(self, failure: Failure) -> StreamMessage:
        return exception(failure, self.injected_tool)


class ConverseWhole(WholeBlocks):
    """One JSON document."""

    usage = USAGE
    ends = ENDS

    def content(self, document: Document) -> Raw | None:
        output = document.members(document.root).get("output")
        return document.members(document.members(output).get("message")).get("content")

    def reason(self, document: Document) -> Raw | None:
        return document.members(document.root).get("stopReason")

    def said(self, document: Document, block: Raw) -> Said:
        return said(document, block)

    def turn(self, document: Document) -> Turn:
        return super().turn(document) if self.content(document) is not None else Turn()

    @staticmethod
    def is_continuable(reason: str) -> bool:
        return reason in _CONTINUABLE

    def error(self, failure: Failure) -> bytes:
        return error_body(failure, self.injected_tool)


class ConverseArguments(BlockArguments):
    """The arguments of calls."""

    index = "contentBlockIndex"

    def begun(self, document: Document, members: dict[str, Raw]) -> str | None:
        use = document.members(members.get("start")).get("toolUse")
        return None if use is None else document.string(document.members(use).get("name")) or ""

    def fragment(self, document: Document, members: dict[str, Raw]) -> Raw | None:
        fragment = document.members(document.members(members.get("delta")).get("toolUse")).get("input")
        return fragment if fragment is not None and document.is_string(fragment) else None

    def ends(self, document: Document, members: dict[str, Raw]) -> bool:
        return "start" not in members and "delta" not in members

    def made(self, document: Document) -> Iterator[Made]:
        output = document.members(document.members(document.root).get("output"))
        for item in document.items(document.members(output.get("message")).get("content")):
            use = document.members(document.members(item).get("toolUse"))
            yield Made(document.string(use.get("name")) or "", use.get("input"))


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours.

    The API names the error in a header, which is not at hand; its clients look into the object too.
    """
    problem = described(failure, injected_tool)
    return error(problem.status or 502, problem.message)


def exception(failure: Failure, injected_tool: str) -> StreamMessage:
    """The same within a stream."""
    problem = described(failure, injected_tool)
    type_ = problem.type if problem.type.endswith("Exception") else ""
    kind = type_ or _EXCEPTIONS.get(problem.status or 0, "internalServerException")
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    data = encode({"message": problem.message})
    return StreamMessage(message_bytes(headers, data), data, exception=kind)


def raised(message: StreamMessage) -> Failure:
    """The failure that an exception within a stream is."""
    try:
        said = decode(message.data or b"")
    except NotJson:
        said = {}
    text = said.get("message") if isinstance(said, dict) else ""
    error = encode({"error": {"type": message.exception, "message": text}})
    return Failure(None, error, ENDED_IN_AN_ERROR, reported=True)


class ConverseResponses(Responses):
    """Bedrock's Converse."""

    usage = USAGE
    arguments = ConverseArguments

    def framing(self) -> Framing:
        return Framing(MessageReader)

    def turns(self, framing: Framing, injected_tool: str, before: str) -> Turns:
        return ConverseTurns(injected_tool)

    def whole_turns(self, injected_tool: str, before: str) -> WholeTurns:
        return ConverseWhole(injected_tool)
