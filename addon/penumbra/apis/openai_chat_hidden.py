"""OpenAI Chat Completions: the injected tool and hidden exchanges in requests."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from penumbra.apis.base import Hidden, InjectedCall, Tool, Tools, Turn, Usual, Visible, read_visible
from penumbra.apis.openai_chat_message import call_token
from penumbra.apis.openai_chat_response import ChatBody, ChatStream, called
from penumbra.apis.parts import is_telling
from penumbra.wire.document import Document, Edit, encode


class ChatAnswers(Usual):
    """See AnswerFormat."""

    def stream(self, injected_tool: str, before: str = "") -> ChatStream:
        return ChatStream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> ChatBody:
        return ChatBody(injected_tool)

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

    def continuation(self, turn: Turn, results: Sequence[bytes]) -> tuple[bytes, ...]:
        return (turn.message, *results) if turn.message else tuple(results)

    def extended(self, request: bytes, messages: Sequence[bytes], answer_id: str = "") -> bytes:
        document = Document(request)
        document.append(document.members(document.root)["messages"], b",".join(messages))
        return document.render()

    def without_calls(self, request: bytes) -> bytes:
        document = Document(request)
        document.set_member(document.root, "tool_choice", b'"none"')
        return document.render()

    def visible(self, request: Document) -> list[Visible]:
        found, tokens = [], []
        for index, item in enumerate(_messages(request)):
            message = request.members(item)
            if request.string(message.get("role")) != "assistant":
                continue
            calls = request.items(message.get("tool_calls"))
            ids = tuple(request.string(request.members(call).get("id")) or "" for call in calls)
            found.append((index, ids, _text(request, message.get("content")), False))
            # Told only where ids don't tell.
            told = all(map(is_telling, ids))
            tokens.append(() if told else tuple(call_token(*called(request, call)) for call in calls))
        return read_visible(found, tokens)

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        message = _messages(request)[visible.index]
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

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        return False


def _messages(request: Document) -> list[Raw]:
    return request.items(request.members(request.root).get("messages"))


def _forced(request: Document, top: dict[str, Raw]) -> bool:
    choice = request.plain(top.get("tool_choice"))
    if isinstance(choice, dict):
        allowed = choice.get("allowed_tools")
        return not isinstance(allowed, dict) or allowed.get("mode") == "required"
    return choice in ("required", "any")


def _text(request: Document, content: Raw | None) -> str:
    if (whole := request.string(content)) is not None:
        return whole
    parts = [request.members(item) for item in request.items(content)]
    texts = [request.string(part.get("text")) or "" for part in parts if _is_text(request, part)]
    return "".join(texts)


def _is_text(request: Document, part: dict[str, Raw]) -> bool:
    return request.string(part.get("type")) == "text"
