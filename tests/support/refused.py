"""Conversations that are too long for a provider, and a client that sends them."""

import json
from typing import Any

from support.apis import BY_ID, Turn, printed
from support.upstream import ToolCall, turn

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
JSON = (("content-type", "application/json"), ("x-request-id", "req_7"))
SSE = (("content-type", "text/event-stream"),)
TOO_LONG = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 30000 tokens > 20000 maximum"}}'


def prose(seed: int, lines: int = 60) -> str:
    """Return text that can't be shortened without loss, since all lines differ."""
    return "\n".join(
        f"{n * 7919 % 10007:05} {seed * n % 9973:05} words of item {n * seed % 991}" for n in range(1, lines)
    )


def notes(count: int, size: int = 60) -> list[Turn]:
    """Return a conversation with `count` results of a tool that reads notes."""
    texts = (prose(n + 3, size) for n in range(count))
    return printed(
        *texts,
        words="look at all of it",
        tool="read_notes",
        ids="call_own{:021}",
        arguments=lambda n: {"part": n},
    )


def chat(count: int, size: int = 60, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": BY_ID["openai-chat"].written(notes(count, size)), **more}


TOOLS = [
    {
        "name": "read_notes",
        "description": "Read.",
        "input_schema": {"type": "object", "properties": {"part": {"type": "integer"}}},
    }
]


def claude(count: int, size: int = 60, **more: Any) -> dict[str, Any]:
    messages = BY_ID["anthropic-messages"].written(notes(count, size))
    return {"model": "claude-x", "max_tokens": 99, "tools": TOOLS, "messages": messages, **more}


class Client:
    """A `Client` sends bodies through a proxy in regular mode, to any host."""

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
    """Return a turn that asks for the original of the first reference in a request."""
    ref = json.dumps(received.json).split("<<<SHADOW:")[1][:39]
    return turn(ToolCall("expand_context", {"id": ref}))
