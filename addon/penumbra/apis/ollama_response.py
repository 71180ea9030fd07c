"""Ollama's own chat API: answers, as JSON lines and as one JSON document.

Every line holds a piece of the message; calls arrive whole. The last line says that the turn is done
and has its figures; it is held back once a call of the injected tool was seen. The API knows no keep-alive.

Where the client sees the text of several turns as one text, an empty line stands between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Failure, InjectedCall, Turn
from penumbra.apis.ollama import call_token
from penumbra.apis.openai_chat_message import gap
from penumbra.apis.upstream_error import told
from penumbra.apis.usage import added, flat, only, plus
from penumbra.apis.whole_response import WholeResponse
from penumbra.wire.document import Document, Edit, NotJson, encode
from penumbra.wire.ndjson import JsonLine, LineReader

_SUMMED = ("eval_count", "eval_duration")
_FIGURES = ("eval_count", "eval_duration", "prompt_eval_count", "total_duration", "load_duration")


class OllamaStream:
    """An answer that arrives line by line."""

    keep_alive = b""

    def __init__(self, injected_tool: str) -> None:
        self._injected_tool = injected_tool
        self._reader = LineReader()
        self._last_text = ""
        self._gap_due = False
        self._hidden_usage: dict[str, int] = {}
        self._continued = False
        self._turn = _Turn()

    @property
    def holding(self) -> bool:
        return bool(self._turn.held)

    def feed(self, data: bytes) -> bytes:
        return b"".join([self._line(line) for line in self._reader.feed(data)])

    def end_turn(self) -> Turn:
        self._turn.rest = b"".join([self._line(line) for line in self._reader.close()])
        return self._turn.read()

    def go_on(self) -> bytes:
        out = [self._turn.rest, *(_without_end(line) for line in self._turn.held)]
        self._hidden_usage = plus(self._hidden_usage, only(self._turn.usage, _SUMMED))
        self._gap_due = bool(self._last_text)
        self._continued = True
        self.restart()
        return b"".join(out)

    def restart(self) -> None:
        self._turn, self._reader = _Turn(), LineReader()

    def finish(self) -> bytes:
        held, self._turn.held = self._turn.held, []
        rest, self._turn.rest = self._turn.rest, b""
        return b"".join([rest, *(line.raw for line in held)])

    def fail(self, failure: Failure) -> bytes:
        if self._turn.failed and not self._continued:
            return b""
        return error_body(failure, self._injected_tool) + b"\n"

    def _line(self, line: JsonLine) -> bytes:
        if self._turn.failure is not None:
            return b""
        try:
            document = Document(line.raw)
        except NotJson:
            return line.raw
        members = document.members(document.root)
        if "error" in members:
            self._turn.failed = True
            self._turn.held.clear()
            if not self._continued:
                return line.raw
            self._turn.failure = Failure(None, line.raw, ENDED_IN_AN_ERROR)
            return b""
        message = document.members(members.get("message"))
        hides = self._turn.note(document, members, message, self._injected_tool)
        self._text(document, message)
        if hides:
            hide(document, message, self._injected_tool)
        ends = document.plain(members.get("done")) is True
        if ends:
            sum_usage(document, members, self._hidden_usage)
        changed = line.with_data(document.render().rstrip(b"\r\n")) if document.edits else line.raw
        if self._turn.injected and ends:
            self._turn.held.append(JsonLine(changed))
            return b""
        return changed if ends or not hides or _says(document, message, self._injected_tool) else b""

    def _text(self, document: Document, message: dict[str, Raw]) -> None:
        text = document.string(message.get("content"))
        if not text:
            return
        if self._gap_due and (space := gap(self._last_text, text)):
            document.replace(message["content"], space + text)
        self._last_text, self._gap_due = text, False


@dataclass(slots=True)
class _Turn:
    """What was said so far in the current turn."""

    content: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: list[bytes] = field(default_factory=list)
    injected: list[InjectedCall] = field(default_factory=list)
    real_calls: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    held: list[JsonLine] = field(default_factory=list)
    reason: str = ""
    finished: bool = False
    failed: bool = False
    failure: Failure | None = None
    rest: bytes = b""

    def note(
        self, document: Document, members: dict[str, Raw], message: dict[str, Raw], injected_tool: str
    ) -> bool:
        """Keep what a piece says; whether something in it is not for the client."""
        self.content.append(document.string(message.get("content")) or "")
        self.thinking.append(document.string(message.get("thinking")) or "")
        if document.plain(members.get("done")) is True:
            self.finished = True
            self.reason = document.string(members.get("done_reason")) or ""
            self.usage |= only(flat(document.plain(document.root)), _FIGURES)
        hides = False
        for value in document.items(message.get("tool_calls")):
            self.calls.append(document.source(value))
            if not is_phantom(document, value, injected_tool):
                self.real_calls.append(document.string(document.members(value).get("id")) or "")
                self.tokens.append(call_token(document, value))
                continue
            hides = True
            function = document.members(document.members(value).get("function"))
            arguments = document.source(function["arguments"]).decode() if "arguments" in function else "{}"
            self.injected.append(InjectedCall(_identity(document, value), arguments))
        return hides

    def read(self) -> Turn:
        text = "".join(self.content)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if thinking := "".join(self.thinking):
            message["thinking"] = thinking
        source = encode(message)
        if self.calls:
            source = source[:-1] + b',"tool_calls":[' + b",".join(self.calls) + b"]}"
        return Turn(
            # What would have come beside a call, nobody knows.
            message=source if (self.finished if self.calls else text) else None,
            injected=tuple(self.injected),
            real_calls=tuple(self.real_calls),
            tokens=tuple(self.tokens),
            text=text,
            finished=self.finished,
            failed=self.failed,
            failure=self.failure,
            continuable=self.reason in ("", "stop"),
            usage=self.usage,
        )


class OllamaBody(WholeResponse):
    """An answer that arrives as one JSON document."""

    def __init__(self, injected_tool: str) -> None:
        super().__init__(injected_tool)
        self._shown = ""
        self._turn = Turn()

    def end_turn(self) -> Turn:
        turn = _Turn()
        try:
            document = Document(bytes(self._body))
        except NotJson:
            self._turn = Turn()
            return self._turn
        members = document.members(document.root)
        turn.failed = "error" in members
        turn.note(document, members, document.members(members.get("message")), self._injected_tool)
        self._turn = turn.read()
        return self._turn

    def go_on(self) -> bytes:
        if text := self._turn.text:
            self._shown += gap(self._shown, text) + text
        self._hidden_usage = plus(self._hidden_usage, only(self._turn.usage, _SUMMED))
        return super().go_on()

    def finish(self) -> bytes:
        body = bytes(self._body)
        if not self._turn.finished:
            return body
        document = Document(body)
        members = document.members(document.root)
        message = document.members(members.get("message"))
        hide(document, message, self._injected_tool)
        if self._shown and "content" in message:
            text = document.string(message["content"]) or ""
            document.replace(
                message["content"], self._shown + (gap(self._shown, text) + text if text else "")
            )
        sum_usage(document, members, self._hidden_usage)
        return document.render()

    def fail(self, failure: Failure) -> bytes:
        return error_body(failure, self._injected_tool)


def is_phantom(document: Document, call: Raw, injected_tool: str) -> bool:
    """Whether a call is one of the injected tool."""
    function = document.members(document.members(call).get("function"))
    return document.string(function.get("name")) == injected_tool


def hide(document: Document, message: dict[str, Raw], injected_tool: str) -> None:
    """Take the injected tool's calls out of a message."""
    items = document.items(message.get("tool_calls"))
    kept = [document.source(item) for item in items if not is_phantom(document, item, injected_tool)]
    if len(kept) == len(items):
        return
    if not kept:
        document.remove_member(message["tool_calls"])
        return
    start, end = document.place(message["tool_calls"])
    document.edits.append(Edit(start, end, b"[" + b",".join(kept) + b"]"))


