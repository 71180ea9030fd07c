"""Placeholders in the calls of a response, and the note that explains them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.apis.formats import FORMATS, REQUESTS
from penumbra.expand import reference
from penumbra.redaction import placeholder
from penumbra.redaction.placeholder import PATTERN, make

MARK = make("password", b"k", b"v")


def test_calls_are_counted_wherever_the_placeholder_stands() -> None:
    def block(arguments: Any) -> dict[str, Any]:
        return {"type": "tool_use", "id": "a", "name": "Edit", "input": arguments}

    content = [block({"a": [{"b": MARK}]}), block({"a": "[REDACTED:x"}), block({MARK: 1}), block({"c": MARK})]
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use",
    }
    assert placeholder.calls(FORMATS["anthropic"], json.dumps(message).encode(), stream=False) == 2
    assert placeholder.calls(FORMATS["anthropic"], b"no answer", stream=False) == 0


@pytest.mark.parametrize("name", reference.EDITING_NAMES.values())
def test_where_values_are_put_back_the_legend_says_so(name: str) -> None:
    assert reference.tool(name).description.endswith(reference.EDITING_LEGEND)
    assert PATTERN.search(reference.EDITING_LEGEND) is None


@pytest.mark.parametrize("name", reference.NAMES)
def test_the_legend_stands_in_the_phantom_whatever_was_redacted(name: str) -> None:
    assert reference.tool(name).description.endswith(reference.LEGEND)
    assert PATTERN.search(reference.LEGEND) is None


CALLS = {
    "anthropic": {"content": [{"type": "tool_use", "id": "a", "name": "Edit", "input": {"x": MARK}}]},
    "bedrock": {"content": [{"toolUse": {"toolUseId": "a", "name": "Edit", "input": {"x": MARK}}}]},
    "gemini": {"role": "model", "parts": [{"functionCall": {"name": "Edit", "args": {"x": MARK}}}]},
    "ollama": {"tool_calls": [{"function": {"name": "Edit", "arguments": {"x": MARK}}}]},
    "openai_chat": {
        "tool_calls": [{"id": "a", "function": {"name": "Edit", "arguments": f'{{"x":"{MARK}"}}'}}]
    },
    "openai_responses": {"type": "local_shell_call", "call_id": "a", "action": {"command": ["echo", MARK]}},
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_every_api_are_looked_into(name: str) -> None:
    message = {"role": "assistant", **CALLS[name]}
    assert placeholder.within(REQUESTS[name], json.dumps(message).encode()) == 1
    words = {"type": "message", "role": "assistant", "content": f"I see {MARK}."}
    assert placeholder.within(REQUESTS[name], json.dumps(words).encode()) == 0


def test_a_body_holds_a_placeholder_or_only_what_looks_like_one() -> None:
    real = placeholder.make("github", b"key", b"value").encode()
    for body, there in (
        (b"", False),
        (real, True),
        (b"[REDACTED:github:1]" + real, True),
        (b"[" + real[1:-1], False),
        (b"[REDACTED:" * 9 + real[1:], False),
    ):
        assert placeholder.stands_in(body) == there == bool(placeholder.spans(body)), body
