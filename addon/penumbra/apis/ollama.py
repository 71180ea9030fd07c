"""Ollama's own chat API: requests, and the injected tool and hidden exchanges in them.

A tool result is a message of role `tool` with a string as its content. Most results name no call:
they answer the calls of the message before, by tool name if there is one and in order otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Hidden, InjectedCall, Tool, Tools, Visible
from penumbra.apis.parts import OpenCalls, ToolCall, short_hash
from penumbra.apis.prompt import Kind, Message, Part
from penumbra.linear import utf8
from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import decode, encode


class OllamaFormat(ApiFormat):
    """Bodies of `/api/chat`."""

    names_calls = False

    def message(self, document: Document, value: Raw, turn: int = 0) -> Message:
        members = document.members(value)
        role = document.string(members.get("role")) or ""
        content = members.get("content")
        texts = (content,) if content is not None and document.is_string(content) else ()
        parts: list[Part] = []
        if role == "tool":
            names = (document.string(members.get(key)) or "" for key in ("tool_name", "name"))
            call_id = document.string(members.get("tool_call_id")) or ""
            name = next(filter(None, names), "")
            parts.append(Part(Kind.RESULT, value, call_id, name, texts=texts))
        else:
            parts += (Part(Kind.TEXT, text, texts=(text,)) for text in texts)
            parts += (_call(document, call) for call in document.items(members.get("tool_calls")))
        return Message(value, turn, role, role == "assistant", tuple(parts))

    def answered(self, result: Part, by_id: Mapping[str, ToolCall], waiting: OpenCalls) -> ToolCall | None:
        call = waiting.first_with_id(result.id) if result.id else None
        return call or (waiting.first_named(result.name) if result.name else waiting.first())

    def tokens(self, document: Document, calls: list[Part]) -> tuple[str, ...]:
        return tuple(call_token(document, part.block) for part in calls)

    def error(self, status: int, message: str) -> bytes:
        # The status stands in the response's head only.
        return encode({"error": message})

    def tools(self, request: Document) -> Tools:
        names = []
        for item in request.items(request.members(request.root).get("tools")):
            function = request.members(request.members(item).get("function"))
            names.append(request.string(function.get("name")) or "")
        return Tools(tuple(names), len(names), forced=False, continuable=True)

    def declare(self, request: Document, tool: Tool) -> None:
        head = encode({"name": tool.name, "description": tool.description})
        function = head[:-1] + b',"parameters":' + tool.parameters + b"}"
        declaration = b'{"type":"function","function":' + function + b"}"
        request.append(request.members(request.root)["tools"], declaration)

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"role": "tool", "content": text, **decode(utf8(call.id))})

    def user_message(self, text: str) -> bytes:
        return encode({"role": "user", "content": text})

    def without_calls(self, request: bytes) -> bytes:
        # The API has no way to forbid calls but to name no tools.
        document = Document(request)
        document.replace(document.members(document.root)["tools"], [])
        return document.render()

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        start, end = request.place(self.prompt(request).messages[visible.index].value)
        if request.is_edited(start, end):
            return False
        texts = [*hidden.before, *([hidden.last] if hidden.last else []), *hidden.results]
        request.edits.append(Edit(start, end, b",".join(texts)))
        return True


def call_token(document: Document, value: Raw) -> str:
    """What a call is known by: a short hash of its name and arguments. Many clients drop its id."""
    function = document.members(document.members(value).get("function"))
    return short_hash(document.string(function.get("name")), document.plain(function.get("arguments")))


def _call(document: Document, value: Raw) -> Part:
    call = document.members(value)
    function = document.members(call.get("function"))
    name = document.string(function.get("name")) or ""
    return Part(Kind.CALL, value, document.string(call.get("id")) or "", name, function.get("arguments"))
