"""Conversations that are too long for a provider, and a client that sends them."""

from __future__ import annotations

import json
from typing import Any

from support.upstream import ToolCall, turn

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
JSON = (("content-type", "application/json"), ("x-request-id", "req_7"))
SSE = (("content-type", "text/event-stream"),)
TOO_LONG = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 30000 tokens > 20000 maximum"}}'


def prose(seed: int, lines: int = 60) -> str:
    """Text of which nothing can be taken without loss: every line is another one."""
    return "\n".join(
        f"{n * 7919 % 10007:05} {seed * n % 9973:05} words of item {n * seed % 991}" for n in range(1, lines)
    )


def chat(count: int, size: int = 60, **more: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "look at all of it"}]
    for n in range(count):
        function = {"name": "read_notes", "arguments": json.dumps({"part": n})}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_own{n:021}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"call_own{n:021}", "content": prose(n + 3, size)},
        ]
    return {"model": "m", "messages": messages, **more}


TOOLS = [
    {
        "name": "read_notes",
        "description": "Read.",
        "input_schema": {"type": "object", "properties": {"part": {"type": "integer"}}},
    }
]


def claude(count: int, size: int = 60, **more: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "look at all of it"}]
    for n in range(count):
        messages += [
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": f"toolu_own{n:021}",
                        "name": "read_notes",
                        "input": {"part": n},
                    }
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"toolu_own{n:021}", "content": prose(n + 3, size)}
                ],
            },
        ]
    return {"model": "claude-x", "max_tokens": 99, "tools": TOOLS, "messages": messages, **more}


class Client:
    """Sends bodies through a proxy in regular mode, to a host of one's choice."""

    def __init__(self, clients: Any, proxy: Any, key: str) -> None:
        self._http = clients.http(proxy)
        self._headers = {
            "authorization": f"Bearer {key}",
            "x-api-key": key,
            "anthropic-version": "2023-06-01",
            "content-type": "application/json",
        }

    def post(self, body: dict[str, Any], host: str = "openrouter.ai") -> Any:
        path = MESSAGES if "max_tokens" in body else CHAT
        return self._http.post(
            f"https://{host}{path}", content=json.dumps(body).encode(), headers=self._headers
        )


def sizes(upstream: Any) -> list[int]:
    return [len(received.body) for received in upstream.asked()]


def tool_texts(received: Any) -> list[str]:
    return [message["content"] for message in received.json["messages"] if message["role"] == "tool"]


def asks_for_an_original(received: Any) -> Any:
    """What the model says when it wants to read all of the first shadow."""
    ref = json.dumps(received.json).split("<<<SHADOW:")[1][:39]
    return turn(ToolCall("expand_context", {"id": ref}))
