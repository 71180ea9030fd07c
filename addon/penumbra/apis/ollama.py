"""Ollama's own chat API: requests.

A tool result is a message of role `tool` with a string as its content. Most results name no call:
they answer the calls of the message before, by tool name if there is one and in order otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from penumbra.apis.parts import Conversation, OpenCalls, ResultText, ToolCall, short_hash
from penumbra.wire.document import Document, encode


def read(document: Document) -> Conversation:
    """The conversation of an `/api/chat` body."""
    top = document.members(document.root)
    messages = top.get("messages")
    items = document.items(messages)
    waiting = OpenCalls()
    results: list[ResultText] = []
    opening: str | None = None
    last_answer = -1
    for turn, item in enumerate(items):
        message = document.members(item)
        role = document.string(message.get("role"))
        content = message.get("content")
        if role == "assistant":
            if turn < len(items) - 1:
                last_answer = turn
            waiting = OpenCalls()
            waiting.add(_call(document, call) for call in document.items(message.get("tool_calls")))
        elif role == "user" and opening is None:
            opening = document.string(content)
        elif role == "tool" and content is not None and document.is_string(content):
            call_id = document.string(message.get("tool_call_id")) or ""
            call = _answered(document, message, call_id, waiting)
            results.append(ResultText(content, call_id, call, False, turn))
    return Conversation(
        model=document.string(top.get("model")) or "",
        results=tuple(results),
        messages=messages,
        tools=top.get("tools"),
        last_answer=last_answer,
        last_thinking=-1,
        opening=opening or "",
    )


def spoken(document: Document) -> Iterator[Raw]:
    """What was said beside tool results: texts, and the arguments of calls."""
    for item in document.items(document.members(document.root).get("messages")):
        message = document.members(item)
        if document.string(message.get("role")) == "tool":
            continue
        content = message.get("content")
        if content is not None and document.is_string(content):
            yield content
        for call in document.items(message.get("tool_calls")):
            arguments = _call(document, call).arguments
            if arguments is not None:
                yield arguments


def error(status: int, message: str) -> bytes:
    """An error body as the API writes it; the status stands in the response's head only."""
    return encode({"error": message})


def call_token(document: Document, value: Raw) -> str:
    """What a call is known by: a short hash of its name and arguments. Many clients drop its id."""
    function = document.members(document.members(value).get("function"))
    return short_hash(document.string(function.get("name")), document.plain(function.get("arguments")))


def _call(document: Document, value: Raw) -> ToolCall:
    call = document.members(value)
    function = document.members(call.get("function"))
    name = document.string(function.get("name")) or ""
    return ToolCall(document.string(call.get("id")) or "", name, function.get("arguments"))


def _answered(
    document: Document, message: dict[str, Raw], call_id: str, waiting: OpenCalls
) -> ToolCall | None:
    """The call that a result answers; taken off `waiting`."""
    name = document.string(message.get("tool_name")) or document.string(message.get("name")) or ""
    call = waiting.first_with_id(call_id) if call_id else None
    call = call or (waiting.first_named(name) if name else waiting.first())
    waiting.close(call)
    if call is None and name:
        call = ToolCall(call_id, name)
    return call
