"""Amazon Bedrock's signatures: a signed request can only be changed with its own keys."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from penumbra.wire.sigv4 import Keys, Signable
from support.agents.agent import PRINTS
from support.agents.bedrock_callers import HOST, TOOLS
from support.upstream import amazon, turn
from support.upstream.script import ToolCall

PATH = "/model/us.anthropic.claude-3-5-sonnet-20241022-v2%3A0/converse"
KEYS = Keys(amazon.KEY_ID, amazon.SECRET)


def conversation() -> bytes:
    call = {"toolUse": {"toolUseId": "tooluse_1", "name": "Bash", "input": {"command": "pytest -v"}}}
    result = {"toolUseId": "tooluse_1", "content": [{"text": PRINTS["pytest -v"]}]}
    messages = [
        {"role": "user", "content": [{"text": "Why does it fail?"}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]
    return json.dumps({"messages": messages, "toolConfig": {"tools": TOOLS}}).encode()


def headers(body: bytes, keys: Keys = KEYS, **more: str) -> dict[str, str]:
    plain = {"Content-Type": "application/json", **more}
    request = AWSRequest("POST", f"https://{HOST}{PATH}", plain, body)
    SigV4Auth(Credentials(keys.id, keys.secret), "bedrock", "us-east-1").add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


CONVERSATION = conversation()


@pytest.fixture
def send(clients: Any, upstream: Any) -> Any:
    def send(running: Any, body: bytes = CONVERSATION, **more: str) -> tuple[int, bytes, bool]:
        """Status of a request's answer, what reached the provider, and whether that was changed."""
        client = clients.http(running)
        answer = client.post(f"https://{HOST}{PATH}", content=body, headers=more or headers(body))
        received = upstream.requests[-1]
        return answer.status_code, received.raw_body, received.raw_body != body

    return send


def test_requests_with_a_key_are_read(send: Any, proxy: Any) -> None:
    key = {"authorization": "Bearer k", "content-type": "application/json"}
    status, body, changed = send(proxy("regular"), **key)
    assert (status, changed) == (200, True)
    (result,) = json.loads(body)["messages"][2]["content"]
    (text,) = [block["text"] for block in result["toolResult"]["content"]]
    assert "assert 702 == 700" in text
    assert len(text) < 0.7 * len(PRINTS["pytest -v"])


def test_headers_that_are_changed_were_signed_too(send: Any, signing_proxy: Any) -> None:
    """The stand-in refuses what is not signed well."""
    more = {"Accept-Encoding": "gzip, exi", "X-Compression-Threshold": "100"}
    signed = headers(CONVERSATION, **more, **{"Content-Length": str(len(CONVERSATION))})
    assert "accept-encoding;content-length;content-type;host;x-amz-date;x-comp" in signed["authorization"]
    status, _, changed = send(signing_proxy, **signed)
    assert (status, changed) == (200, True)
    nothing_to_do = b'{"messages":[{"role":"user","content":[{"text":"hi"}]}]}'
    status, _, changed = send(signing_proxy, nothing_to_do, **headers(nothing_to_do, **more))
    assert (status, changed) == (200, False)


def test_nobody_gets_a_signature_of_other_keys(send: Any, signing_proxy: Any) -> None:
    for keys in (Keys(KEYS.id, "another"), Keys("AKIDOTHER", KEYS.secret)):
        status, _, changed = send(signing_proxy, **headers(CONVERSATION, keys))
        assert (status, changed) == (403, False)
    assert signing_proxy.log().count("they are signed") == 1


def test_hidden_requests_are_signed_with_their_own_time(send: Any, signing_proxy: Any, upstream: Any) -> None:
    """A model may think for longer than a signature is good."""
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=4)
    date = before.strftime("%Y%m%dT%H%M%SZ")
    signed = headers(CONVERSATION)
    earlier = KEYS.sign(Signable("POST", PATH, {"host": HOST, **signed}, CONVERSATION), date)
    upstream.answers(turn(ToolCall("expand_context", {"id": "shadow_no"})), turn("Done."))
    assert send(signing_proxy, **{**signed, **earlier})[0] == 200
    first, second = upstream.asked()
    assert first.header("x-amz-date") == date
    assert second.header("x-amz-date") > date
    assert second.status == 200
