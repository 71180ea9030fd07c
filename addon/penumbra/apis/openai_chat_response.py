"""OpenAI Chat Completions: answers, as streams and as JSON, also as the many compatible APIs write them.

A stream is a list of chunks, each with deltas per choice. Tool calls arrive in fragments with an
index; the injected tool's fragments are taken out and the other calls numbered anew. A call whose name is
only a beginning of the injected tool's name is held until its next fragment decides. Everything that ends
a turn (finish reason, usage, `[DONE]`) is held back once a call of the injected tool was seen.

Only an answer with one choice can be continued. Where the client sees the text of several turns as
one text, an empty line stands between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Failure, InjectedCall, Turn
from penumbra.apis.message_pieces import gap
from penumbra.apis.openai_chat_message import Message, call_token, from_members, merged
from penumbra.apis.upstream_error import told
from penumbra.apis.usage import added, flat, only, plus
from penumbra.apis.whole_response import WholeResponse
from penumbra.wire.document import Document, Edit, NotJson, decode, encode
from penumbra.wire.sse import SseEvent, SseReader, event_bytes

_DONE = b"[DONE]"
_SUMMED = ("completion_tokens",)
_HEAD = ("id", "created")
_NO_CONTINUATION = ("content_filter",)


class ChatStream:
    """An answer that arrives as server-sent events."""

    keep_alive = b": keep-alive\n\n"

    def __init__(self, injected_tool: str) -> None:
        self._injected_tool = injected_tool
        self._reader = SseReader()
        self._head: dict[str, bytes] = {}
        """Members that make all chunks one message, as the first chunk has them; JSON."""
        self._calls_shown = 0
        self._last_text = ""
        self._gap_due = False
        self._hidden_usage: dict[str, int] = {}
        self._continued = False
        self._turn = _StreamTurn()

    @property
    def holding(self) -> bool:
        return bool(self._turn.held) or any(not call.real for call in self._turn.calls.values())

    def feed(self, data: bytes) -> bytes:
        return b"".join([self._event(event) for event in self._reader.feed(data)])

    def end_turn(self) -> Turn:
        self._turn.rest = b"".join([self._event(event) for event in self._reader.close()])
        return self._turn.read()

    def go_on(self) -> bytes:
        out = [self._turn.rest]
        out += [event.with_data(self._without_end(event.data)) for event in self._turn.held if _says(event)]
        self._hidden_usage = plus(self._hidden_usage, only(self._turn.usage, _SUMMED))
        self._turn, self._reader = _StreamTurn(), SseReader()
        self._continued = True
        self._gap_due = bool(self._last_text)
        return b"".join(out)

    def restart(self) -> None:
        self._turn, self._reader = _StreamTurn(), SseReader()

    def finish(self) -> bytes:
        out = [self._turn.rest, *(self._end(event) for event in self._turn.held)]
        self._turn.held, self._turn.rest = [], b""
        return b"".join(out)

    def fail(self, failure: Failure) -> bytes:
        if self._turn.failed and not self._continued:
            return b""
        return event_bytes("", error_body(failure, self._injected_tool))

    def _event(self, event: SseEvent) -> bytes:
        if self._turn.failure is not None:
            return b""
        if event.data is None:
            return event.raw
        if event.data.strip() == _DONE:
            self._turn.finished = True
            return self._hold(event) if self._turn.injected else event.raw
        try:
            document = Document(event.data)
        except NotJson:
            return event.raw
        value = document.plain(document.root)
        if not isinstance(value, dict):
            return event.raw
        if value.get("error"):
            self._turn.failed = True
            self._turn.held.clear()
            if not self._continued:
                return event.raw
            self._turn.failure = Failure(None, event.data, ENDED_IN_AN_ERROR)
            return b""
        return self._chunk(event, document, value)

    def _chunk(self, event: SseEvent, document: Document, value: dict[str, Any]) -> bytes:
        members = document.members(document.root)
        choices = [document.members(item) for item in document.items(members.get("choices"))]
        self._turn.usage |= flat(value.get("usage"))
        ends = bool(value.get("usage")) and not choices
        visible = False
        for choice in choices:
            ends |= self._turn.note_end(document.plain(choice.get("finish_reason")))
            visible |= self._delta(document, choice)
        self._one_message(document, members)
        if self._turn.injected and ends:
            return self._hold(SseEvent(event.with_data(document.render()), event.name, document.render()))
        if self._continued and members.get("usage") is not None and value.get("usage"):
            document.replace(members["usage"], self._usage(value["usage"]))
            ends = True
        if choices and not visible and not ends and document.edits:
            return b""
        return event.with_data(document.render()) if document.edits else event.raw

    def _one_message(self, document: Document, members: dict[str, Raw]) -> None:
        """Chunks of a continuation carry the id and time of the first turn."""
        if not self._head:
            self._head = {name: document.source(members[name]) for name in _HEAD if name in members}
        elif self._continued:
            for name, source in self._head.items():
                if name in members:
                    document.replace(members[name], decode(source))

    def _delta(self, document: Document, choice: dict[str, Raw]) -> bool:
        """Note what a delta says, and take out what the client must not see. Whether it shows anything."""
        delta = choice.get("delta")
        said = document.plain(delta)
        if delta is None or not isinstance(said, dict):
            return False
        self._turn.note(document.plain(choice.get("index")), said)
        old = {key: document.source(value) for key, value in document.members(delta).items()}
        new = dict(old)
        if self._continued:
            new.pop("role", None)
        if isinstance(content := said.get("content"), str) and content:
            if self._gap_due and (space := gap(self._last_text, content)):
                new["content"] = encode(space + content)
            self._last_text, self._gap_due = content, False
        items = document.items(document.members(delta).get("tool_calls"))
        kept = self._tool_calls(document, items)
        if document.plain(choice.get("finish_reason")) is not None:
            for call in self._turn.calls.values():
                call.real = call.real is not False
                kept += self._release(call)
        if kept != [document.source(item) for item in items]:
            new.pop("tool_calls", None)
            new |= {"tool_calls": b"[" + b",".join(kept) + b"]"} if kept else {}
        if new != old:
            start, end = document.place(delta)
            members = b",".join(encode(key) + b":" + value for key, value in new.items())
            document.edits.append(Edit(start, end, b"{" + members + b"}"))
        return any(value not in (b"null", b'""', b"[]") for value in new.values())

    def _tool_calls(self, document: Document, items: list[Raw]) -> list[bytes]:
        """The fragments that the client gets, with the numbers that it knows."""
        kept: list[bytes] = []
        for item in items:
            fragment = document.plain(item)
            if not isinstance(fragment, dict):
                kept.append(document.source(item))
                continue
            function = fragment.get("function")
            call = self._turn.call(fragment)
            call.waiting.append(document.source(item))
            call.decide(self._injected_tool, isinstance(function, dict) and bool(function.get("name")))
            kept += self._release(call)
        return kept

    def _release(self, call: _Call) -> list[bytes]:
        if not call.real:
            return []
        pieces, call.waiting = call.waiting, []
        if call.shown is None:
            call.shown = self._calls_shown
            self._calls_shown += 1
        if len(pieces) > 1:
            pieces = [encode(merged([decode(piece) for piece in pieces]))]
        if not self._continued and not self._turn.injected:
            return pieces
        return [_numbered(piece, call.shown) for piece in pieces]

    def _hold(self, event: SseEvent) -> bytes:
        self._turn.held.append(event)
        return b""

    def _usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        """Output of all turns, input of the last."""
        summed = added(usage, self._hidden_usage)
        if "total_tokens" in summed and "prompt_tokens" in summed:
            summed["total_tokens"] = summed["prompt_tokens"] + summed.get("completion_tokens", 0)
        return summed

    def _end(self, event: SseEvent) -> bytes:
        """A held event, put right for the end of the message."""
        if event.data is None or event.data.strip() == _DONE:
            return event.raw
        document = Document(event.data)
        members = document.members(document.root)
        for item in document.items(members.get("choices")):
            reason = document.members(item).get("finish_reason")
            if not self._turn.real_calls and reason and document.string(reason) == "tool_calls":
                document.replace(reason, "stop")
        usage = document.plain(members.get("usage"))
        if isinstance(usage, dict) and self._continued:
            document.replace(members["usage"], self._usage(usage))
        return event.with_data(document.render())

    @staticmethod
    def _without_end(data: bytes | None) -> bytes:
        document = Document(data or b"{}")
        members = document.members(document.root)
        if "usage" in members:
            document.remove_member(members["usage"])
        for item in document.items(members.get("choices")):
            choice = document.members(item)
            if "finish_reason" in choice:
                document.replace(choice["finish_reason"], None)
        return document.render()


@dataclass(slots=True)
class _Call:
    """One tool call of a stream."""

    real: bool | None = None
    """None as long as its name may become the injected tool's."""
    name: str = ""
    shown: int | None = None
    waiting: list[bytes] = field(default_factory=list)

    def decide(self, injected_tool: str, named: bool) -> None:
        """`named`: the last fragment said something about the name."""
        if self.name == injected_tool:
            self.real = False
        elif not self.real and (named or self.name):
            self.real = None if named and injected_tool.startswith(self.name) else True


