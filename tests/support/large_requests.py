"""Requests with as many calls and results as one likes, for every API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Body = dict[str, Any]


def _turns(
    calls: Sequence[Any], results: Sequence[Any], *, apart: bool
) -> Iterable[tuple[list[Any], list[Any]]]:
    if not apart:
        return [(list(calls), list(results))]
    return [([call], [result]) for call, result in zip(calls, results, strict=True)]


def _text(number: int, padding: str) -> str:
    return f"result {number} says\nso much of {number}\n{padding}"


def anthropic(order: Iterable[int], *, ids: bool = True, apart: bool = False, padding: str = "") -> Body:
    numbers = list(order)
    calls = [
        {"type": "tool_use", "id": f"toolu_{n:020d}", "name": f"t{n % 7}", "input": {"n": n}}
        for n in sorted(numbers)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": f"toolu_{n:020d}", "content": _text(n, padding)}
        for n in numbers
    ]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for made, given in _turns(calls, results, apart=apart):
        messages += [{"role": "assistant", "content": made}, {"role": "user", "content": given}]
    tools = [{"name": "t0", "input_schema": {"type": "object"}}]
    return {"model": "claude-sonnet-4-5", "max_tokens": 9, "tools": tools, "messages": messages}


def openai_chat(order: Iterable[int], *, ids: bool = True, apart: bool = False, padding: str = "") -> Body:
    numbers = list(order)
    calls = [
        {
            "id": f"call_{n}" if ids else "",
            "type": "function",
            "function": {"name": f"t{n % 7}", "arguments": json.dumps({"n": n})},
        }
        for n in sorted(numbers)
    ]
    results = [
        {
            "role": "tool",
            "content": _text(n, padding),
            **({"tool_call_id": f"call_{n}"} if ids else {"name": f"t{n % 7}"}),
        }
        for n in numbers
    ]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for made, given in _turns(calls, results, apart=apart):
        messages += [{"role": "assistant", "content": None, "tool_calls": made}, *given]
    return {
        "model": "gpt-5",
        "tools": [{"type": "function", "function": {"name": "t0"}}],
        "messages": messages,
    }


def openai_responses(
    order: Iterable[int], *, ids: bool = True, apart: bool = False, padding: str = ""
) -> Body:
    numbers = list(order)
    calls = [
        {
            "type": "function_call",
            "call_id": f"call_{n}",
            "name": f"t{n % 7}",
            "arguments": json.dumps({"n": n}),
        }
        for n in sorted(numbers)
    ]
    results = [
        {"type": "function_call_output", "call_id": f"call_{n}", "output": _text(n, padding)} for n in numbers
    ]
    items: list[Any] = [{"type": "message", "role": "user", "content": "go"}]
    for made, given in _turns(calls, results, apart=apart):
        items += made + given
    return {"model": "gpt-5", "tools": [{"type": "function", "name": "t0"}], "input": items}


def gemini(order: Iterable[int], *, ids: bool = True, apart: bool = False, padding: str = "") -> Body:
    numbers = list(order)

    def told(n: int) -> dict[str, Any]:
        return {"name": f"t{n % 7}", **({"id": f"g{n}"} if ids else {})}

    calls = [{"functionCall": {**told(n), "args": {"n": n}}} for n in sorted(numbers)]
    results = [{"functionResponse": {**told(n), "response": {"output": _text(n, padding)}}} for n in numbers]
    contents: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]
    for made, given in _turns(calls, results, apart=apart):
        contents += [{"role": "model", "parts": made}, {"role": "user", "parts": given}]
    return {"tools": [{"functionDeclarations": [{"name": "t0"}]}], "contents": contents}


def bedrock(order: Iterable[int], *, ids: bool = True, apart: bool = False, padding: str = "") -> Body:
    numbers = list(order)
    calls = [
        {"toolUse": {"toolUseId": f"t{n}", "name": f"t{n % 7}", "input": {"n": n}}} for n in sorted(numbers)
    ]
    results = [
        {"toolResult": {"toolUseId": f"t{n}", "content": [{"text": _text(n, padding)}]}} for n in numbers
    ]
    messages: list[Any] = [{"role": "user", "content": [{"text": "go"}]}]
    for made, given in _turns(calls, results, apart=apart):
        messages += [{"role": "assistant", "content": made}, {"role": "user", "content": given}]
    tool = {"toolSpec": {"name": "t0", "inputSchema": {"json": {"type": "object"}}}}
    return {"toolConfig": {"tools": [tool]}, "messages": messages}


def ollama(order: Iterable[int], *, ids: bool = True, apart: bool = False, padding: str = "") -> Body:
    numbers = list(order)
    calls = [{"function": {"name": f"t{n % 7}", "arguments": {"n": n}}} for n in sorted(numbers)]
    results = [
        {"role": "tool", "content": _text(n, padding), **({"tool_name": f"t{n % 7}"} if ids else {})}
        for n in numbers
    ]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for made, given in _turns(calls, results, apart=apart):
        messages += [{"role": "assistant", "content": "", "tool_calls": made}, *given]
    return {
        "model": "llama3",
        "tools": [{"type": "function", "function": {"name": "t0"}}],
        "messages": messages,
    }


MAKERS: dict[str, tuple[Callable[..., Body], str]] = {
    "anthropic": (anthropic, "/v1/messages"),
    "openai_chat": (openai_chat, "/v1/chat/completions"),
    "openai_responses": (openai_responses, "/v1/responses"),
    "gemini": (gemini, "/v1beta/models/gemini-2.5-pro:generateContent"),
    "bedrock": (bedrock, "/model/anthropic.claude-sonnet-4-5/converse"),
    "ollama": (ollama, "/api/chat"),
}
