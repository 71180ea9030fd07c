"""This module has the format of requests and responses of Ollama's own chat API.

A tool result is a message of role `tool` with a string as content. Most results don't name their call. Such a
result answers the first call without a result. If the result names a tool, only calls of this tool count.
Responses are JSON Lines or one JSON document (`message_pieces.py`). The last line marks the end of the turn
and has the token counts. The API has no keep-alive event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from penumbra.apis.base import Event, InjectedCall, called_as
from penumbra.apis.call_arguments import CallArguments
from penumbra.apis.message_pieces import Noted, PieceTurns, Reading, call_tokens, take_out_calls
from penumbra.apis.openai_chat import ChatFormat
from penumbra.apis.parts import OpenCalls, ToolCall
from penumbra.apis.prompt import Kind, Message, Part
from penumbra.apis.responses import Responses
from penumbra.apis.turns import Framing
from penumbra.apis.upstream_error import DescribedError
from penumbra.apis.usage import EndingTable, UsageTable
from penumbra.linear import utf8
from penumbra.wire.document import Document
from penumbra.wire.framing import JsonLine, LineReader
from penumbra.wire.json_values import decode, encode


def write_error(error: DescribedError) -> bytes:
    """Return an error as the API writes it, without a status."""
    return encode({"error": error.message})


class OllamaFormat(ChatFormat):
    """The format of bodies of `/api/chat`, with tools and exchanges as in Chat Completions."""

    # Without tools there are no calls. The API can't forbid calls in another way.
    no_calls = "tools", b"[]"
    error_body = staticmethod(write_error)
    tokens = staticmethod(call_tokens)

    def message(self, document: Document, value: Raw, turn: int = 0) -> Message:
        members = document.members(value)
        role = document.text_of(members.get("role"))
        content = members.get("content")
        texts = (content,) if content is not None and document.is_string(content) else ()
        parts: list[Part] = []
        if role == "tool":
            names = (document.text_of(members.get(key)) for key in ("tool_name", "name"))
            call_id = document.text_of(members.get("tool_call_id"))
            name = next(filter(None, names), "")
            parts.append(Part(Kind.RESULT, value, call_id, name, texts=texts))
        else:
            parts += (Part(Kind.TEXT, text, texts=(text,)) for text in texts)
            parts += (_call(document, call) for call in document.items(members.get("tool_calls")))
        return Message(value, turn, role, role == "assistant", tuple(parts))

    def answered(self, result: Part, by_id: Mapping[str, ToolCall], waiting: OpenCalls) -> ToolCall | None:
        call = waiting.first_with_id(result.id) if result.id else None
        return call or (waiting.first_named(result.name) if result.name else waiting.first())

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"role": "tool", "content": text, **decode(utf8(call.id))})


def _call(document: Document, value: Raw) -> Part:
    call = document.members(value)
    function = document.members(call.get("function"))
    name = document.text_of(function.get("name"))
    return Part(Kind.CALL, value, document.text_of(call.get("id")), name, function.get("arguments"))


USAGE = UsageTable(
    inputs=("prompt_eval_count",),
    outputs=("eval_count", "eval_duration"),
    holders=("",),
    names=("eval_count", "eval_duration", "prompt_eval_count", "total_duration", "load_duration"),
)
ENDS = EndingTable(reasons=(("done_reason",),))
_KEPT = ("model", "created_at", "message")
"""The client gets these members of the last line of a turn, even if the response is continued."""


@dataclass
class OllamaReading(Reading):
    thinking: list[str] = field(default_factory=list)
    calls: list[bytes] = field(default_factory=list)

    def note(self, document: Document) -> Noted:
        members = document.top
        message = document.members(members.get("message"))
        text, thinking = (document.text_of(message.get(name)) for name in ("content", "thinking"))
        self.texts.append(text)
        self.thinking.append(thinking)
        ends = document.plain(members.get("done")) is True
        if ends:
            self.finished, self.reason = True, document.text_of(members.get("done_reason"))
        calls = document.items(message.get("tool_calls"))
        hidden = [is_hidden(document, call, self.injected_tool) for call in calls]
        for call, is_injected in zip(calls, hidden, strict=True):
            self.calls.append(document.source(call))
            made = _call(document, call)
            # These members name the call in its result.
            named = {"tool_name": made.name} | ({"tool_call_id": made.id} if made.id else {})
            self.note_call(document, made, named if is_injected else None)
        shows = bool(text or thinking) or not all(hidden)
        return Noted([message["content"]] if text else [], any(hidden), shows, ends)

    def message(self) -> bytes | None:
        text = "".join(self.texts)
        if not text and not self.calls:
            return None
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if thinking := "".join(self.thinking):
            message["thinking"] = thinking
        source = encode(message)
        return source[:-1] + b',"tool_calls":[' + b",".join(self.calls) + b"]}" if self.calls else source

    def is_continuable(self) -> bool:
        return self.reason in ("", "stop")


class OllamaTurns(PieceTurns):
    """The turns of a response in JSON lines, or in one document."""

    usage = USAGE
    ends = ENDS
    error_body = staticmethod(write_error)
    _shown = ""
    """The text of the earlier turns. Each turn was a document."""

    def new_reading(self) -> Reading:
        return OllamaReading(self.injected_tool)

    def is_error(self, event: Event) -> bool:
        return "error" in event.members

    def take_out(self, document: Document) -> None:
        take_out(document, self.injected_tool)

    def join(self, document: Document) -> None:
        if document.plain(document.top.get("done")) is True:
            self.note_usage(document, document.root)
            self.usage.add(document, document.root, self.hidden_usage, {})

    def without_end(self, event: Event) -> Event | None:
        assert event.document is not None
        document = event.document
        if not OllamaReading("").note(document).shows:
            return None
        kept = {name: document.source(event.members[name]) for name in _KEPT if name in event.members}
        pieces = [encode(name) + b":" + value for name, value in kept.items()]
        return Event(event.piece, Document(b"{" + b",".join(pieces) + b',"done":false}'), is_changed=True)

    def keep(self, document: Document) -> None:
        self._shown += self._joined(document)

    def put_together(self, document: Document) -> None:
        text = _message(document).get("content")
        take_out(document, self.injected_tool)
        if self._shown and text is not None:
            document.replace(text, self._shown + self._joined(document))

    def _joined(self, document: Document) -> str:
        return self.seam.join(document.text_of(_message(document).get("content")))


class OllamaArguments(CallArguments):
    def blocks(self, document: Document) -> Iterable[Raw]:
        return document.items(_message(document).get("tool_calls"))

    def parts(self, document: Document, block: Raw) -> Iterable[Part]:
        return (_call(document, block),)


def _message(document: Document) -> dict[str, Raw]:
    return document.members(document.top.get("message"))


def is_hidden(document: Document, call: Raw, injected_tool: str) -> bool:
    function = document.members(document.members(call).get("function"))
    return document.string(function.get("name")) in called_as(injected_tool)


def take_out(document: Document, injected_tool: str) -> None:
    take_out_calls(document, _message(document), lambda call: is_hidden(document, call, injected_tool))


LINES = Framing(LineReader, lambda _, data: JsonLine(data + b"\n"))
RESPONSES = Responses(OllamaTurns, OllamaArguments, lambda: LINES)
