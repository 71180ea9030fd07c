"""This module has the format of OpenAI Chat Completions and of compatible APIs.

A tool result is a message of role `tool` (or `function`, the legacy form). Its content is a string or a list
of parts. Only strings and `text` parts are shortened. A result without an id answers the first call that has
no result. If the result names a tool, only calls of this tool count.

A stream is a list of chunks. A chunk has deltas of choices. Tool calls arrive in fragments with an index. The
fragments of the injected tool are removed, and the other calls get new numbers. A call is delayed as long as
its name may be the beginning of the injected tool's name. After a call of the injected tool, everything that
ends a turn (finish reason, usage, `[DONE]`) is delayed. A response with several choices is not continued. The
client sees the texts of two turns as one text, with white space between them.

For later requests, an assistant message is assembled from its deltas. Compatible APIs add members of their
own (`reasoning_content`, `reasoning_details`, thought signatures in tool calls) and expect them in later
requests. Therefore all members of the deltas are kept, except members that no request may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Raw

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Event, Hidden, InjectedCall, Tool, Tools, Turn, Visible, called_as
from penumbra.apis.call_arguments import CallArguments, EditedCall, edit_value
from penumbra.apis.message_pieces import Seam, take_out_calls
from penumbra.apis.parts import OpenCalls, ToolCall, is_telling, short_hash, text_values
from penumbra.apis.prompt import Kind, Message, Part
from penumbra.apis.responses import Responses
from penumbra.apis.turns import Framing, Turns, growing
from penumbra.apis.upstream_error import openai_error
from penumbra.apis.usage import EndingTable, UsageTable
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode, encode

_NOT_RETURNED = ("annotations", "audio", "index")
_SET_ONCE = ("id", "type", "index")
_SHAPES = {"function": "arguments", "custom": "input"}
"""The kinds of calls, and the member of each that has the arguments."""


@dataclass(slots=True)
class ChatCall:
    """A `ChatCall` is one tool call, assembled from its fragments."""

    members: dict[str, Any] = field(default_factory=dict)
    """The members of all fragments, except a function's arguments."""
    pieces: list[str] = field(default_factory=list)
    """Pieces of a function's arguments."""
    is_real: bool | None = None
    """True for another tool, False for the injected tool, None as long as the name may be of either."""
    shown: int | None = None
    """The number of the call in the events that the client gets."""
    waiting: list[bytes] = field(default_factory=list)
    """The JSON of fragments that were not sent to the client yet."""

    @property
    def name(self) -> str:
        return str(self._described().get("name") or "")

    @property
    def id(self) -> str:
        return str(self.members.get("id") or "")

    @property
    def arguments(self) -> str:
        """The arguments of a function, or the input of a custom tool, as the model wrote them."""
        return "".join(self.pieces) or str(self._described().get("input") or "")

    @property
    def is_complete(self) -> bool:
        """Return whether the arguments are a whole JSON object."""
        return _object_text(self.arguments) == self.arguments != ""

    def add(self, fragment: dict[str, Any]) -> None:
        for key, value in fragment.items():
            if key == "function" and isinstance(value, dict):
                function = self.members.setdefault("function", {})
                for inner, piece in value.items():
                    if inner == "arguments" and piece is not None:
                        self.pieces.append(piece if isinstance(piece, str) else encode(piece).decode())
                    elif piece is not None and not (inner == "name" and function.get("name") == piece):
                        _merge(function, inner, piece)
            elif value is not None:
                _merge(self.members, key, value)

    def decide(self, injected_tool: str, is_named: bool) -> None:
        """Set `is_real`, if the name is known. `is_named` is true if the last fragment has a piece of the
        name."""
        names = called_as(injected_tool)
        if self.name in names:
            self.is_real = False
        elif not self.is_real and (is_named or self.name):
            may_go_on = is_named and any(name.startswith(self.name) for name in names)
            self.is_real = None if may_go_on else True

    def whole(self) -> dict[str, Any]:
        """Return the JSON value of the call for a later request."""
        call = {key: value for key, value in self.members.items() if key != "index"}
        call.setdefault("type", "function")
        if call["type"] == "function":
            call["function"] = {**self._described(), "arguments": _object_text(self.arguments)}
        return call

    def _described(self) -> dict[str, Any]:
        function = self.members.get("function") or self.members.get("custom")
        return function if isinstance(function, dict) else {}


