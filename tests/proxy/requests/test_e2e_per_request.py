"""What one request may ask for: `_forge`, `X-Compression-Threshold`, and what the operator forbids."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from support.agents.agent import PRINTS
from support.agents.requests import result_texts
from support.apis import chat, messages

LOG = PRINTS["docker compose logs worker"]
KEYS = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
FORGE = "tool_output_compression"


BODIES = {"anthropic": ("/v1/messages", messages), "openai": ("/v1/chat/completions", chat)}


@pytest.fixture
def post(clients: Any, proxy: Any, upstream: Any, api_key: str) -> Any:
    running = proxy("reverse")
    client = clients.http(running)

    def send(api: str, headers: dict[str, str] | None = None, text: str = LOG, **more: Any) -> Any:
        path, make = BODIES[api]
        keys = {**KEYS, "x-api-key": api_key, "authorization": f"Bearer {api_key}", **(headers or {})}
        return client.post(running.url + path, content=json.dumps(make(text, **more)).encode(), headers=keys)

    return send


def arrived(upstream: Any) -> str:
    """The one result of the last request, as it arrived."""
    [text] = result_texts(upstream.requests[-1].json)
    return text


MODES = {
    "off": "off",
    "word": "Disabled ",
    "false": "false",
    "object": {"mode": "none", "memo": True},
}


@pytest.mark.parametrize("value", MODES.values(), ids=MODES)
@pytest.mark.parametrize("api", BODIES)
def test_forge_is_obeyed_and_taken_out(api: str, value: Any, post: Any, upstream: Any) -> None:
    answer = post(api, _forge={FORGE: value, "debug": {"a": 1}})
    assert answer.status_code == 200
    assert b"_forge" not in upstream.requests[-1].raw_body
    assert arrived(upstream) == LOG


@pytest.mark.parametrize("api", BODIES)
def test_forge_takes_nothing_else_out(api: str, post: Any, upstream: Any) -> None:
    assert post(api, _forge={}, stream=False).status_code == 200
    received = upstream.requests[-1]
    assert list(received.json) == [*BODIES[api][1](LOG), "stream"]
    assert len(arrived(upstream)) < len(LOG)


@pytest.mark.parametrize("api", BODIES)
def test_forge_inside_of_messages_is_taken_out(api: str, post: Any, upstream: Any) -> None:
    _path, make = BODIES[api]
    said = make(LOG)["messages"]
    said[0]["_forge"] = {"tool_status": "ok"}
    assert post(api, messages=said).status_code == 200
    assert b"_forge" not in upstream.requests[-1].raw_body


BAD = {
    "no object": ("on", "_forge must be an object"),
    "a number": ({FORGE: 1}, "_forge.tool_output_compression must be a string or object"),
    "true": ({FORGE: True}, "_forge.tool_output_compression must be a string or object"),
    "null": ({FORGE: None}, "_forge.tool_output_compression must be a string or object"),
    "word": ({FORGE: "max"}, "tool output compression must be disabled, safe, standard, or aggressive, got 'max'"),
    "mode": ({FORGE: {"mode": 1}}, "_forge.tool_output_compression.mode must be a string"),
    "method": ({FORGE: {"method": "zip"}}, "tool output compression method must be lzw, repair, or auto, got 'zip'"),
    "session": ({FORGE: {"session_id": 5}}, "_forge.tool_output_compression.session_id must be a string"),
    "dedup": ({FORGE: {"dedup": "yes"}}, "_forge.tool_output_compression.dedup must be a boolean"),
    "float": ({FORGE: {"max_output_bytes": 10.0}}, "_forge.tool_output_compression.max_output_bytes must be a positive integer"),
    "large": ({FORGE: {"max_output_bytes": 1_048_577}}, "_forge.tool_output_compression.max_output_bytes must be <= 1048576"),
    "redaction": ({FORGE: {"redact_secrets": False}}, "redact_secrets"),
    "misspelt": ({FORGE: {"redact_secret": True}}, "_forge.tool_output_compression.redact_secret is unknown, did you mean redact_secrets?"),
    "a misspelt member": (
        {"tool_output_compresion": "off"},
        "_forge.tool_output_compresion is unknown, did you mean tool_output_compression?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("api", BODIES)
def test_a_bad_value_is_refused_in_the_words_of_the_api(
    api: str, case: str, post: Any, upstream: Any
) -> None:
    value, words = BAD[case]
    answer = post(api, _forge=value)
    assert answer.status_code == 400
    error = answer.json()
    assert words in error["error"]["message"]
    assert error["error"]["type"] == "invalid_request_error"
    assert error.get("type") == ("error" if api == "anthropic" else None)
    assert upstream.requests == []


def test_the_sdks_understand_the_refusal(clients: Any, proxy: Any) -> None:
    running = proxy("regular")
    bad = {"_forge": {FORGE: "max"}}
    hello = [{"role": "user", "content": "hi"}]
    with pytest.raises(anthropic.BadRequestError, match="got 'max'"):
        clients.anthropic(running).messages.create(model="m", max_tokens=1, messages=hello, extra_body=bad)
    with pytest.raises(openai.BadRequestError, match="got 'max'"):
        clients.openai(running).chat.completions.create(model="m", messages=hello, extra_body=bad)


def test_the_operator_may_allow_it(clients: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("reverse", penumbra_allow_redaction_off="true")
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    body = chat(f"token: {token}\n", _forge={FORGE: {"mode": "off", "redact_secrets": False}})
    keys = {**KEYS, "authorization": "Bearer k"}
    answer = clients.http(running).post(
        f"{running.url}/v1/chat/completions", content=json.dumps(body).encode(), headers=keys
    )
    assert answer.status_code == 200
    assert token in arrived(upstream)


@pytest.mark.parametrize("api", BODIES)
def test_threshold_header(api: str, post: Any, upstream: Any) -> None:
    assert post(api, {"X-Compression-Threshold": "off"}).status_code == 200
    received = upstream.requests[-1]
    assert received.header("x-compression-threshold") is None
    assert arrived(upstream) == LOG
    assert post(api, {"x-compression-threshold": "64k"}, text=LOG + "1").status_code == 200
    assert arrived(upstream) == LOG + "1"
    assert post(api, {"x-compression-threshold": "100"}, text=LOG + "2").status_code == 200
    assert len(arrived(upstream)) < len(LOG)
    refused = post(api, {"x-compression-threshold": "lots"})
    assert refused.status_code == 400
    assert "X-Compression-Threshold" in refused.json()["error"]["message"]


def test_token_counting_sees_what_a_shadow_hides_and_no_phantom(
    clients: Any, proxy: Any, upstream: Any
) -> None:
    """A result of which something is left out is counted in the form in which it is sent."""
    text = "\n".join(f"line {number} of {number * 7919}" for number in range(9000))
    tool = {"name": "Bash", "input_schema": {"type": "object"}}
    body = messages(text, tools=[tool])
    running = proxy("reverse")
    for path in ("/v1/messages/count_tokens", "/v1/messages"):
        sent = {key: value for key, value in body.items() if key != "max_tokens" or path == "/v1/messages"}
        clients.http(running).post(f"{running.url}{path}", json=sent, headers=KEYS)
    counted, asked = upstream.requests[-2:]
    assert counted.json["messages"] == asked.json["messages"]
    assert "<<<SHADOW:shadow_" in next(iter(result_texts(counted.json)))
    assert [tool["name"] for tool in asked.json["tools"]][-1] == "expand_context"
    assert "expand_context" not in json.dumps(counted.json.get("tools"))
