"""The same through a real proxy: what of a conversation is sent stays what it was, turn by turn."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from support.planted import GITHUB, PASSWORD
from support.result_shapes import SHAPES, messages, tool_result

PATHS = {
    "anthropic-messages": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
    "ollama-chat": "/api/chat",
}
SHOWN = [
    "anthropic document", "anthropic web search", "anthropic without a model", "chat object",
    "responses mcp", "gemini one content", "gemini code", "ollama object",
]  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_no_shape_reaches_the_provider_with_a_secret(
    name: str, clients: Any, proxy: Any, upstream: Any
) -> None:
    api, body = SHAPES[name]
    running = proxy("reverse")
    headers = {"x-api-key": f"k {name}", "authorization": f"Bearer {name}", "anthropic-version": "2023-06-01"}
    clients.http(running).post(f"{running.url}{PATHS[api]}", json=body, headers=headers)
    received = upstream.requests[-1].body.decode()
    assert GITHUB not in received
    assert PASSWORD not in received
    assert "[REDACTED:" in received


def test_a_conversation_keeps_its_prefix(clients: Any, proxy: Any, upstream: Any) -> None:
    """Also where what was said is an agent's result in the user's text."""
    running = proxy("reverse")
    headers = {"x-api-key": "k turns", "anthropic-version": "2023-06-01"}
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": GITHUB}}
    body = messages(tool_result(document))
    said = body["messages"]
    turns = [
        {"role": "assistant", "content": "<tool_call>{}</tool_call>"},
        {"role": "user", "content": f"<tool_response>\nDB_PASSWORD={PASSWORD}\n</tool_response>"},
        {"role": "assistant", "content": "good"},
        {"role": "user", "content": f"<bash-stdout>{GITHUB}</bash-stdout><bash-stderr></bash-stderr>"},
    ]
    sent = []
    for turn in (0, 2, 4):
        conversation = {**body, "messages": [*said, *turns[:turn]]}
        clients.http(running).post(f"{running.url}/v1/messages", json=conversation, headers=headers)
        sent.append(upstream.requests[-1].json)
    for one in sent:
        assert GITHUB not in json.dumps(one)
        assert PASSWORD not in json.dumps(one)
        # An agent that declares no tools is given none.
        assert "tools" not in one
    for before, after in itertools.pairwise(sent):
        assert after["messages"][: len(before["messages"])] == before["messages"]
