"""OpenAI Chat Completions, also as the many compatible APIs write it: requests, and the injected tool and
hidden exchanges in them.

A tool result is a message of role `tool` (or `function`, the legacy form); its content is a string
or a list of parts, of which only `text` parts are ours. A result without an id answers the first
call that has none yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Raw

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Hidden, InjectedCall, Tool, Tools, Visible
from penumbra.apis.openai_chat_message import call_token
from penumbra.apis.parts import OpenCalls, ToolCall, is_telling, text_values
from penumbra.apis.prompt import Kind, Message, Part
from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import encode


class ChatFormat(ApiFormat):
    """Bodies of `/chat/completions`."""

    names_calls = False

    def message(self, document: Document, value: Raw, turn: int = 0) -> Message:
        members = document.members(value)
        role = document.string(members.get("role")) or ""
        texts = tuple(text_values(document, members.get("content")))
        parts: list[Part] = []
        if role in ("tool", "function"):
            call_id, name = (document.string(members.get(key)) or "" for key in ("tool_call_id", "name"))
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
        # Only where ids don't tell one conversation from another.
        if all(is_telling(part.id) for part in calls):
            return ()
        return tuple(call_token(part.name, _said(document, part.arguments)) for part in calls)

    def error(self, status: int, message: str) -> bytes:
        kind = "invalid_request_error" if status < 500 else "server_error"
        return encode({"error": {"message": message, "type": kind, "param": None, "code": None}})

    def tools(self, request: Document) -> Tools:
        top = request.members(request.root)
        names = []
        for item in request.items(top.get("tools")):
            tool = request.members(item)
            described = request.members(tool.get("function")) or request.members(tool.get("custom"))
            names.append(request.string(described.get("name")) or "")
        choices = request.plain(top.get("n"))
        return Tools(tuple(names), len(names), _forced(request, top), choices in (None, 1))

    def declare(self, request: Document, tool: Tool) -> None:
        head = encode({"name": tool.name, "description": tool.description})
        function = head[:-1] + b',"parameters":' + tool.parameters + b"}"
        declaration = b'{"type":"function","function":' + function + b"}"
        request.append(request.members(request.root)["tools"], declaration)

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"role": "tool", "tool_call_id": call.id, "content": text})

    def user_message(self, text: str) -> bytes:
        return encode({"role": "user", "content": text})

    def without_calls(self, request: bytes) -> bytes:
        document = Document(request)
        document.set_member(document.root, "tool_choice", b'"none"')
        return document.render()

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        message = self.prompt(request).messages[visible.index].value
        start, end = request.place(message)
        if request.is_edited(start, end):
            return False
        last = hidden.last
        mark = request.members(message).get("cache_control")
        if last and mark is not None:
            last = last[:-1] + b',"cache_control":' + request.source(mark) + b"}"
        texts = [*hidden.before, *([last] if last else []), *hidden.results]
        request.edits.append(Edit(start, end, b",".join(texts)))
        return True


def _calls(document: Document, message: Mapping[str, Raw]) -> Iterator[Part]:
    for value in document.items(message.get("tool_calls")):
        call = document.members(value)
        function = document.members(call.get("function")) or document.members(call.get("custom"))
        arguments = function.get("arguments", function.get("input"))
        call_id, name = document.string(call.get("id")) or "", document.string(function.get("name")) or ""
        yield Part(Kind.CALL, value, call_id, name, arguments)
    if legacy := document.members(message.get("function_call")):
        name = document.string(legacy.get("name")) or ""
        value = message["function_call"]
        yield Part(Kind.CALL, value, "", name, legacy.get("arguments"), counts=False)


def _said(document: Document, arguments: Raw | None) -> str:
    """Arguments as a text: they are a string of JSON; some write the object itself."""
    text = document.string(arguments)
    return text if text is not None else document.source(arguments).decode() if arguments is not None else ""


def _forced(request: Document, top: dict[str, Raw]) -> bool:
    choice = request.plain(top.get("tool_choice"))
    if isinstance(choice, dict):
        allowed = choice.get("allowed_tools")
        return not isinstance(allowed, dict) or allowed.get("mode") == "required"
    return choice in ("required", "any")
