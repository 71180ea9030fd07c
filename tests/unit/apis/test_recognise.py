"""Recognition of LLM calls: every example of the rule file, and requests that only look like one."""

import pytest

from penumbra import rules
from penumbra.apis import recognise
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson

EXAMPLES = rules.load("providers.yaml")["examples"]


def recognised(host, method, path, body, extra=()):
    if not recognise.is_llm_host(host, extra):
        return None
    api = recognise.by_request_line(method, path)
    if api is None:
        return None
    try:
        return api.id if api.fits(Document(body.encode())) else None
    except NotJson:
        return None


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example['host']}{example['path']}")
def test_every_example_of_the_rules(example):
    found = recognised(example["host"], example["method"], example["path"], example["body"])
    assert found == example["is"]


def test_the_examples_name_every_api():
    assert {example["is"] for example in EXAMPLES} >= {api.id for api in recognise.apis()}


def test_hosts_are_compared_without_case_and_closing_dot():
    assert recognise.is_llm_host("API.Anthropic.COM.")
    assert recognise.is_llm_host("[::1]")
    assert not recognise.is_llm_host("anthropic.com.example.org")
    assert not recognise.is_llm_host("")


def test_an_operator_can_name_hosts():
    body = '{"messages":[]}'
    assert recognised("llm.corp.example", "POST", "/v1/chat/completions", body) is None
    for extra in (("llm.corp.example",), ("*.CORP.example",)):
        assert (
            recognised("llm.corp.example", "POST", "/v1/chat/completions", body, extra=extra) == "openai-chat"
        )


@pytest.mark.parametrize(
    "path", ["/v1/messages/x", "/v1/complete", "/chat/completions/x", "/v1/messages/..", "/v1%3Fx/messages"]
)
def test_other_paths_are_none(path):
    assert recognised("localhost", "POST", path, '{"model":"m","messages":[]}') is None


_ARN = "arn:aws:bedrock:r:1:inference-profile/us.m-v1:0"


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse&key=k", "gemini-2.5-pro"),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/claude-4@20250929:rawPredict",
            "claude-4@20250929",
        ),
        ("/model/us.anthropic.claude-sonnet-4-5-v1%3A0/converse", "us.anthropic.claude-sonnet-4-5-v1:0"),
        ("/model/arn:aws:bedrock:r:1:inference-profile/us.m-v1:0/invoke", _ARN),
        ("/model/arn%3Aaws%3Abedrock%3Ar%3A1%3Ainference-profile%2Fus.m-v1%3A0/converse-stream", _ARN),
        ("/v1/messages?model=/models/x", ""),
        ("/v1internal:generateContent", ""),
    ],
)
def test_models_in_paths(path: str, model: str) -> None:
    assert recognise.model_in(path) == model


# WebSockets that are refused so that the client continues over HTTP, which Penumbra can read.


@pytest.mark.parametrize(
    ("method", "path", "headers", "found"),
    [
        ("GET", "/v1/responses", {"upgrade": "websocket"}, True),
        ("GET", "/backend-api/codex/responses", {"upgrade": "WebSocket"}, True),
        ("GET", "/v1/responses", {}, False),
        ("POST", "/v1/responses", {"upgrade": "websocket"}, False),
        ("GET", "/v1/realtime?model=m", {"upgrade": "websocket"}, False),
        ("GET", "/v1/responses/compact", {"upgrade": "websocket"}, False),
    ],
)
def test_websockets_of_known_paths_are_refused(
    method: str, path: str, headers: dict[str, str], found: bool
) -> None:
    api = recognise.asks_for(method, path, headers)
    assert (api.id if api else "") == ("openai-responses" if found else "")
