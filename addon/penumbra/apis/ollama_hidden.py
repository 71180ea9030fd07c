"""Ollama's own chat API: the injected tool and hidden exchanges in requests."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from penumbra.apis import ollama_response
from penumbra.apis.base import Hidden, InjectedCall, Response, Tool, Tools, Turn, Usual, Visible, read_visible
from penumbra.apis.ollama import call_token
from penumbra.wire.document import Document, Edit, decode, encode


class OllamaAnswers(Usual):
    """See AnswerFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return ollama_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return ollama_response.body(injected_tool)

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
        return encode({"role": "tool", "content": text, **decode(call.id.encode())})

    def continuation(self, turn: Turn, results: Sequence[bytes]) -> tuple[bytes, ...]:
        return (turn.message, *results) if turn.message else tuple(results)

    def extended(self, request: bytes, messages: Sequence[bytes], answer_id: str = "") -> bytes:
        document = Document(request)
        document.append(document.members(document.root)["messages"], b",".join(messages))
        return document.render()

    def without_calls(self, request: bytes) -> bytes:
        # The API has no way to forbid calls but to name no tools.
        document = Document(request)
        document.replace(document.members(document.root)["tools"], [])
        return document.render()

    def visible(self, request: Document) -> list[Visible]:
        found, tokens = [], []
        for index, item in enumerate(_messages(request)):
            message = request.members(item)
            if request.string(message.get("role")) == "assistant":
                calls = request.items(message.get("tool_calls"))
                ids = tuple(request.string(request.members(call).get("id")) or "" for call in calls)
                found.append((index, ids, request.string(message.get("content")) or "", False))
                tokens.append(tuple(call_token(request, call) for call in calls))
        return read_visible(found, tokens)

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        start, end = request.place(_messages(request)[visible.index])
        if request.is_edited(start, end):
            return False
        texts = [*hidden.before, *([hidden.last] if hidden.last else []), *hidden.results]
        request.edits.append(Edit(start, end, b",".join(texts)))
        return True

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        return False


def _messages(request: Document) -> list[Raw]:
    return request.items(request.members(request.root).get("messages"))
