"""Anthropic Messages: answers, as streams and as JSON.

An answer is a list of content blocks. A stream numbers them; the injected tool's blocks are taken out and
the rest is numbered anew. The end of a turn (`message_delta`, `message_stop`) is held back as soon as
a call of the injected tool was seen, because it may not be the end of the message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Failure, InjectedCall, MadeCall, Turn
from penumbra.apis.upstream_error import told
from penumbra.apis.usage import added, flat, only, plus
from penumbra.apis.whole_response import WholeResponse
from penumbra.wire.document import Document, Edit, NotJson, decode, encode
from penumbra.wire.framing import Piece, Reader
from penumbra.wire.sse import SseReader, event_bytes

_SUMMED = ("output_tokens", "server_tool_use.")
_FROM_LAST_CALL = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
SIGNATURES = {"thinking": "signature", "redacted_thinking": "data"}
"""Kinds of thinking blocks, and the member by which the provider recognises each."""
_TYPES = {
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
_NO_CONTINUATION = ("refusal", "model_context_window_exceeded")


class AnthropicStream:
    """An answer that arrives as server-sent events."""

    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'

    def __init__(self, injected_tool: str) -> None:
        self._injected_tool = injected_tool
        self._reader = self._new_reader()
        self._started = False
        self._blocks_shown = 0
        self._hidden_usage: dict[str, int] = {}
        self._continued = False
        self._turn = _StreamTurn()
        self._handlers: dict[str, Callable[[Piece, dict[str, Any]], bytes]] = {
            "message_start": self._message_start,
            "content_block_start": self._block_start,
            "content_block_delta": self._block_delta,
            "content_block_stop": self._block_stop,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
            "error": self._error,
        }

    @property
    def holding(self) -> bool:
        return bool(self._turn.injected)

    def feed(self, data: bytes) -> bytes:
        return b"".join([self._event(event) for event in self._reader.feed(data)])

    def end_turn(self) -> Turn:
        self._turn.rest = b"".join([self._event(event) for event in self._reader.close()])
        return self._turn.read()

    def go_on(self) -> bytes:
        rest = self._turn.rest
        self._hidden_usage = plus(self._hidden_usage, only(self._turn.usage, _SUMMED))
        self._turn, self._reader = _StreamTurn(), self._new_reader()
        self._continued = True
        return rest

    def restart(self) -> None:
        self._turn, self._reader = _StreamTurn(), self._new_reader()

    def finish(self) -> bytes:
        only_phantoms = not self._turn.real_calls
        out = [self._turn.rest]
        for event in self._turn.held:
            ends = _kind(event) == "message_delta"
            out.append(self._last_delta(event, only_phantoms) if ends else self._last_event(event))
        self._turn.held, self._turn.rest = [], b""
        return b"".join(out)

    def fail(self, failure: Failure) -> bytes:
        if self._turn.failed and not self._continued:
            return b""
        return event_bytes("error", error_body(failure, self._injected_tool))

    def _event(self, event: Piece) -> bytes:
        if self._turn.failure is not None:
            return b""
        if event.data is None:
            return event.raw
        try:
            value = decode(event.data)
        except NotJson:
            return event.raw
        handler = self._handlers.get(str(value.get("type"))) if isinstance(value, dict) else None
        return handler(event, value) if handler else event.raw

    def _message_start(self, event: Piece, value: dict[str, Any]) -> bytes:
        message = value.get("message")
        if isinstance(message, dict):
            self._turn.usage |= flat(message.get("usage"))
            self._turn.answer_id = str(message.get("id", ""))
        if self._started:
            return b""
        self._started = True
        return event.raw

    def _block_start(self, event: Piece, value: dict[str, Any]) -> bytes:
        index, content = value.get("index"), value.get("content_block")
        self._turn.open = index if isinstance(index, int) else -1
        if not isinstance(index, int) or not isinstance(content, dict):
            return event.raw
        block = self._turn.blocks[index] = _Block(content)
        if block.kind == "tool_use" and content.get("name") == self._injected_tool:
            self._turn.injected.append(block)
            self._turn.places[index] = None
        else:
            if block.kind == "tool_use":
                self._turn.real_calls.append(str(content.get("id")))
            self._turn.places[index] = self._blocks_shown
            self._blocks_shown += 1
        return self._block_event(event, value)

    def _block_delta(self, event: Piece, value: dict[str, Any]) -> bytes:
        block, delta = self._turn.blocks.get(_index(value)), value.get("delta")
        if block and isinstance(delta, dict):
            block.add(delta)
        return self._block_event(event, value)

    def _block_stop(self, event: Piece, value: dict[str, Any]) -> bytes:
        self._turn.open = -1
        return self._block_event(event, value)

    def _block_event(self, event: Piece, value: dict[str, Any]) -> bytes:
        index = _index(value)
        place = self._turn.places.get(index, index)
        if place is None:
            return b""
        if place == index or event.data is None:
            return event.raw
        document = Document(event.data)
        document.replace(document.members(document.root)["index"], place)
        return event.with_data(document.render())

    def _message_delta(self, event: Piece, value: dict[str, Any]) -> bytes:
        self._turn.usage |= flat(value.get("usage"))
        delta = value.get("delta")
        if isinstance(delta, dict) and isinstance(delta.get("stop_reason"), str):
            self._turn.stop_reason = delta["stop_reason"]
        if self._turn.injected:
            self._turn.held.append(event)
            return b""
        return self._last_delta(event, False) if self._continued else event.raw

    def _message_stop(self, event: Piece, value: dict[str, Any]) -> bytes:
        self._turn.finished = True
        if self._turn.injected:
            self._turn.held.append(event)
            return b""
        return self._last_event(event)

    def _error(self, event: Piece, value: dict[str, Any]) -> bytes:
        self._turn.failed = True
        self._turn.held.clear()
        if not self._continued:
            return event.raw
        self._turn.failure = Failure(None, event.data or b"", ENDED_IN_AN_ERROR)
        return b""

    def _new_reader(self) -> Reader:
        return SseReader()

    def _last_event(self, event: Piece) -> bytes:
        """The event behind which the message has no other."""
        return event.raw

    def _last_delta(self, event: Piece, only_phantoms: bool) -> bytes:
        """The event that ends the message: usage of all turns, and a reason that fits what was shown."""
        assert event.data is not None
        document = Document(event.data)
        members = document.members(document.root)
        reason = document.members(members.get("delta")).get("stop_reason")
        if only_phantoms and reason is not None and document.string(reason) == "tool_use":
            document.replace(reason, "end_turn")
        usage = document.plain(members.get("usage"))
        if isinstance(usage, dict) and self._continued:
            last = {name: self._turn.usage[name] for name in _FROM_LAST_CALL if name in self._turn.usage}
            document.replace(members["usage"], {**added(usage, self._hidden_usage), **last})
        return event.with_data(document.render())


@dataclass(slots=True)
class _Block:
    """A content block put together from its start and its deltas."""

    start: dict[str, Any]
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _others: dict[str, Any] = field(default_factory=dict)
    _citations: list[Any] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return str(self.start.get("type"))

    def add(self, delta: dict[str, Any]) -> None:
        for key, value in delta.items():
            if key == "citation":
                self._citations.append(value)
            elif key != "type" and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif key != "type":
                self._others[key] = value

    def text(self, key: str) -> str:
        start = self.start.get(key)
        return (start if isinstance(start, str) else "") + "".join(self._texts.get(key, ()))

    def arguments(self) -> str:
        """The JSON text of the input, as the model wrote it."""
        return "".join(self._texts.get("partial_json", ())) or encode(self.start.get("input", {})).decode()

    def made(self) -> MadeCall:
        """The call that the block is."""
        return MadeCall(str(self.start.get("id")), str(self.start.get("name")), self.arguments())

    def json(self) -> bytes:
        """The block as a request would carry it."""
        members = {key: value for key, value in self.start.items() if key != "input"}
        members |= self._others
        members |= {key: self.text(key) for key in self._texts if key != "partial_json"}
        if self._citations:
            members["citations"] = [*(self.start.get("citations") or ()), *self._citations]
        data = encode(members)
        if "input" not in self.start:
            return data
        return data[:-1] + b',"input":' + object_or_empty(self.arguments()) + b"}"


@dataclass(slots=True)
class _StreamTurn:
    blocks: dict[int, _Block] = field(default_factory=dict)
    places: dict[int, int | None] = field(default_factory=dict)
    """Where the client sees a block; None: nowhere."""
    injected: list[_Block] = field(default_factory=list)
    real_calls: list[str] = field(default_factory=list)
    held: list[Piece] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    stop_reason: str = ""
    answer_id: str = ""
    open: int = -1
    """The block that is under way."""
    finished: bool = False
    failed: bool = False
    failure: Failure | None = None
    rest: bytes = b""

    def read(self) -> Turn:
        blocks = [self.blocks[index] for index in sorted(self.blocks)]
        returnable = [block for block in blocks if _returnable(block.kind, block.text("text"))]
        real_calls = self.real_calls
        if not self.finished:
            returnable = self._complete(returnable)
            real_calls = [str(block.start.get("id")) for block in returnable if block.kind == "tool_use"]
        return Turn(
            message=_message([block.json() for block in returnable]),
            injected=tuple(InjectedCall(str(p.start.get("id")), p.arguments()) for p in self.injected),
            real_calls=tuple(real_calls),
            text="".join(block.text("text") for block in blocks if block.kind == "text"),
            signatures=tuple(filter(None, (b.text(SIGNATURES.get(b.kind, "")) for b in blocks))),
            made=tuple(
                block.made() for block in blocks if block.kind == "tool_use" and block not in self.injected
            ),
            finished=self.finished,
            failed=self.failed,
            failure=self.failure,
            continuable=self.stop_reason not in _NO_CONTINUATION,
            answer_id=self.answer_id,
            usage=self.usage,
        )

    def _complete(self, blocks: list[_Block]) -> list[_Block]:
        """What of a message that broke off can be sent: of what is under way only text, no call that
        nobody answers, and no thinking at the end."""
        under_way = self.blocks.get(self.open)
        kept = [
            block
            for block in blocks
            if block not in self.injected and (block is not under_way or block.kind == "text")
        ]
        while kept and kept[-1].kind in SIGNATURES:
            kept.pop()
        return kept


class AnthropicBody(WholeResponse):
    """An answer that arrives as one JSON document."""

    def __init__(self, injected_tool: str) -> None:
        super().__init__(injected_tool)
        self._shown: list[bytes] = []
        self._turn = Turn()

    def end_turn(self) -> Turn:
        self._turn = self._read()
        return self._turn

    def go_on(self) -> bytes:
        self._hidden_usage = plus(self._hidden_usage, only(self._turn.usage, _SUMMED))
        return super().go_on()

    def finish(self) -> bytes:
        body = bytes(self._body)
        if not self._continued and not self._turn.injected:
            return body
        document = Document(body)
        members = document.members(document.root)
        if "content" not in members:
            return body
        start, end = document.place(members["content"])
        document.edits.append(Edit(start, end, b"[" + b",".join(self._shown) + b"]"))
        reason = members.get("stop_reason")
        if self._turn.injected and not self._turn.real_calls and document.string(reason) == "tool_use":
            assert reason is not None
            document.replace(reason, "end_turn")
        usage = document.plain(members.get("usage"))
        if isinstance(usage, dict) and self._hidden_usage:
            document.replace(members["usage"], added(usage, self._hidden_usage))
        return document.render()

    def fail(self, failure: Failure) -> bytes:
        return error_body(failure, self._injected_tool)

    def _read(self) -> Turn:
        try:
            document = Document(bytes(self._body))
        except NotJson:
            return Turn()
        members = document.members(document.root)
        if document.string(members.get("type")) != "message":
            return Turn(failed=document.string(members.get("type")) == "error")
        blocks: list[bytes] = []
        calls: list[MadeCall] = []
        texts: list[str] = []
        signatures: list[str] = []
        for item in document.items(members.get("content")):
            block = document.members(item)
            kind = document.string(block.get("type")) or ""
            text = document.string(block.get("text")) or ""
            raw = document.source(item)
            if kind == "tool_use":
                calls.append(_made(document, block))
            elif kind == "text":
                texts.append(text)
            if kind != "tool_use" or calls[-1].name != self._injected_tool:
                self._shown.append(raw)
            signature = document.string(block.get(SIGNATURES.get(kind, "")))
            signatures += [signature] if signature else []
            blocks += [raw] if _returnable(kind, text) else []
        real = tuple(call for call in calls if call.name != self._injected_tool)
        return Turn(
            message=_message(blocks),
            injected=tuple(InjectedCall(c.id, c.arguments) for c in calls if c.name == self._injected_tool),
            real_calls=tuple(call.id for call in real),
            text="".join(texts),
            signatures=tuple(signatures),
            finished=True,
            continuable=document.string(members.get("stop_reason")) not in _NO_CONTINUATION,
            answer_id=document.string(members.get("id")) or "",
            made=real,
            usage=flat(document.plain(members.get("usage"))),
        )


def _made(document: Document, block: dict[str, Raw]) -> MadeCall:
    """The call that a block is."""
    arguments = document.source(block["input"]).decode() if "input" in block else ""
    call_id, name = (document.string(block.get(key)) or "" for key in ("id", "name"))
    return MadeCall(call_id, name, arguments)


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours."""
    error = told(failure, injected_tool)
    known = error.type if error.type.endswith("_error") or error.type in _TYPES.values() else ""
    kind = known or _TYPES.get(error.status or 0, "api_error")
    return encode({"type": "error", "error": {"type": kind, "message": error.message}})


def _kind(event: Piece) -> str:
    return str(decode(event.data).get("type")) if event.data else ""


def _index(value: dict[str, Any]) -> int:
    index = value.get("index")
    return index if isinstance(index, int) else -1


def _returnable(kind: str, text: str) -> bool:
    """The API refuses text blocks without any visible character."""
    return kind != "text" or bool(text.strip())


def _message(blocks: list[bytes]) -> bytes | None:
    return b'{"role":"assistant","content":[' + b",".join(blocks) + b"]}" if blocks else None


def object_or_empty(text: str) -> bytes:
    """The text, if it is a JSON object; the API takes nothing else as a call's input."""
    try:
        data = text.encode()
        return data if isinstance(decode(data), dict) else b"{}"
    except (NotJson, UnicodeEncodeError):
        return b"{}"
