"""`penumbra_redact_scope=all`: what is said outside of tool results."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.apis import recognise
from penumbra.compress.result import Redacted
from penumbra.redaction.engine import Redactor
from penumbra.redaction.outside_results import OutsideResults
from penumbra.redaction.placeholder import PATTERN
from penumbra.wire.document import Document
from support.planted import GITHUB, PASSWORD, anthropic

SAYS = f"use {GITHUB} please"
HERE = "use @ please"
INPUT = {
    "env": {"DB_PASSWORD": PASSWORD},
    "command": f"curl -H 'Authorization: Bearer {GITHUB}' x",
    "n": 1.10,
}
INPUT_HERE = {"env": {"DB_PASSWORD": "@"}, "command": "curl -H 'Authorization: Bearer @' x", "n": 1.10}
TEXT_INPUT = json.dumps(INPUT, indent=1)
KEPT = GITHUB
"""Where it must stay: ids, names, schemas, reasoning, signatures, images."""


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(b"k")


def bodies(says: str, arguments: Any, text: str) -> dict[str, Any]:
    """A request of every format, by the API's id."""
    schema = {"type": "object", "description": KEPT}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": KEPT}}
    part = {"type": "text", "text": says, "cache_control": {"type": "ephemeral"}}
    tool = {"type": "tool_use", "id": KEPT, "name": KEPT, "input": arguments}
    thinking = {"type": "thinking", "thinking": KEPT, "signature": KEPT}
    function = {"name": KEPT, "arguments": text}
    call = {"id": KEPT, "type": "function", "function": function}
    return {
        "anthropic-messages": {
            "model": "m",
            "max_tokens": 9,
            "system": [part],
            "tools": [{"name": KEPT, "description": KEPT, "input_schema": schema}],
            "messages": [
                {"role": "user", "content": says},
                {"role": "assistant", "content": [thinking, {"type": "text", "text": says}, tool]},
                {"role": "user", "content": [image, {"type": "text", "text": says}]},
            ],
        },
        "openai-chat": {
            "model": "m",
            "tools": [{"type": "function", "function": {"name": KEPT, "parameters": schema}}],
            "messages": [
                {"role": "system", "content": says},
                {"role": "user", "content": [{"type": "text", "text": says}]},
                {"role": "assistant", "content": says, "tool_calls": [call], "reasoning_content": KEPT},
            ],
        },
        "openai-responses": {
            "model": "m",
            "instructions": says,
            "input": [
                {"role": "user", "content": says},
                {"type": "reasoning", "id": KEPT, "summary": [], "encrypted_content": KEPT},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": says}]},
                {"type": "function_call", "call_id": KEPT, "name": KEPT, "arguments": text},
                {"type": "shell_call", "call_id": KEPT, "action": arguments},
            ],
        },
        "gemini": {
            "systemInstruction": {"parts": [{"text": says}]},
            "contents": [
                {"role": "user", "parts": [{"text": says}, {"inlineData": {"mimeType": "x", "data": KEPT}}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": KEPT, "thought": True},
                        {"functionCall": {"name": KEPT, "args": arguments}, "thoughtSignature": KEPT},
                    ],
                },
            ],
        },
        "ollama-chat": {
            "model": "m",
            "messages": [
                {"role": "system", "content": says},
                {"role": "user", "content": says, "images": [KEPT]},
                {
                    "role": "assistant",
                    "content": says,
                    "thinking": KEPT,
                    "tool_calls": [{"function": {"name": KEPT, "arguments": arguments}}],
                },
            ],
        },
        "bedrock-converse": {
            "system": [{"text": says}],
            "messages": [
                {"role": "user", "content": [{"text": says}]},
                {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": KEPT, "signature": KEPT}}},
                        {"toolUse": {"toolUseId": KEPT, "name": KEPT, "input": arguments}},
                    ],
                },
            ],
        },
    }


BODIES = bodies(SAYS, INPUT, TEXT_INPUT)
BODIES_HERE = bodies(HERE, INPUT_HERE, json.dumps(INPUT_HERE, indent=1))


def wire(name: str) -> Any:
    return next(api.wire for api in recognise.apis() if api.id == name)


def cleaned(
    name: str, body: Any, redact: Callable[[str, str], Redacted], spoken: OutsideResults | None = None
) -> bytes:
    document = Document(json.dumps(body).encode())
    (spoken or OutsideResults()).redact(document, wire(name).spoken(document), redact)
    return document.render()


