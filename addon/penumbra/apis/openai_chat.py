"""OpenAI Chat Completions: requests, also as the many compatible APIs write them.

A tool result is a message of role `tool` (or `function`, the legacy form); its content is a string
or a list of parts, of which only `text` parts are ours. A result without an id answers the first
call that has none yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from penumbra.apis.parts import Conversation, OpenCalls, ResultText, ToolCall, joined_text, text_values
from penumbra.wire.document import Document, encode


def read(document: Document) -> Conversation:
    """The conversation of a `/chat/completions` body."""
    top = document.members(document.root)
    messages = top.get("messages")
    items = document.items(messages)
    calls: dict[str, ToolCall] = {}
    waiting = OpenCalls()
    results: list[ResultText] = []
    last_answer = -1
    opening: str | None = None
    for turn, item in enumerate(items):
        message = document.members(item)
        role = document.string(message.get("role"))
        if role == "assistant":
            if turn < len(items) - 1:
                last_answer = turn
            made, waiting = _calls(document, message), OpenCalls()
            waiting.add(made)
            calls.update({call.id: call for call in made if call.id})
        elif role == "user" and opening is None:
            opening = joined_text(document, message.get("content"))
        elif role in ("tool", "function"):
            call_id = document.string(message.get("tool_call_id")) or ""
            call = _answered(document, message, call_id, calls, waiting)
            for value in text_values(document, message.get("content")):
                results.append(ResultText(value, call_id, call, False, turn))
    return Conversation(
        model=document.string(top.get("model")) or "",
        results=tuple(results),
        messages=messages,
        tools=top.get("tools"),
        last_answer=last_answer,
        last_thinking=-1,
        opening=opening or "",
        calls=calls,
    )


def spoken(document: Document) -> Iterator[Raw]:
    """What was said beside tool results: texts, and the arguments of calls."""
    for item in document.items(document.members(document.root).get("messages")):
        message = document.members(item)
        if document.string(message.get("role")) in ("tool", "function"):
            continue
        yield from text_values(document, message.get("content"))
        for call in _calls(document, message):
            if call.arguments is not None:
                yield call.arguments


def error(status: int, message: str) -> bytes:
    """An error body as the API writes it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return encode({"error": {"message": message, "type": kind, "param": None, "code": None}})


def _calls(document: Document, message: dict[str, Raw]) -> list[ToolCall]:
    found = []
    for item in document.items(message.get("tool_calls")):
        call = document.members(item)
        function = document.members(call.get("function")) or document.members(call.get("custom"))
        arguments = function.get("arguments", function.get("input"))
        name = document.string(function.get("name")) or ""
        found.append(ToolCall(document.string(call.get("id")) or "", name, arguments))
    legacy = document.members(message.get("function_call"))
    if legacy:
        found.append(ToolCall("", document.string(legacy.get("name")) or "", legacy.get("arguments")))
    return found


def _answered(
    document: Document,
    message: dict[str, Raw],
    call_id: str,
    calls: dict[str, ToolCall],
    waiting: OpenCalls,
) -> ToolCall | None:
    """The call that a result answers; taken off `waiting`."""
    call = calls.get(call_id) if call_id else None
    name = document.string(message.get("name")) or ""
    if call is None and not call_id:
        call = waiting.first_named(name) if name else waiting.first()
    waiting.close(call)
    if call is None and name:
        return ToolCall(call_id, name)
    return call