@dataclass(slots=True)
class _StreamTurn:
    calls: dict[int, _Call] = field(default_factory=dict)
    message: Message = field(default_factory=Message)
    held: list[SseEvent] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    choices: set[int] = field(default_factory=set)
    reason: str = ""
    finished: bool = False
    failed: bool = False
    failure: Failure | None = None
    rest: bytes = b""

    @property
    def injected(self) -> bool:
        return any(call.real is False for call in self.calls.values())

    @property
    def real_calls(self) -> bool:
        return any(call.real is not False for call in self.calls.values())

    def note_end(self, reason: Any) -> bool:
        if isinstance(reason, str):
            self.reason, self.finished = reason, True
        return isinstance(reason, str)

    def note(self, index: Any, said: dict[str, Any]) -> None:
        self.choices.add(index if isinstance(index, int) else 0)
        self.message.add(said)

    def call(self, fragment: dict[str, Any]) -> _Call:
        """The call that a fragment belongs to. The message has noted the fragment already."""
        number = self.message.number(fragment)
        call = self.calls.setdefault(number, _Call())
        call.name = self.message.call_name(number)
        return call

    def read(self) -> Turn:
        ids = {number: self.message.call_id(number) for number in self.calls}
        injected = [number for number, call in self.calls.items() if call.real is False]
        real = [number for number, call in self.calls.items() if call.real is not False]
        names = {number: self.message.call_name(number) for number in real}
        return Turn(
            # Of a call that breaks off nobody knows what it should have been.
            message=self.message.json() if self.finished or not self.calls else None,
            injected=tuple(InjectedCall(ids[n], self.message.call_arguments(n)) for n in injected),
            real_calls=tuple(ids[n] for n in real),
            tokens=tuple(call_token(names[n], self.message.call_arguments(n)) for n in real),
            text=self.message.text,
            finished=self.finished,
            failed=self.failed,
            failure=self.failure,
            continuable=len(self.choices) <= 1 and self.reason not in _NO_CONTINUATION,
            usage=self.usage,
        )