@dataclass(slots=True)
class ChatMessage:
    """A `ChatMessage` is the message of one choice, assembled from its deltas."""

    calls: list[ChatCall] = field(default_factory=list)
    """The tool calls in the order of their beginnings."""
    _members: dict[str, Any] = field(default_factory=dict)
    _content: list[Any] = field(default_factory=list)
    """The pieces of text, or the content parts."""
    _at: dict[int, ChatCall] = field(default_factory=dict)
    """The latest call of each index. Some providers use one index, or one id, for several calls."""

    @property
    def text(self) -> str:
        return "".join([part if isinstance(part, str) else _part_text(part) for part in self._content])

    def add(self, delta: dict[str, Any]) -> None:
        """Add a delta. Fragments of calls in the delta are ignored."""
        for key, value in delta.items():
            if key == "content":
                self._content += value if isinstance(value, list) else [value] if value is not None else []
            elif key not in ("role", "tool_calls") and value is not None:
                _merge(self._members, key, value)

    def add_call(self, fragment: dict[str, Any]) -> ChatCall:
        index, call_id, function = fragment.get("index"), fragment.get("id"), fragment.get("function")
        last = self.calls[-1] if self.calls else None
        call = self._at.get(index) if isinstance(index, int) else last
        if call is not None and call_id and call.id and call_id != call.id:
            call = next((other for other in self.calls if other.id == call_id), None)
        function = function if isinstance(function, dict) else {}
        name, begins = function.get("name"), str(function.get("arguments") or "").startswith("{")
        if (
            call is None
            or is_another(name, call.name, begun=any(call.pieces))
            or (name and begins and call.is_complete)
        ):
            self.calls.append(call := ChatCall())
        if isinstance(index, int):
            self._at[index] = call
        call.add(fragment)
        return call

    def json(self) -> bytes | None:
        """Return the JSON of the message for a later request; None if the message is empty."""
        if not any(self._content) and not self.calls and not self._members:
            return None
        content: Any = self.text if self._content else None
        if not all(isinstance(part, str) for part in self._content):
            pieces = filter(None, self._content)
            content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in pieces]
        if not content and self.calls:
            content = None
        members = {key: value for key, value in self._members.items() if key not in _NOT_RETURNED}
        message: dict[str, Any] = {"role": "assistant", "content": content, **members}
        if self.calls:
            message["tool_calls"] = [call.whole() for call in self.calls]
        return encode(message)


def is_another(name: object, before: str, *, begun: bool) -> bool:
    """Return whether a fragment with this name begins a new call. The last call is named `before`. If it has
    arguments (`begun`), its name is complete."""
    return begun and bool(name) and name != before


def call_token(name: str, arguments: str) -> str:
    """Return a hash of a call. Equal arguments in another spelling of JSON have the same hash."""
    try:
        return short_hash(name, decode(arguments.encode("utf-8", "surrogatepass")))
    except NotJson:
        return short_hash(name, arguments)


