"""Anthropic Messages: responses, as streams and as JSON. See `content_blocks.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import Raw

from penumbra.apis.anthropic import SIGNATURES
from penumbra.apis.base import CacheDiagnosis, Failure, MadeCall, Said, Turn
from penumbra.apis.call_arguments import BlockArguments, Made, edit_value
from penumbra.apis.content_blocks import Block, BlockTurns, Kind, WholeBlocks, object_or_empty
from penumbra.apis.ending import EndingTable
from penumbra.apis.event import Event
from penumbra.apis.responses import Responses
from penumbra.apis.result_blocks import reads_result
from penumbra.apis.stream import Framing
from penumbra.apis.turns import Turns
from penumbra.apis.upstream_error import described
from penumbra.apis.usage import UsageTable
from penumbra.apis.whole_turns import WholeTurns
from penumbra.wire.document import Document
from penumbra.wire.framing import Piece, SseEvent, SseReader, event_bytes
from penumbra.wire.json_values import encode

_FROM_LAST_CALL = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
USAGE = UsageTable(
    inputs=(*_FROM_LAST_CALL, "cache_creation"),
    outputs=("output_tokens", "server_tool_use."),
    within=("message", ""),
    repeated=_FROM_LAST_CALL,
)
ENDS = EndingTable(reasons=(("stop_reason",), ("delta", "stop_reason")))
_KEEP_ALIVE = b'event: ping\ndata: {"type": "ping"}\n\n'
_KINDS = {
    "message_start": Kind.START,
    "content_block_start": Kind.BLOCK_BEGINS,
    "content_block_delta": Kind.BLOCK_GROWS,
    "content_block_stop": Kind.BLOCK_ENDS,
    "message_delta": Kind.END,
    "message_stop": Kind.END,
}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_WHOLE = ("type", "encrypted_content")
"""Members of a delta that take the place of what was there; other texts go on."""
_NO_CONTINUATION = ("refusal", "model_context_window_exceeded")


@dataclass(slots=True)
class AnthropicBlock(Block):
    """A content block put together from its start and its deltas."""

    _start: dict[str, Any] = field(default_factory=dict)
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _others: dict[str, Any] = field(default_factory=dict)
    _citations: list[Any] = field(default_factory=list)

    @property
    def _kind(self) -> str:
        return str(self._start.get("type"))

    def start(self, value: dict[str, Any]) -> None:
        self._start = value

    def add(self, delta: dict[str, Any]) -> None:
        for key, value in delta.items():
            if key == "citation":
                self._citations.append(value)
            elif key not in _WHOLE and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif key != "type":
                self._others[key] = value

    def call(self) -> MadeCall | None:
        if self._kind != "tool_use":
            return None
        call_id, name, caller = (self._start.get(key) for key in ("id", "name", "caller"))
        return MadeCall(str(call_id), str(name), self._arguments(), reads_result(caller))

    @property
    def text(self) -> str:
        return self._text("text") if self._kind == "text" else ""

    @property
    def signature(self) -> str:
        return self._text(SIGNATURES[self._kind]) if self._kind in SIGNATURES else ""

    @property
    def is_reasoning(self) -> bool:
        return self._kind in SIGNATURES

    @property
    def may_be_cut(self) -> bool:
        return self._kind == "text"

    def json(self) -> bytes:
        if not self._start or (self._kind == "text" and not self.text.strip()):
            return b""
        members = {key: value for key, value in self._start.items() if key != "input"}
        members |= self._others
        members |= {key: self._text(key) for key in self._texts if key != "partial_json"}
        if self._citations:
            members["citations"] = [*(self._start.get("citations") or ()), *self._citations]
        data = encode(members)
        if "input" not in self._start:
            return data
        return data[:-1] + b',"input":' + object_or_empty(self._arguments()) + b"}"

    def _text(self, key: str) -> str:
        start = self._start.get(key)
        return (start if isinstance(start, str) else "") + "".join(self._texts.get(key, ()))

    def _arguments(self) -> str:
        """The JSON text of the input, as the model wrote it."""
        return "".join(self._texts.get("partial_json", ())) or encode(self._start.get("input", {})).decode()


class AnthropicTurns(BlockTurns):
    """A stream of server-sent events."""

    usage = USAGE
    ends = ENDS
    index = "index"
    begins = "content_block"
    new_block = AnthropicBlock

    def kind(self, event: Event) -> Kind | None:
        return _KINDS.get(self._type(event.document))

    def is_error(self, event: Event) -> bool:
        return self._type(event.document) == "error"

    def note(self, event: Event, document: Document) -> None:
        start = event.members.get("message")
        self.note_usage(document, start or document.root)
        if start is not None:
            members = document.members(start)
            self.seen.id = str(document.plain(members.get("id")) or "")
            self.seen.diagnosis = _diagnosis(document, members)
        self.finished |= self._type(document) == "message_stop"

    def reason(self, document: Document) -> Raw | None:
        delta = document.members(document.root).get("delta")
        return document.members(delta).get("stop_reason")

    def is_continuable(self) -> bool:
        return self.seen.stop_reason not in _NO_CONTINUATION

    def error(self, failure: Failure) -> Piece:
        data = error_body(failure, self.injected_tool)
        return SseEvent(event_bytes("error", data), "error", data)

    @staticmethod
    def _type(document: Document | None) -> str:
        if document is None:
            return ""
        return document.string(document.members(document.root).get("type")) or ""


class AnthropicWhole(WholeBlocks):
    """One JSON document."""

    usage = USAGE
    ends = ENDS

    def content(self, document: Document) -> Raw | None:
        return document.members(document.root).get("content")

    def reason(self, document: Document) -> Raw | None:
        return document.members(document.root).get("stop_reason")

    def said(self, document: Document, block: Raw) -> Said:
        members = document.members(block)
        kind = document.string(members.get("type")) or ""
        if kind == "tool_use":
            call_id, name = (document.string(members.get(key)) or "" for key in ("id", "name"))
            given = document.source(members["input"]).decode() if "input" in members else ""
            by_program = reads_result(document.plain(members.get("caller")))
            return Said(call_id, name, given, by_program=by_program)
        text = document.string(members.get("text")) or "" if kind == "text" else ""
        return Said(text=text, signature=document.string(members.get(SIGNATURES.get(kind, ""))))

    def turn(self, document: Document) -> Turn:
        members = document.members(document.root)
        kind = document.string(members.get("type"))
        if kind != "message":
            return Turn(failed=kind == "error")
        return replace(
            super().turn(document),
            response_id=document.string(members.get("id")) or "",
            diagnosis=_diagnosis(document, members),
        )

    @staticmethod
    def is_continuable(reason: str) -> bool:
        return reason not in _NO_CONTINUATION

    def error(self, failure: Failure) -> bytes:
        return error_body(failure, self.injected_tool)


def _diagnosis(document: Document, message: dict[str, Raw]) -> CacheDiagnosis | None:
    """Read `diagnostics` of a message; the member is null where the compared prompts agree."""
    if "diagnostics" not in message:
        return None
    found = document.plain(message["diagnostics"])
    if found is None:
        return CacheDiagnosis()
    reason = found.get("cache_miss_reason") if isinstance(found, dict) else None
    if not isinstance(reason, dict):
        return None
    tokens = reason.get("cache_missed_input_tokens")
    return CacheDiagnosis(str(reason.get("type", ""))[:40], tokens if isinstance(tokens, int) else 0)


class AnthropicArguments(BlockArguments):
    """The arguments of calls."""

    index = "index"

    def begun(self, document: Document, members: dict[str, Raw]) -> str | None:
        block = document.members(members.get("content_block"))
        if document.string(block.get("type")) != "tool_use":
            return None
        name = document.string(block.get("name")) or ""
        # Some compatible servers give all arguments at once.
        if "input" in block:
            edit_value(document, block["input"], self._open(name))
        return name

    def fragment(self, document: Document, members: dict[str, Raw]) -> Raw | None:
        fragment = document.members(members.get("delta")).get("partial_json")
        return fragment if fragment is not None and document.is_string(fragment) else None

    def ends(self, document: Document, members: dict[str, Raw]) -> bool:
        return document.string(members.get("type")) == "content_block_stop"

    def made(self, document: Document) -> Iterator[Made]:
        for item in document.items(document.members(document.root).get("content")):
            block = document.members(item)
            if document.string(block.get("type")) == "tool_use":
                yield Made(document.string(block.get("name")) or "", block.get("input"))


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours."""
    error = described(failure, injected_tool)
    type_ = error.type if error.type.endswith("_error") or error.type in _ERRORS.values() else ""
    kind = type_ or _ERRORS.get(error.status or 0, "api_error")
    return encode({"type": "error", "error": {"type": kind, "message": error.message}})


class AnthropicResponses(Responses):
    """Anthropic Messages."""

    usage = USAGE
    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'
    arguments = AnthropicArguments

    def framing(self) -> Framing:
        return Framing(SseReader)

    def turns(self, framing: Framing, injected_tool: str, before: str) -> Turns:
        return AnthropicTurns(injected_tool)

    def whole_turns(self, injected_tool: str, before: str) -> WholeTurns:
        return AnthropicWhole(injected_tool)
