"""Requests with a secret in each shape of tool results in result_shapes.yaml."""

import base64
from collections.abc import Callable
from typing import Any

from support.filled import filled, load
from support.planted import GITHUB, PASSWORD

SECRET = f"the token {GITHUB} is in use"
NAMED = {"db": {"password": PASSWORD}}
NUMBER = {"admin_password": 8812340977}
CALL_ID = "toolu_01AbCdEfGhIjKlMnOpQrStUv"
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3).decode()
TEXT_BLOB = base64.b64encode(f"export GITHUB_TOKEN={GITHUB}\n".encode()).decode()


def messages(*content: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    call = {"type": "tool_use", "id": CALL_ID, "name": "get", "input": {"q": "x"}}
    return {
        "model": "claude-haiku-4-5",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": role, "content": list(content)},
        ],
        **more,
    }


def tool_result(*content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": CALL_ID, "content": list(content)}


def chat(*answers: Any) -> dict[str, Any]:
    call = {"id": CALL_ID, "type": "function", "function": {"name": "get", "arguments": "{}"}}
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    return {"model": "m", "messages": [*said, *answers]}


def responses(*items: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": CALL_ID, "name": "get", "arguments": "{}"}
    return {"model": "m", "input": [{"role": "user", "content": "hi"}, call, *items]}


def gemini(parts: Any, role: str = "user", snake: bool = False) -> dict[str, Any]:
    return _gemini([{"role": role, "parts": parts}], snake)


def _gemini(answer: list[Any], snake: bool = False) -> dict[str, Any]:
    call = {"function_call" if snake else "functionCall": {"name": "get", "args": {}}}
    said = [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [call]}]
    return {"contents": [*said, *answer]}


def response(value: Any, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "get", "response": value, **more}}


def converse(*content: Any) -> dict[str, Any]:
    call = {"toolUse": {"toolUseId": CALL_ID, "name": "get", "input": {}}}
    answer = {"toolResult": {"toolUseId": CALL_ID, "content": list(content)}}
    said = [("user", {"text": "hi"}), ("assistant", call), ("user", answer)]
    return {"messages": [{"role": role, "content": [block]} for role, block in said]}


def ollama(content: Any) -> dict[str, Any]:
    call = {"function": {"name": "get", "arguments": {}}}
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    return {"model": "m", "messages": [*said, {"role": "tool", "tool_name": "get", "content": content}]}


def text_document(text: str) -> dict[str, Any]:
    source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source, "title": "notes"}


HIT = {
    "type": "web_search_result",
    "title": SECRET,
    "url": "https://a.example",
    "encrypted_content": "EqgfCio",
}
_HOLES = {
    "$PASSWORD": PASSWORD,
    "$SECRET": SECRET,
    "$GITHUB": GITHUB,
    "$NAMED": NAMED,
    "$NUMBER": NUMBER,
    "$CALL": CALL_ID,
    "$BLOB": TEXT_BLOB,
    "$IMAGE": f"data:image/png;base64,{PNG}",
    "$HIT": HIT,
    "$DOCUMENT": text_document(SECRET),
    "$FETCHED": {"type": "web_fetch_result", "url": "https://a.example", "content": text_document(SECRET)},
}


def _without_model(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "model"}


_AROUND: dict[str, Callable[[Any], dict[str, Any]]] = {
    "anthropic-messages, result": lambda block: messages(tool_result(block)),
    "anthropic-messages, content": messages,
    "anthropic-messages, said": lambda block: messages(block, role="assistant"),
    "anthropic-messages, without a model": lambda block: _without_model(messages(tool_result(block))),
    "bedrock-invoke, versioned": lambda block: messages(
        tool_result(block), anthropic_version="bedrock-2023-05-31"
    ),
    "openai-chat, tool": lambda value: chat({"role": "tool", "tool_call_id": CALL_ID, "content": value}),
    "openai-chat, answer": chat,
    "openai-responses, output": lambda value: responses(
        {"type": "function_call_output", "call_id": CALL_ID, "output": value}
    ),
    "openai-responses, item": responses,
    "gemini, response": lambda value: gemini([response(value)]),
    "gemini, contents": _gemini,
    "gemini, snake": lambda contents: _gemini(contents, snake=True),
    "gemini, whole": lambda content: {"contents": content},
    "gemini-code-assist, request": lambda contents: {"model": "m", "request": _gemini(contents)},
    "bedrock-converse, result": converse,
    "ollama-chat, content": ollama,
    "ollama-chat, without a model": lambda value: {"messages": ollama(value)["messages"]},
}
"""API and function from a shape to the request, by section."""


SHAPES: dict[str, tuple[str, Any]] = {
    name: (section.partition(",")[0], _AROUND[section](filled(shape, _HOLES)))
    for section, shapes in load(__file__).items()
    for name, shape in shapes.items()
}
"""API and request, by the name of the shape."""
