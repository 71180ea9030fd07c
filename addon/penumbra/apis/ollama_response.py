"""Ollama's own chat API: responses, as JSON lines and as one JSON document. See `message_pieces.py`.

The last line says that the turn is done and has its figures. The API knows no keep-alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from penumbra.apis.base import Failure, InjectedCall, Turn
from penumbra.apis.call_arguments import Made, WholeArguments
from penumbra.apis.ending import EndingTable
from penumbra.apis.event import Event
from penumbra.apis.message_pieces import Noted, PieceTurns, Reading, Seam, take_out_calls
from penumbra.apis.ollama import call_token
from penumbra.apis.responses import Responses
from penumbra.apis.stream import Framing
from penumbra.apis.turns import Turns
from penumbra.apis.upstream_error import described
from penumbra.apis.usage import UsageTable
from penumbra.apis.whole_turns import WholeTurns
from penumbra.wire.document import Document
from penumbra.wire.framing import JsonLine, LineReader
from penumbra.wire.json_values import encode

USAGE = UsageTable(
    inputs=("prompt_eval_count",),
    outputs=("eval_count", "eval_duration"),
    holders=("",),
    names=("eval_count", "eval_duration", "prompt_eval_count", "total_duration", "load_duration"),
)
ENDS = EndingTable(reasons=(("done_reason",),))
_KEPT = ("model", "created_at", "message")
"""What of a last line goes on where the turn does not end with it."""


@dataclass
class OllamaReading(Reading):
    """One turn."""

    thinking: list[str] = field(default_factory=list)
    calls: list[bytes] = field(default_factory=list)

    def note(self, document: Document) -> Noted:
        members = document.members(document.root)
        message = document.members(members.get("message"))
        text, thinking = (document.string(message.get(name)) or "" for name in ("content", "thinking"))
        self.texts.append(text)
        self.thinking.append(thinking)
        ends = document.plain(members.get("done")) is True
        if ends:
            self.finished, self.reason = True, document.string(members.get("done_reason")) or ""
        calls = document.items(message.get("tool_calls"))
        hidden = [self._note_call(document, call) for call in calls]
        shows = bool(text or thinking) or not all(hidden)
        return Noted([message["content"]] if text else [], any(hidden), shows, ends)

    def _note_call(self, document: Document, call: Raw) -> bool:
        """Whether a call is one of the injected tool."""
        self.calls.append(document.source(call))
        members = document.members(call)
        function = document.members(members.get("function"))
        hidden = is_hidden(document, call, self.injected_tool)
        if hidden:
            arguments = document.source(function["arguments"]).decode() if "arguments" in function else "{}"
            names = (document.string(members.get("id")) or "",)
            self.injected.append(InjectedCall(_identity(document, members, function), arguments, names))
        else:
            self.real_calls.append(document.string(members.get("id")) or "")
            self.tokens.append(call_token(document, call))
        return hidden

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
    """A stream of lines."""

    usage = USAGE
    ends = ENDS

    def new_reading(self) -> Reading:
        return OllamaReading(self.injected_tool)

    def is_error(self, event: Event) -> bool:
        return "error" in event.members

    def error(self, failure: Failure) -> JsonLine:
        return JsonLine(error_body(failure, self.injected_tool) + b"\n")

    def take_out(self, document: Document) -> None:
        take_out(document, self.injected_tool)

    def join(self, document: Document) -> None:
        if document.plain(document.members(document.root).get("done")) is True:
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


class OllamaWhole(WholeTurns):
    """One JSON document."""

    usage = USAGE
    ends = ENDS

    def __init__(self, injected_tool: str) -> None:
        super().__init__(injected_tool)
        self._seam = Seam()
        self._shown = ""

    def turn(self, document: Document) -> Turn:
        reading = OllamaReading(self.injected_tool)
        reading.note(document)
        failed = "error" in document.members(document.root)
        return Turn(failed=True) if failed else reading.turn()

    def hide_turn(self, document: Document) -> None:
        self._shown += self._seam.join(document.string(_message(document).get("content")) or "")
        self._seam.due = True

    def put_right(self, document: Document) -> None:
        message = _message(document)
        take_out(document, self.injected_tool)
        if self._shown and "content" in message:
            text = document.string(message["content"]) or ""
            document.replace(message["content"], self._shown + self._seam.join(text))

    def error(self, failure: Failure) -> bytes:
        return error_body(failure, self.injected_tool)


class OllamaArguments(WholeArguments):
    """The arguments of calls."""

    def made(self, document: Document) -> Iterator[Made]:
        for call in document.items(_message(document).get("tool_calls")):
            function = document.members(document.members(call).get("function"))
            yield Made(document.string(function.get("name")) or "", function.get("arguments"))


def _message(document: Document) -> dict[str, Raw]:
    return document.members(document.members(document.root).get("message"))


def is_hidden(document: Document, call: Raw, injected_tool: str) -> bool:
    """Whether a call is one of the injected tool."""
    function = document.members(document.members(call).get("function"))
    return document.string(function.get("name")) == injected_tool


def take_out(document: Document, injected_tool: str) -> None:
    """Remove the injected tool's calls."""
    take_out_calls(document, _message(document), lambda call: is_hidden(document, call, injected_tool))


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours."""
    return encode({"error": described(failure, injected_tool).message})


def _identity(document: Document, call: dict[str, Raw], function: dict[str, Raw]) -> str:
    """Name and id of a call, as its result repeats them; JSON."""
    named = {"tool_name": document.string(function.get("name"))}
    if call_id := document.string(call.get("id")):
        named["tool_call_id"] = call_id
    return encode(named).decode()


class OllamaResponses(Responses):
    """Ollama's own chat API."""

    usage = USAGE
    arguments = OllamaArguments

    def framing(self) -> Framing:
        return Framing(LineReader)

    def turns(self, framing: Framing, injected_tool: str, before: str) -> Turns:
        return OllamaTurns(injected_tool)

    def whole_turns(self, injected_tool: str, before: str) -> WholeTurns:
        return OllamaWhole(injected_tool)
