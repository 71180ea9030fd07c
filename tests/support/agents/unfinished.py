"""The messages that clients keep of an answer that broke off, by API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.agents.apis import Client


def _anthropic(events: list[Any]) -> list[Any]:
    blocks: dict[int, dict[str, Any]] = {}
    closed: set[int] = set()
    for event in events:
        index = event.get("index", -1)
        if event["type"] == "content_block_start":
            blocks[index] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            for key, value in event["delta"].items():
                if key in ("text", "thinking", "signature"):
                    blocks[index][key] = blocks[index].get(key, "") + value
                elif key == "partial_json":
                    blocks[index]["json"] = blocks[index].get("json", "") + value
        elif event["type"] == "content_block_stop":
            closed.add(index)
    kept = [block for index, block in blocks.items() if block["type"] == "text" or index in closed]
    for block in kept:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block.pop("json", "") or "{}")
    return _message("assistant", "content", [block for block in kept if block.get("text") != ""])


def _converse(events: list[Any]) -> list[Any]:
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        delta, index = event.get("delta") or {}, event.get("contentBlockIndex", -1)
        if "text" in delta:
            block = blocks.setdefault(index, {"text": ""})
            block["text"] += delta["text"]
        for key, value in (delta.get("reasoningContent") or {}).items():
            block = blocks.setdefault(index, {"reasoningContent": {"reasoningText": {"text": ""}}})
            said = block["reasoningContent"]["reasoningText"]
            said[key] = said.get(key, "") + value
    kept = [
        block
        for block in blocks.values()
        if "reasoningContent" not in block or "signature" in block["reasoningContent"]["reasoningText"]
    ]
    return _message("assistant", "content", kept)


def _gemini(values: list[Any]) -> list[Any]:
    contents = (
        candidate.get("content") or {} for value in values for candidate in value.get("candidates", ())
    )
    parts = [part for content in contents for part in content.get("parts", ()) if part != {"text": ""}]
    return _message("model", "parts", [part for part in parts if "functionCall" not in part])


def _responses(events: list[Any]) -> list[Any]:
    """Return the items that were done, without their ids, as Codex keeps them."""
    items = [event["item"] for event in events if event.get("type") == "response.output_item.done"]
    return [
        {key: value for key, value in item.items() if key != "id" or item["type"] == "reasoning"}
        for item in items
    ]


def _message(role: str, key: str, content: Any) -> list[Any]:
    return [{"role": role, key: content}] if content else []


def kept(api: Client, content: bytes) -> list[Any]:
    """Return the messages that a client would send again."""
    values = api.events(content)
    special: dict[str, Callable[[list[Any]], list[Any]]] = {
        "anthropic": _anthropic,
        "converse": _converse,
        "responses": _responses,
        "gemini": _gemini,
        "gemini-array": _gemini,
    }
    if (read := special.get(api.name)) is not None:
        return read(values)
    return _message("assistant", "content", "".join(map(api.says, values)))


def user(api: Client, words: str) -> list[Any]:
    """Return a prompt."""
    messages: list[Any] = next(
        value for key, value in api.body(words, True).items() if key in ("messages", "input", "contents")
    )
    return messages
