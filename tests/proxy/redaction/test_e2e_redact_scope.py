"""`penumbra_redact_scope=all`: what is said outside of tool results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.redaction.placeholder import PATTERN
from support.bodies_with_secrets import SAYS
from support.planted import GITHUB, PASSWORD, anthropic


def test_off_by_default(proxy: Any, clients: Any, upstream: Any) -> None:
    running = proxy("reverse")
    body = {**anthropic("nothing"), "system": SAYS}
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
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
    headers = {
        "x-api-key": f"all {api}",
        "authorization": f"Bearer all {api}",
        "anthropic-version": "2023-06-01",
    }
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
