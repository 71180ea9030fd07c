"""Anthropic Messages: requests.

A tool result is a `tool_result` block of a user message; its content is a string or a list of
blocks, of which only `text` blocks are ours. Results of server tools stand in assistant messages
and are never touched.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from penumbra.apis.parts import Conversation, ResultText, ToolCall, joined_text, text_values
from penumbra.wire.document import Document, encode

_THINKING = ("thinking", "redacted_thinking")
_ERROR_TYPES = {
    400: "invalid_request_error",
    413: "request_too_large",
    500: "api_error",
    502: "api_error",
    503: "overloaded_error",
}


def read(document: Document) -> Conversation:
    """The conversation of a `/v1/messages` or `/v1/messages/count_tokens` body."""
    top = document.members(document.root)
    messages = top.get("messages")
    items = document.items(messages)
    calls: dict[str, ToolCall] = {}
    results: list[ResultText] = []
    last_answer = last_thinking = -1
    opening: str | None = None
    for turn, item in enumerate(items):
        message = document.members(item)
        role = document.string(message.get("role"))
        content = message.get("content")
        if role == "assistant":
            if turn < len(items) - 1:
                last_answer = turn
            if _read_answer(document, content, calls):
                last_thinking = turn
        elif role == "user":
            if opening is None:
                opening = joined_text(document, content)
            results.extend(_results(document, content, calls, turn))
    return Conversation(
        model=document.string(top.get("model")) or "",
        results=tuple(results),
        messages=messages,
        tools=top.get("tools"),
        last_answer=last_answer,
        last_thinking=last_thinking,
        opening=opening or "",
        calls=calls,
    )


def spoken(document: Document) -> Iterator[Raw]:
    """What was said beside tool results: texts, and the input of calls."""
    top = document.members(document.root)
    yield from text_values(document, top.get("system"))
    for item in document.items(top.get("messages")):
        content = document.members(item).get("content")
        yield from text_values(document, content)
        for entry in document.items(content):
            block = document.members(entry)
            if "input" in block and document.string(block.get("type")) == "tool_use":
                yield block["input"]


def error(status: int, message: str) -> bytes:
    """An error body as the API writes it."""
    kind = _ERROR_TYPES.get(status, "api_error")
    return encode({"type": "error", "error": {"type": kind, "message": message}})


def _read_answer(document: Document, content: Raw | None, calls: dict[str, ToolCall]) -> bool:
    """Note the calls of an assistant message; whether it holds thinking."""
    thinking = False
    for item in document.items(content):
        block = document.members(item)
        kind = document.string(block.get("type"))
        if kind == "tool_use":
            call_id = document.string(block.get("id")) or ""
            calls[call_id] = ToolCall(call_id, document.string(block.get("name")) or "", block.get("input"))
        elif kind in _THINKING:
            thinking = True
    return thinking


def _results(
    document: Document, content: Raw | None, calls: dict[str, ToolCall], turn: int
) -> Iterator[ResultText]:
    for item in document.items(content):
        block = document.members(item)
        if document.string(block.get("type")) != "tool_result":
            continue
        call_id = document.string(block.get("tool_use_id")) or ""
        is_error = document.plain(block.get("is_error")) is True
        for value in text_values(document, block.get("content")):
            yield ResultText(value, call_id, calls.get(call_id), is_error, turn)
