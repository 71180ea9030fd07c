"""Amazon Bedrock's Converse: requests.

A tool result is a `toolResult` block of a user message; its content is a list of blocks, each with one
member that says what it is. Texts, and the strings within `json`, are ours; images, documents, videos
and search results are not.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from penumbra.apis.base import Said
from penumbra.apis.parts import Conversation, ResultText, ToolCall, string_values
from penumbra.wire.document import Document, encode

RUN_BY_PROVIDER = "server_tool_use"
"""Type of the calls that the client does not answer."""
_ERRORS = {
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


def said(document: Document, item: Raw) -> Said:
    """A content block of an assistant message, in an answer or a request."""
    block = document.members(item)
    if "toolUse" in block:
        call = document.members(block["toolUse"])
        if document.string(call.get("type")) == RUN_BY_PROVIDER:
            return Said()
        arguments = document.source(call["input"]).decode() if "input" in call else ""
        call_id, name = (document.string(call.get(key)) or "" for key in ("toolUseId", "name"))
        return Said(call_id, name, arguments)
    if "reasoningContent" in block:
        reasoning = document.members(block["reasoningContent"])
        signature = document.members(reasoning.get("reasoningText")).get("signature")
        return Said(signature=document.string(signature or reasoning.get("redactedContent")) or "")
    texts = [block, *map(document.members, _cited(document, block))]
    return Said(text="".join(document.string(one.get("text")) or "" for one in texts))


def _cited(document: Document, block: dict[str, Raw]) -> list[Raw]:
    return document.items(document.members(block.get("citationsContent")).get("content"))


def read(document: Document) -> Conversation:
    """The conversation of a `/converse` or `/converse-stream` body."""
    top = document.members(document.root)
    messages = top.get("messages")
    items = document.items(messages)
    calls: dict[str, ToolCall] = {}
    results: list[ResultText] = []
    opening: list[str] = []
    last_answer = last_thinking = -1
    for turn, item in enumerate(items):
        message = document.members(item)
        blocks = [document.members(block) for block in document.items(message.get("content"))]
        role = document.string(message.get("role"))
        if role == "assistant":
            if turn < len(items) - 1:
                last_answer = turn
            if any("reasoningContent" in block for block in blocks):
                last_thinking = turn
            calls |= {call.id: call for call in _calls(document, blocks)}
        elif role == "user":
            if last_answer < 0:
                opening += [document.string(block.get("text")) or "" for block in blocks if "text" in block]
            for block in blocks:
                results.extend(_results(document, document.members(block.get("toolResult")), calls, turn))
    return Conversation(
        model="",
        results=tuple(results),
        messages=messages,
        tools=document.members(top.get("toolConfig")).get("tools"),
        last_answer=last_answer,
        last_thinking=last_thinking,
        opening="\n".join(opening),
        calls=calls,
    )


def spoken(document: Document) -> Iterator[Raw]:
    """What was said beside tool results: texts, and the input of calls."""
    top = document.members(document.root)
    messages = (document.members(item).get("content") for item in document.items(top.get("messages")))
    for content in (top.get("system"), *messages):
        for item in document.items(content):
            block = document.members(item)
            text, call = block.get("text"), document.members(block.get("toolUse"))
            if text is not None and document.is_string(text):
                yield text
            if "input" in call:
                yield call["input"]


def error(status: int, message: str) -> bytes:
    """An error body as the API writes it."""
    other = "ValidationException" if status < 500 else "InternalServerException"
    return encode({"__type": _ERRORS.get(status, other), "message": message})


def _calls(document: Document, blocks: list[dict[str, Raw]]) -> Iterator[ToolCall]:
    for block in blocks:
        if "toolUse" in block:
            call = document.members(block["toolUse"])
            name = document.string(call.get("name")) or ""
            yield ToolCall(document.string(call.get("toolUseId")) or "", name, call.get("input"))


def _results(
    document: Document, result: dict[str, Raw], calls: dict[str, ToolCall], turn: int
) -> Iterator[ResultText]:
    call_id = document.string(result.get("toolUseId")) or ""
    is_error = document.string(result.get("status")) == "error"
    for item in document.items(result.get("content")):
        block = document.members(item)
        for value in (block.get("text"), block.get("json")):
            for text in string_values(document, value):
                yield ResultText(text, call_id, calls.get(call_id), is_error, turn, block.get("json"))
