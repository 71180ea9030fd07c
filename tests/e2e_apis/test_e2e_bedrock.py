"""Amazon Bedrock: Converse requests with a key, and signed ones, which only their own keys may change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from e2e.agent import PRINTS
from penumbra.wire.sigv4 import Keys, Signable
from upstream import Raw

HOST = "bedrock-runtime.us-east-1.amazonaws.com"
PATH = "/model/us.anthropic.claude-3-5-sonnet-20241022-v2%3A0/converse"
KEYS = Keys("AKIDEXAMPLE", "secret/Key")
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEYS.id, "AWS_SECRET_ACCESS_KEY": KEYS.secret}
ANSWER = {
    "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
}


def conversation() -> bytes:
    call = {"toolUse": {"toolUseId": "tooluse_1", "name": "Bash", "input": {"command": "pytest -v"}}}
    result = {"toolUseId": "tooluse_1", "content": [{"text": PRINTS["pytest -v"]}]}
    messages = [
        {"role": "user", "content": [{"text": "Why does it fail?"}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]
    return json.dumps({"messages": messages}).encode()


def headers(body: bytes) -> dict[str, str]:
    request = AWSRequest("POST", f"https://{HOST}{PATH}", {"Content-Type": "application/json"}, body)
    SigV4Auth(Credentials(KEYS.id, KEYS.secret), "bedrock", "us-east-1").add_auth(request)
    return dict(request.headers.items())


@pytest.fixture
def send(clients: Any, upstream: Any) -> Any:
    upstream.pages[PATH] = Raw(body=json.dumps(ANSWER).encode())

    def send(running: Any, **more: str) -> Any:
        """What reached the provider of a request, and whether its signature is good."""
        body = conversation()
        client = clients.http(running)
        answer = client.post(f"https://{HOST}{PATH}", content=body, headers=more or headers(body))
        assert answer.json() == ANSWER
        received = upstream.requests[-1]
        found = {name.lower(): value for name, value in received.headers}
        good = KEYS.made(Signable("POST", received.target, found, received.raw_body))
        return received.raw_body, received.raw_body != body, good

    return send


def test_requests_with_a_key_are_read(send: Any, proxy: Any) -> None:
    body, changed, _ = send(
        proxy("regular"), authorization="Bearer k", **{"content-type": "application/json"}
    )
    assert changed
    (text,) = [
        block["text"] for block in json.loads(body)["messages"][2]["content"][0]["toolResult"]["content"]
    ]
    assert "assert 702 == 700" in text
    assert len(text) < 0.7 * len(PRINTS["pytest -v"])


def test_signed_requests_pass_untouched_with_one_line(send: Any, own_proxy: Any) -> None:
    running = own_proxy("regular")
    for _ in range(2):
        _, changed, good = send(running)
        assert (changed, good) == (False, True)
    assert running.log().count("they are signed") == 1


def test_signed_requests_are_signed_anew_with_their_own_keys(send: Any, own_proxy: Any) -> None:
    running = own_proxy("regular", environment=ENVIRONMENT, penumbra_aws_signing="environment")
    _, changed, good = send(running)
    assert (changed, good) == (True, True)


def test_nobody_gets_a_signature_of_other_keys(send: Any, own_proxy: Any) -> None:
    other = {**ENVIRONMENT, "AWS_SECRET_ACCESS_KEY": "another"}
    running = own_proxy("regular", environment=other, penumbra_aws_signing="environment")
    _, changed, good = send(running)
    assert (changed, good) == (False, True)