def _says(event: SseEvent) -> bool:
    """Whether an event that ends a turn also carries something that the client is to see."""
    if event.data is None or event.data.strip() == _DONE:
        return False
    choices = decode(event.data).get("choices") or []
    deltas = [choice.get("delta") or {} for choice in choices if isinstance(choice, dict)]
    said = [value for delta in deltas for key, value in delta.items() if key != "role"]
    return any(value not in (None, "", []) for value in said)


def _numbered(fragment: bytes, index: int) -> bytes:
    document = Document(fragment)
    number = document.members(document.root).get("index")
    if number is not None and document.plain(number) != index:
        document.replace(number, index)
    return document.render()


class ChatBody(WholeResponse):
    """An answer that arrives as one JSON document."""

    def __init__(self, injected_tool: str) -> None:
        super().__init__(injected_tool)
        self._shown = ""
        self._turn = Turn()

    def end_turn(self) -> Turn:
        self._turn = self._read()
        return self._turn

    def go_on(self) -> bytes:
        self._hidden_usage = plus(self._hidden_usage, only(self._turn.usage, _SUMMED))
        if text := self._turn.text:
            self._shown += gap(self._shown, text) + text
        return super().go_on()

    def finish(self) -> bytes:
        body = bytes(self._body)
        if not self._continued and not self._turn.injected:
            return body
        document = Document(body)
        members = document.members(document.root)
        for number, item in enumerate(document.items(members.get("choices"))):
            self._show(document, document.members(item), "" if number else self._shown)
        usage = document.plain(members.get("usage"))
        if isinstance(usage, dict) and self._hidden_usage:
            summed = added(usage, self._hidden_usage)
            if "total_tokens" in summed and "prompt_tokens" in summed:
                summed["total_tokens"] = summed["prompt_tokens"] + summed.get("completion_tokens", 0)
            document.replace(members["usage"], summed)
        return document.render()

    def fail(self, failure: Failure) -> bytes:
        return error_body(failure, self._injected_tool)

    def _show(self, document: Document, choice: dict[str, Raw], shown: str) -> None:
        """Take the injected tool's calls out of a choice, and put the text of earlier turns in."""
        message = document.members(choice.get("message"))
        items = document.items(message.get("tool_calls"))
        kept = [document.source(item) for item in items if not self._is_phantom(document, item)]
        reason = choice.get("finish_reason")
        if len(kept) < len(items):
            if kept:
                start, end = document.place(message["tool_calls"])
                document.edits.append(Edit(start, end, b"[" + b",".join(kept) + b"]"))
            else:
                document.remove_member(message["tool_calls"])
                if reason is not None and document.string(reason) == "tool_calls":
                    document.replace(reason, "stop")
        content = message.get("content")
        text = document.string(content) or ""
        whole = shown + (gap(shown, text) + text if text else "")
        if shown and content is not None:
            document.replace(content, whole)
        elif shown and message:
            document.add_member(choice["message"], "content", encode(whole))

    def _is_phantom(self, document: Document, item: Raw) -> bool:
        return called(document, item)[0] == self._injected_tool

    def _read(self) -> Turn:
        try:
            document = Document(bytes(self._body))
        except NotJson:
            return Turn()
        members = document.members(document.root)
        choices = [document.members(item) for item in document.items(members.get("choices"))]
        if not choices:
            return Turn(failed="error" in members)
        injected: list[InjectedCall] = []
        real_calls: list[str] = []
        tokens: list[str] = []
        for choice in choices:
            message = document.members(choice.get("message"))
            for item in document.items(message.get("tool_calls")):
                call_id = document.string(document.members(item).get("id")) or ""
                name, arguments = called(document, item)
                if name == self._injected_tool:
                    injected.append(InjectedCall(call_id, arguments))
                else:
                    real_calls.append(call_id)
                    tokens.append(call_token(name, arguments))
        message = _one_message(document, choices)
        reason = document.string(choices[0].get("finish_reason"))
        return Turn(
            message=_message(document, message),
            injected=tuple(injected),
            real_calls=tuple(real_calls),
            tokens=tuple(tokens),
            text=document.string(message.get("content")) or "",
            finished=True,
            continuable=_is_one(document, choices) and reason not in _NO_CONTINUATION,
            usage=flat(document.plain(members.get("usage"))),
        )


