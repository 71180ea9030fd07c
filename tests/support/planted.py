"""Requests with secrets in their places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# In pieces, so that no scanner of this repository takes it for real.
GITHUB = "ghp_" + "k3J9xQ7vB2mN8cR5tY1wZ4aS6dF0gH3jL5pQ"
PASSWORD = "9vTq2-" + "LmX4wRk7"


def anthropic(text: str, **more: Any) -> dict[str, Any]:
    """A conversation with one tool result."""
    call = {"type": "tool_use", "id": f"toolu_{1:022}", "name": "Bash", "input": {"command": "cat x"}}
    block = {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": text}]}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [block]},
    ]
    return {"model": "m", "max_tokens": 9, "messages": messages, **more}


def results(body: Any) -> Iterator[str]:
    """The texts of all tool results in a request."""
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_result":
                yield "".join(part["text"] for part in block["content"])