@pytest.mark.parametrize("name", BODIES)
def test_what_is_said_is_redacted_and_nothing_else(name: str, redactor: Redactor) -> None:
    out = cleaned(name, BODIES[name], redactor.redact)
    found = json.loads(PATTERN.sub("@", out.decode()))
    assert found == BODIES_HERE[name]
    assert cleaned(name, BODIES[name], redactor.redact) == out


def test_results_are_not_spoken() -> None:
    """They are redacted where they are shortened."""
    document = Document(json.dumps(anthropic(SAYS)).encode())
    values = [document.source(value) for value in wire("anthropic-messages").spoken(document)]
    assert values == [b'"hi"', b'{"command": "cat x"}']


def test_each_text_is_searched_once(redactor: Redactor) -> None:
    seen: list[str] = []

    def redact(text: str, hint: str) -> Redacted:
        seen.append(text)
        return redactor.redact(text, hint)

    spoken = OutsideResults()
    first = cleaned("openai-chat", BODIES["openai-chat"], redact, spoken)
    assert sorted(seen) == sorted([SAYS, TEXT_INPUT])
    assert cleaned("openai-chat", BODIES["openai-chat"], redact, spoken) == first
    assert len(seen) == 2


def test_memory_is_bounded(redactor: Redactor) -> None:
    spoken = OutsideResults(memory=1000)
    seen: list[str] = []

    def redact(text: str, hint: str) -> Redacted:
        seen.append(text)
        return Redacted(text)

    for _ in range(2):
        for number in range(20):
            cleaned("openai-chat", {"messages": [{"role": "user", "content": f"t{number}"}]}, redact, spoken)
    assert len(seen) == 40


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=20)
        | st.sampled_from([SAYS, f"password={PASSWORD}", "\ud800 " + SAYS, TEXT_INPUT]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["password", "a"]), inner)
        ),
        max_leaves=8,
    )
)
def test_json_stays_json(redactor: Redactor, value: Any) -> None:
    body = bodies(SAYS, value, json.dumps(value))
    for name in ("anthropic-messages", "openai-chat"):
        found = json.loads(cleaned(name, body[name], redactor.redact))
        if name == "openai-chat":
            json.loads(found["messages"][2]["tool_calls"][0]["function"]["arguments"])


def test_off_by_default(proxy: Any, clients: Any, upstream: Any) -> None:
    running = proxy("reverse")
    body = {**anthropic("nothing"), "system": SAYS}
    headers = {"x-api-key": "k", "anthropic-version": "1"}
    clients.http(running).post(f"{running.url}/v1/messages", json=body, headers=headers)
    assert upstream.requests[-1].json == body


@pytest.mark.parametrize("api", ["anthropic", "openai", "responses"])
def test_end_to_end(api: str, proxy: Any, clients: Any, upstream: Any) -> None:
    running = proxy("reverse", penumbra_redact_scope="all")
    code = {"type": "object", "properties": {"command": {"type": "string"}}}
    arguments = json.dumps({"command": f"export GITHUB_TOKEN={GITHUB}"})
    schema = {"name": "Bash", "description": "x"}
    if api == "anthropic":
        path, tool = "/v1/messages", {**schema, "input_schema": code}
        body = {**anthropic(f"DB_PASSWORD={PASSWORD}\n"), "system": SAYS, "tools": [tool]}
        body["messages"][0]["content"] = SAYS
        body["messages"][1]["content"][0]["input"] = json.loads(arguments)
    elif api == "openai":
        path = "/v1/chat/completions"
        call = {"id": "call_1", "type": "function", "function": {"name": "Bash", "arguments": arguments}}
        body = {
            "model": "m",
            "tools": [{"type": "function", "function": {**schema, "parameters": code}}],
            "messages": [
                {"role": "system", "content": SAYS},
                {"role": "user", "content": SAYS},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": f"DB_PASSWORD={PASSWORD}\n"},
            ],
        }
    else:
        path = "/v1/responses"
        body = {
            "model": "m",
            "instructions": SAYS,
            "input": [
                {"role": "user", "content": SAYS},
                {"type": "function_call", "call_id": "call_1", "name": "Bash", "arguments": arguments},
                {"type": "function_call_output", "call_id": "call_1", "output": f"DB_PASSWORD={PASSWORD}\n"},
            ],
        }
    headers = {"x-api-key": f"all {api}", "authorization": f"Bearer all {api}", "anthropic-version": "1"}
    for _ in range(2):
        answer = clients.http(running).post(f"{running.url}{path}", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
    first, second = (received.body for received in upstream.requests[-2:])
    assert first == second
    assert GITHUB.encode() not in first
    assert PASSWORD.encode() not in first
    assert len(PATTERN.findall(first.decode())) == 4
    log = running.log()
    assert GITHUB not in log
    assert "github-token" in log