def sum_usage(document: Document, members: dict[str, Raw], hidden: dict[str, int]) -> None:
    """Output of all turns, input of the last."""
    for name in _SUMMED:
        number = document.plain(members.get(name))
        if isinstance(number, int) and hidden.get(name):
            document.replace(members[name], added({name: number}, hidden)[name])


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours."""
    return encode({"error": told(failure, injected_tool).message})


def _identity(document: Document, call: Raw) -> str:
    """Name and id of a call, as its result repeats them; JSON."""
    members = document.members(call)
    function = document.members(members.get("function"))
    named = {"tool_name": document.string(function.get("name"))}
    if call_id := document.string(members.get("id")):
        named["tool_call_id"] = call_id
    return encode(named).decode()


def _says(document: Document, message: dict[str, Raw], injected_tool: str) -> bool:
    """Whether a piece tells the client something."""
    texts = (document.string(message.get(name)) for name in ("content", "thinking"))
    calls = document.items(message.get("tool_calls"))
    return any(texts) or any(not is_phantom(document, call, injected_tool) for call in calls)


def _without_end(line: JsonLine) -> bytes:
    """What a held line still has to say when the answer goes on; empty if that is nothing."""
    document = Document(line.raw)
    members = document.members(document.root)
    if not _says(document, document.members(members.get("message")), ""):
        return b""
    kept = {
        name: document.source(members[name]) for name in ("model", "created_at", "message") if name in members
    }
    pieces = [encode(name) + b":" + value for name, value in kept.items()]
    return line.with_data(b"{" + b",".join(pieces) + b',"done":false}')