def merged(fragments: list[dict[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for fragment in fragments:
        for key, value in fragment.items():
            _merge(whole, key, dict(value) if isinstance(value, dict) else value)
    return whole


def _merge(target: dict[str, Any], key: str, value: Any) -> None:
    have = target.get(key)
    if isinstance(value, str) and isinstance(have, str):
        target[key] = have if key in _SET_ONCE else have + value
    elif isinstance(value, list) and isinstance(have, list):
        for item in value:
            _merge_item(have, item)
    elif isinstance(value, dict) and isinstance(have, dict):
        for inner, piece in value.items():
            if piece is not None:
                _merge(have, inner, piece)
    else:
        target[key] = list(value) if isinstance(value, list) else value


def _merge_item(items: list[Any], item: Any) -> None:
    """Add an item to a list. If the last item has the same key, the two are merged."""
    last = items[-1] if items else None
    if not isinstance(item, dict) or not isinstance(last, dict) or _number(item) != _number(last):
        items.append(item)
        return
    items[-1] = merged = dict(last)
    for key, value in item.items():
        if value is not None and not (key == "format" and merged.get(key) == value):
            _merge(merged, key, value)


def _number(item: dict[str, Any]) -> object:
    """Return the key of an item, which all its pieces have. Without an index, each piece has its own key."""
    return (item["index"], item.get("type")) if "index" in item else object()


def _part_text(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    return text if isinstance(text, str) else ""


def _object_text(text: str) -> str:
    """Return the arguments if they are a JSON object; otherwise `{}`, because other values break the prompt
    templates of some providers."""
    try:
        return text if isinstance(decode(text.encode("utf-8", "surrogatepass")), dict) else "{}"
    except NotJson:
        return "{}"


class ChatFormat(ApiFormat):
    """The format of bodies of `/chat/completions`."""

    names_calls = False
    error_body = staticmethod(openai_error)

    def message(self, document: Document, value: Raw, turn: int = 0) -> Message:
        members = document.members(value)
        role = document.text_of(members.get("role"))
        texts = tuple(text_values(document, members.get("content")))
        parts: list[Part] = []
        if role in ("tool", "function"):
            call_id, name = (document.text_of(members.get(key)) for key in ("tool_call_id", "name"))
            parts.append(Part(Kind.RESULT, value, call_id, name, texts=texts))
        else:
            parts += (Part(Kind.TEXT, text, texts=(text,)) for text in texts)
            parts += _calls(document, members)
        return Message(value, turn, role, role == "assistant", tuple(parts))

    def answered(self, result: Part, by_id: Mapping[str, ToolCall], waiting: OpenCalls) -> ToolCall | None:
        if result.id:
            return by_id.get(result.id)
        return waiting.first_named(result.name) if result.name else waiting.first()

    def tokens(self, document: Document, calls: list[Part]) -> tuple[str, ...]:
        # Unique ids need no tokens.
        if all(is_telling(part.id) for part in calls):
            return ()
        return tuple(call_token(part.name, _arguments_text(document, part.arguments)) for part in calls)

    def tools(self, request: Document) -> Tools:
        top = request.top
        names = []
        for item in request.items(top.get("tools")):
            tool = request.members(item)
            described = request.members(tool.get("function")) or request.members(tool.get("custom"))
            names.append(request.text_of(described.get("name")))
        choices = request.plain(top.get("n"))
        return Tools(tuple(names), len(names), _forced(request, top), choices in (None, 1))

    def declare(self, request: Document, tool: Tool) -> None:
        declaration = b'{"type":"function","function":' + tool.declared("parameters") + b"}"
        request.append(request.top["tools"], declaration)

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"role": "tool", "tool_call_id": call.id, "content": text})

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        message, last = self.prompt(request).messages[visible.index], hidden.last
        mark = request.members(message.value).get("cache_control")
        if last and mark is not None:
            last = last[:-1] + b',"cache_control":' + request.source(mark) + b"}"
        texts = [*hidden.before, *([last] if last else []), *hidden.results]
        return self.replace_run(request, [message], texts)


def _calls(document: Document, message: Mapping[str, Raw]) -> Iterator[Part]:
    yield from (_call(document, value) for value in document.items(message.get("tool_calls")))
    if legacy := document.members(message.get("function_call")):
        name = document.text_of(legacy.get("name"))
        value = message["function_call"]
        yield Part(Kind.CALL, value, "", name, legacy.get("arguments"), counts=False)


def _call(document: Document, value: Raw) -> Part:
    call = document.members(value)
    function = document.members(call.get("function"))
    described = function or document.members(call.get("custom"))
    arguments = described.get("arguments", described.get("input"))
    call_id, name = document.text_of(call.get("id")), document.text_of(described.get("name"))
    return Part(Kind.CALL, value, call_id, name, arguments, is_text=bool(described) and not function)


def _arguments_text(document: Document, arguments: Raw | None) -> str:
    """Return a call's arguments: the string, or the JSON of another value; empty without arguments."""
    text = document.string(arguments)
    return text if text is not None else document.source(arguments).decode() if arguments is not None else ""


def _forced(request: Document, top: dict[str, Raw]) -> bool:
    choice = request.plain(top.get("tool_choice"))
    if isinstance(choice, dict):
        allowed = choice.get("allowed_tools")
        return not isinstance(allowed, dict) or allowed.get("mode") == "required"
    return choice in ("required", "any")


USAGE = UsageTable(
    inputs=("prompt_tokens", "prompt_tokens_details", "prompt_cache_hit_tokens", "prompt_cache_miss_tokens"),
    outputs=("completion_tokens",),
    total="total_tokens",
    in_total=("prompt_tokens",),
)
ENDS = EndingTable(reasons=(("finish_reason",),), choices="choices")
_DONE = b"[DONE]"
_HEAD = ("id", "created")
_NO_CONTINUATION = ("content_filter",)


class ChatTurns(Turns):
    """The turns of a response in chunks, or in one document."""

    usage = USAGE
    ends = ENDS
    error_body = staticmethod(openai_error)
    grows = growing(
        rb'\{(?>[^\n]*?"delta":\{)(?:"content"|"tool_calls":\[\{"index":\d+,"function":\{"arguments"):',
        rb'(?P<tail>"\}[^\n{]*?(?:\}|"obfuscation": ?"))[\w-]*(?P<end>"?\}?\n\n)',
    )

    def __init__(self, framing: Framing, injected_tool: str, before: str = "") -> None:
        self._head: dict[str, bytes] = {}
        """The members of the first chunk, as JSON, that all chunks of a message have in common."""
        self._calls_shown = 0
        self._seam = Seam()
        self._shown = ""
        """The text of the earlier turns. Each turn was a document."""
        super().__init__(framing, injected_tool, before)

    def begin_turn(self) -> None:
        self.message = ChatMessage()
        self.choices: set[int] = set()
        self.reason = ""

    def hide_turn(self) -> None:
        self._seam.due = True

    def hides(self) -> bool:
        return any(not call.is_real for call in self.message.calls)

    @property
    def _hides_calls(self) -> bool:
        return any(call.is_real is False for call in self.message.calls)

    def turn(self) -> Turn:
        message, real = self.message, [call for call in self.message.calls if call.is_real is not False]
        hidden = [call for call in message.calls if call.is_real is False]
        return Turn(
            # After a cut, the last call may be incomplete.
            message=message.json() if self.finished or not message.calls else None,
            injected=tuple([InjectedCall(call.id, call.arguments) for call in hidden]),
            real_calls=tuple([call.id for call in real]),
            tokens=tuple([call_token(call.name, call.arguments) for call in real]),
            text=message.text,
            finished=self.finished,
            continuable=len(self.choices) <= 1 and self.reason not in _NO_CONTINUATION,
        )

    def is_error(self, event: Event) -> bool:
        return event.document is not None and bool(event.document.plain(event.members.get("error")))

    def no_json(self, event: Event) -> Iterable[Event]:
        if (event.piece.data or b"").strip() != _DONE:
            return (event,)
        self.finished = True
        return self.delay(event) if self._hides_calls else (event,)

    def read(self, event: Event, document: Document) -> Iterable[Event]:
        choices = [document.members(item) for item in document.items(event.members.get("choices"))]
        usage = bool(document.plain(event.members.get("usage")))
        ends = usage and not choices
        visible = False
        for choice in choices:
            if (reason := document.string(choice.get("finish_reason"))) is not None:
                self.reason, self.finished, ends = reason, True, True
            visible |= self._delta(document, choice)
        self.note_usage(document, document.root)
        self._one_message(document, event.members)
        if ends and self._hides_calls:
            return self.delay(event)
        self.usage.add(document, document.root, self.hidden_usage, {})
        ends |= usage and self.continued
        return () if choices and not visible and not ends and document.edits else (event,)

    def _one_message(self, document: Document, members: dict[str, Raw]) -> None:
        """In a chunk of a later turn, set the id and time of the first turn."""
        if not self._head:
            self._head = {name: document.source(members[name]) for name in _HEAD if name in members}
        for name in self._head.keys() & members.keys() if self.continued else ():
            document.replace(members[name], decode(self._head[name]))

    def _delta(self, document: Document, choice: dict[str, Raw]) -> bool:
        """Store a delta, and remove the injected tool's calls from it. Return False if nothing is left for
        the client."""
        delta = choice.get("delta")
        fields = document.plain(delta)
        if delta is None or not isinstance(fields, dict):
            return False
        index = document.plain(choice.get("index"))
        self.choices.add(index if isinstance(index, int) else 0)
        self.message.add(fields)
        old = {key: document.source(value) for key, value in document.members(delta).items()}
        new = dict(old)
        if self.continued:
            new.pop("role", None)
        if (
            isinstance(content := fields.get("content"), str)
            and (joined := self._seam.join(content)) != content
        ):
            new["content"] = encode(joined)
        items = document.items(document.members(delta).get("tool_calls"))
        kept = self._tool_calls(document, items)
        if document.plain(choice.get("finish_reason")) is not None:
            for call in self.message.calls:
                call.is_real = call.is_real is not False
                kept += self._release(call)
        if kept != [document.source(item) for item in items]:
            new.pop("tool_calls", None)
            new |= {"tool_calls": b"[" + b",".join(kept) + b"]"} if kept else {}
        if new != old:
            members = b",".join(encode(key) + b":" + value for key, value in new.items())
            document.rewrite(delta, b"{" + members + b"}")
        return any(value not in (b"null", b'""', b"[]") for value in new.values())

    def _tool_calls(self, document: Document, items: list[Raw]) -> list[bytes]:
        kept: list[bytes] = []
        for item in items:
            fragment = document.plain(item)
            if not isinstance(fragment, dict):
                kept.append(document.source(item))
                continue
            function = fragment.get("function") or fragment.get("custom")
            call = self.message.add_call(fragment)
            call.waiting.append(document.source(item))
            call.decide(self.injected_tool, isinstance(function, dict) and bool(function.get("name")))
            if call.is_real is not None:
                self.hidden_names.note([call.id], hidden=not call.is_real)
            kept += self._release(call)
        return kept

    def _release(self, call: ChatCall) -> list[bytes]:
        """Return the delayed fragments of a call that the client may get now."""
        if not call.is_real:
            return []
        pieces, call.waiting = call.waiting, []
        if call.shown is None:
            call.shown = self._calls_shown
            self._calls_shown += 1
        if len(pieces) > 1:
            pieces = [encode(merged([decode(piece) for piece in pieces]))]
        if not self.continued and not self._hides_calls:
            return pieces
        return [_numbered(piece, call.shown) for piece in pieces]

    def put_right(self, event: Event) -> None:
        document = event.document
        if document is None:
            return
        for item in document.items(event.members.get("choices")):
            if not any(call.is_real is not False for call in self.message.calls):
                _stop(document, document.members(item))
        self.usage.add(document, document.root, self.hidden_usage, {})

    def without_end(self, event: Event) -> Event | None:
        document = event.document
        if document is None or not _says(document):
            return None
        if "usage" in event.members:
            document.remove_member(event.members["usage"])
        for item in document.items(event.members.get("choices")):
            choice = document.members(item)
            if "finish_reason" in choice:
                document.replace(choice["finish_reason"], None)
        return event

    # Documents

    def read_whole(self, document: Document) -> Turn:
        members = document.top
        choices = [document.members(item) for item in document.items(members.get("choices"))]
        if not choices:
            return Turn(failed="error" in members)
        calls = [_call(document, item) for item in _call_items(document)]
        real = [call for call in calls if call.name not in self.called_as]
        hidden = [call for call in calls if call.name in self.called_as]
        message = _one_message(document, choices)
        reason = document.string(choices[0].get("finish_reason"))
        return Turn(
            message=_message(document, message),
            injected=tuple(
                [InjectedCall(call.id, _arguments_text(document, call.arguments)) for call in hidden]
            ),
            real_calls=tuple([call.id for call in real]),
            tokens=tuple([call_token(call.name, _arguments_text(document, call.arguments)) for call in real]),
            text=_text(document),
            finished=True,
            continuable=_is_one(document, choices) and reason not in _NO_CONTINUATION,
        )

    def keep(self, document: Document) -> None:
        self._shown += self._seam.join(_text(document))

    def put_together(self, document: Document) -> None:
        for number, item in enumerate(document.items(document.top.get("choices"))):
            choice = document.members(item)
            message = document.members(choice.get("message"))
            items = document.items(message.get("tool_calls"))
            take_out_calls(document, message, partial(self._is_hidden, document))
            if items and all(self._is_hidden(document, item) for item in items):
                _stop(document, choice)
            if self._shown and not number:
                self._put_text(document, choice, message)

    def _put_text(self, document: Document, choice: dict[str, Raw], message: dict[str, Raw]) -> None:
        """Insert the text of earlier turns before the text of the last turn."""
        content = message.get("content")
        whole = self._shown + self._seam.join(document.text_of(content))
        if content is not None:
            document.replace(content, whole)
        elif message:
            document.add_member(choice["message"], "content", encode(whole))

    def _is_hidden(self, document: Document, item: Raw) -> bool:
        return _call(document, item).name in self.called_as


def _call_items(document: Document) -> Iterator[Raw]:
    for item in document.items(document.top.get("choices")):
        message = document.members(document.members(item).get("message"))
        yield from document.items(message.get("tool_calls"))


def _says(document: Document) -> bool:
    """Return whether an event that ends a turn also has content for the client."""
    choices = map(document.members, document.items(document.top.get("choices")))
    deltas = [document.members(choice.get("delta")) for choice in choices]
    shown = [document.plain(value) for delta in deltas for key, value in delta.items() if key != "role"]
    return any(value not in (None, "", []) for value in shown)


def _stop(document: Document, choice: dict[str, Raw]) -> None:
    """Replace the finish reason `tool_calls`. The caller has checked that the client gets no calls."""
    reason = choice.get("finish_reason")
    if reason is not None and document.string(reason) == "tool_calls":
        document.replace(reason, "stop")


def _numbered(fragment: bytes, index: int) -> bytes:
    document = Document(fragment)
    number = document.top.get("index")
    if number is not None and document.plain(number) != index:
        document.replace(number, index)
    return document.render()


def _text(document: Document) -> str:
    choices = [document.members(item) for item in document.items(document.top.get("choices"))]
    return document.text_of(_one_message(document, choices).get("content")) if choices else ""


def _is_one(document: Document, choices: list[dict[str, Raw]]) -> bool:
    """Return whether all choices have the same number. Some APIs divide one message into two choices."""
    return len({encode(document.plain(choice.get("index"))) for choice in choices}) == 1


def _one_message(document: Document, choices: list[dict[str, Raw]]) -> dict[str, Raw]:
    """Return the message of a response. A message that is split into several choices is joined."""
    message: dict[str, Raw] = {}
    for choice in choices if _is_one(document, choices) else choices[:1]:
        members = document.members(choice.get("message"))
        message |= {
            key: value
            for key, value in members.items()
            if key not in message or document.plain(message[key]) in (None, "")
        }
    return message


def _message(document: Document, message: dict[str, Raw]) -> bytes | None:
    """Return a message as JSON for a later request; None if the message is empty. Arguments that are no JSON
    object are replaced."""
    calls = document.items(message.get("tool_calls"))
    if all(_has_object(document, item) for item in calls):
        kept = {
            key: document.source(value)
            for key, value in message.items()
            if key not in _NOT_RETURNED and (key == "content" or bytes(value) != b"null")
        }
        kept.setdefault("role", b'"assistant"')
        if set(kept) <= {"role", "content"} and kept.get("content", b"null") in (b"null", b'""'):
            return None
        return b"{" + b",".join([encode(key) + b":" + value for key, value in kept.items()]) + b"}"
    rebuilt = ChatMessage()
    rebuilt.add({key: document.plain(value) for key, value in message.items()})
    for item in calls:
        if isinstance(fragment := document.plain(item), dict):
            rebuilt.add_call(fragment)
    return rebuilt.json()


def _has_object(document: Document, call: Raw) -> bool:
    """Return whether the arguments of a call are a JSON object, or are missing."""
    text = document.string(document.members(document.members(call).get("function")).get("arguments"))
    return _object_text(text or "{}") == (text or "{}")


class ChatArguments(CallArguments):
    """The filter for chunks. Calls are identified by their choice and index."""

    def no_json(self, event: Event) -> Iterable[Event]:
        return (event,) if event.piece.data is None else (*self.close(), event)

    def blocks(self, document: Document) -> Iterable[Raw]:
        return _call_items(document)

    def parts(self, document: Document, block: Raw) -> Iterable[Part]:
        return (_call(document, block),)

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        before: list[Event] = []
        for item in document.items(event.members.get("choices")):
            choice = document.members(item)
            number = document.plain(choice.get("index"))
            before += self._choice(event, document, choice, number if isinstance(number, int) else 0)
        return before

    def _choice(self, event: Event, document: Document, choice: dict[str, Raw], number: int) -> list[Event]:
        """Edit one choice of a chunk. Return the events to send before the chunk."""
        ends = document.plain(choice.get("finish_reason")) is not None
        fragments: dict[tuple[int, int], list[Raw]] = {}
        for at, item in enumerate(document.items(document.members(choice.get("delta")).get("tool_calls"))):
            index = document.plain(document.members(item).get("index"))
            key = (number, index if isinstance(index, int) else at)
            fragments.setdefault(key, []).append(item)
        over = [key for key in self._calls if isinstance(key, tuple) and key[0] == number]
        over = [key for key in over if key not in fragments]
        before = self._flush(over if ends or fragments else [])
        for key, items in fragments.items():
            for item in items:
                last = ends and item is items[-1]
                before += self._fragment(event, document, document.members(item), key, last=last)
        return before

    def _fragment(
        self, event: Event, document: Document, item: dict[str, Raw], key: tuple[int, int], *, last: bool
    ) -> list[Event]:
        call_id = document.text_of(item.get("id"))
        call = self._calls.get(key)
        shape = "custom" if "custom" in item else "function"
        made = document.members(item.get(shape))
        name = document.text_of(made.get("name"))
        # Some providers use one index for several calls.
        before: list[Event] = []
        if call is not None and (
            (call_id and call.id and call_id != call.id) or is_another(name, call.name, begun=call.opened)
        ):
            before, call = self._flush([key]), None
        if call is None:
            call = self._calls[key] = EditedCall(id=call_id)
        call.name += "" if name == call.name else name
        value = made.get(_SHAPES[shape])
        if value is None or not call.name:
            return before
        text = document.string(value)
        if text is None:
            edit_value(document, value, self._open(call.name, freeform=shape == "custom"))
        elif text or call.opened:
            if not call.opened:
                call.opened, call.arguments = True, self._open(call.name, freeform=shape == "custom")
            new = call.feed(event, text, partial(_only, key, shape))
            if last:
                new += call.finish()
                del self._calls[key]
            if new != text:
                document.replace(value, new)
        return before


def _only(key: tuple[int, int], shape: str, document: Document, text: str) -> None:
    """Reduce a copy of a chunk to `text`, the arguments of one call."""
    members = document.top
    call = {"index": key[1], shape: {_SHAPES[shape]: text}}
    choice = {"index": key[0], "delta": {"tool_calls": [call]}, "finish_reason": None}
    document.replace(members["choices"], [choice])
    if "usage" in members:
        document.replace(members["usage"], None)


RESPONSES = Responses(ChatTurns, ChatArguments, keep_alive=b": keep-alive\n\n")
