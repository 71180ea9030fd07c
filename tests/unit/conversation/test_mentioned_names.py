"""The names that were used before a result, in every API's way to write a conversation."""

import json
from typing import Any

import pytest

from penumbra.apis import recognise
from penumbra.conversation import model
from penumbra.wire.document import Document

LONG = "irrelevant " * 20


def anthropic() -> dict[str, Any]:
    def result(one: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": one, "content": LONG}

    def call(one: str, **arguments: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": one, "name": "Read", "input": arguments}

    return {
        "model": "m",
        "max_tokens": 1,
        "messages": [
            {"role": "user", "content": "mend parse_config\nfirst"},
            {"role": "assistant", "content": [call("a", file_path="src/oldest.py")]},
            {"role": "user", "content": [result("a")]},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "latest_one"}, call("b", file_path="x")],
            },
            {"role": "user", "content": [result("b"), {"type": "text", "text": "after_it"}]},
        ],
        "system": "system_prompt",
    }


def openai_chat() -> dict[str, Any]:
    def call(one: str, arguments: str) -> dict[str, Any]:
        return {"id": one, "type": "function", "function": {"name": "Read", "arguments": arguments}}

    return {
        "model": "m",
        "messages": [
            {"role": "user", "content": "mend parse_config\nfirst"},
            {"role": "assistant", "content": None, "tool_calls": [call("a", '{"path":"src\\noldest.py"}')]},
            {"role": "tool", "tool_call_id": "a", "content": LONG},
            {"role": "assistant", "content": "latest_one", "tool_calls": [call("b", '{"path":"x"}')]},
            {"role": "tool", "tool_call_id": "b", "content": LONG},
            {"role": "user", "content": "after_it"},
        ],
    }


def openai_responses() -> dict[str, Any]:
    def call(one: str, arguments: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": one, "name": "Read", "arguments": arguments}

    def said(role: str, text: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    return {
        "model": "m",
        "instructions": "system_prompt",
        "input": [
            said("user", "mend parse_config\nfirst"),
            call("a", '{"path":"src/oldest.py"}'),
            {"type": "function_call_output", "call_id": "a", "output": LONG},
            said("assistant", "latest_one"),
            call("b", '{"path":"x"}'),
            {"type": "function_call_output", "call_id": "b", "output": LONG},
            said("user", "after_it"),
        ],
    }


def gemini() -> dict[str, Any]:
    def call(one: str, path: str) -> dict[str, Any]:
        return {"functionCall": {"id": one, "name": "Read", "args": {"path": path}}}

    def result(one: str) -> dict[str, Any]:
        return {"functionResponse": {"id": one, "name": "Read", "response": {"output": LONG}}}

    return {
        "systemInstruction": {"parts": [{"text": "system_prompt"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "mend parse_config\nfirst"}]},
            {"role": "model", "parts": [call("a", "src/oldest.py")]},
            {"role": "user", "parts": [result("a")]},
            {"role": "model", "parts": [{"text": "latest_one"}, call("b", "x")]},
            {"role": "user", "parts": [result("b")]},
            {"role": "user", "parts": [{"text": "after_it"}]},
        ],
    }


APIS = {
    "anthropic-messages": anthropic,
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "gemini": gemini,
}


@pytest.mark.parametrize("name", APIS)
def test_what_was_said_before_a_result_counts_and_nothing_else(name: str) -> None:
    api = next(one for one in recognise.apis() if one.id == name)
    document = Document(json.dumps(APIS[name]()).encode())
    conversation = api.wire.read(document)
    first, second = (
        model.Mentions().before(document, api.wire, conversation, result) for result in conversation.results
    )
    assert {"mend", "parse_config", "first", "oldest"} <= set(first)
    assert set(second) == set(first) | {"latest_one"} | set(second) & {"path", "file_path"}
    assert "irrelevant" not in second
    assert first["oldest"] == 1 > first["parse_config"]
    assert second["oldest"] < 1
    assert min(second.values()) >= 0.3


def test_of_a_long_conversation_the_latest_part_is_read() -> None:
    body = anthropic()
    body["messages"][0]["content"] = "long_ago"
    filler = [
        {"role": role, "content": f"{role}_{n} " + "word " * 2_000}
        for n in range(10)
        for role in ("user", "assistant")
    ]
    body["messages"][1:1] = filler[1:] + filler[:1]
    api = next(one for one in recognise.apis() if one.id == "anthropic-messages")
    document = Document(json.dumps(body).encode())
    conversation = api.wire.read(document)
    names = model.Mentions().before(document, api.wire, conversation, conversation.results[0])
    assert "oldest" in names
    assert "assistant_9" in names
    assert "long_ago" not in names


def test_what_is_said_later_changes_nothing() -> None:
    api = next(one for one in recognise.apis() if one.id == "anthropic-messages")
    body = anthropic()
    document = Document(json.dumps(body).encode())
    conversation = api.wire.read(document)
    names = model.Mentions().before(document, api.wire, conversation, conversation.results[0])
    body["messages"] = body["messages"][:3]
    shorter = Document(json.dumps(body).encode())
    conversation = api.wire.read(shorter)
    assert model.Mentions().before(shorter, api.wire, conversation, conversation.results[0]) == names
