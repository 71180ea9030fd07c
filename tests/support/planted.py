"""Requests with secrets in their places."""

from collections.abc import Iterator
from typing import Any

from support.apis import messages

# The tokens are written in pieces, so that no scanner of this repository takes them for real.
GITHUB = "ghp_" + "k3J9xQ7vB2mN8cR5tY1wZ4aS6dF0gH3jL5pQ"
PASSWORD = "9vTq2-" + "LmX4wRk7"


def anthropic(text: str, **more: Any) -> dict[str, Any]:
    """Return a request with one tool result."""
    return messages([{"type": "text", "text": text}], **more)


def results(body: Any) -> Iterator[str]:
    """Yield the texts of all tool results in a request."""
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_result":
                yield "".join(part["text"] for part in block["content"])