def _is_one(document: Document, choices: list[dict[str, Raw]]) -> bool:
    """Whether all choices are one: some write text and calls of a message as two of the same number."""
    return len({document.plain(choice.get("index")) for choice in choices}) == 1


def _one_message(document: Document, choices: list[dict[str, Raw]]) -> dict[str, Raw]:
    """The message of an answer; one that is spread over several choices put together."""
    message: dict[str, Raw] = {}
    for choice in choices if _is_one(document, choices) else choices[:1]:
        said = document.members(choice.get("message"))
        message |= {
            key: value
            for key, value in said.items()
            if key not in message or document.plain(message[key]) in (None, "")
        }
    return message


def _message(document: Document, message: dict[str, Raw]) -> bytes | None:
    """The message as a request would carry it; built anew where a call's arguments are no JSON object."""
    for item in document.items(message.get("tool_calls")):
        function = document.members(document.members(item).get("function"))
        try:
            proper = isinstance(decode((document.string(function.get("arguments")) or "{}").encode()), dict)
        except (NotJson, UnicodeEncodeError):
            proper = False
        if not proper:
            rebuilt = Message()
            rebuilt.add({key: document.plain(value) for key, value in message.items()})
            return rebuilt.json()
    return from_members({key: document.source(value) for key, value in message.items()})


def called(document: Document, item: Raw) -> tuple[str, str]:
    """Name and arguments of a call. Arguments are a string of JSON; some write the object itself."""
    call = document.members(item)
    function = document.members(call.get("function")) or document.members(call.get("custom"))
    value = function.get("arguments", function.get("input"))
    text = document.string(value)
    arguments = text if text is not None else document.source(value).decode() if value is not None else ""
    return document.string(function.get("name")) or "", arguments


def error_body(failure: Failure, injected_tool: str) -> bytes:
    """An error object as the API writes it, in words of ours."""
    error = told(failure, injected_tool)
    status = error.status or 502
    kind = error.type if error.type != "error" else ""
    code = error.code or ("rate_limit_exceeded" if status == 429 else None)
    kind = kind or ("invalid_request_error" if status < 500 and status != 429 else "server_error")
    return encode({"error": {"message": error.message, "type": kind, "param": None, "code": code}})
