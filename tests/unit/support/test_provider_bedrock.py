"""The test provider's Bedrock: what it refuses, and that its streams are Amazon's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer

from support.filled import load
from support.upstream import Fault, Thinking, ToolCall, Upstream, turn

PATH = "/model/m/converse"
KEY = {"authorization": "Bearer k"}
TOOL = {"toolSpec": {"name": "bash", "inputSchema": {"json": {"type": "object"}}}}
CACHE = {"cachePoint": {"type": "default"}}


def use(name: str = "t1", **more: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": name, "name": "bash", "input": {}, **more}}


def result(name: str = "t1", *content: Any, **more: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": name, "content": list(content) or [{"text": "out"}], **more}}


def say(words: str = "hi") -> dict[str, Any]:
    return {"text": words}


def conversation(*contents: list[Any], **more: Any) -> dict[str, Any]:
    """Return a body whose messages alternate from the user on."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return {"messages": messages, "toolConfig": {"tools": [TOOL]}, **more}


GOOD = conversation([say()], [say("ok"), use()], [result(), say("go on")])
REFUSED = load(Path(__file__).with_name("refused_requests"))["converse"]


@pytest.fixture
def post(upstream: Upstream, clients: Any) -> Any:
    client = clients.http(None)

    def send(body: Any, path: str = PATH, headers: Any = KEY) -> Any:
        return client.post(f"http://127.0.0.1:{upstream.port}{path}", json=body, headers=headers)

    return send


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str, post: Any, upstream: Upstream) -> None:
    body, words = REFUSED[case]["body"], REFUSED[case]["says"]
    answer = post(body)
    assert answer.status_code == 400
    assert words in answer.json()["message"]
    assert words in upstream.requests[0].problem


def test_unsigned_requests_are_refused(post: Any) -> None:
    assert post(GOOD).status_code == 200
    signed = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20200101/us-east-1/bedrock/aws4_request"
    for headers, words in (
        ({}, "security token"),
        ({"authorization": f"{signed}, SignedHeaders=host, Signature={'0' * 64}"}, "does not conform"),
        (
            {
                "authorization": f"{signed}, SignedHeaders=host;x-amz-date, Signature={'0' * 64}",
                "x-amz-date": "20200101T000000Z",
            },
            "Signature expired",
        ),
    ):
        answer = post(GOOD, headers=headers)
        assert answer.status_code == 403
        assert words in answer.json()["message"]


def test_reasoning_is_bound_to_its_prefix(post: Any, upstream: Upstream) -> None:
    upstream.answers(turn(Thinking("Hm."), "So."))
    body = conversation([say()])
    content = post(body).json()["output"]["message"]["content"]
    later = [{"role": "assistant", "content": content}, {"role": "user", "content": [say("Go on."), CACHE]}]
    assert post({**body, "messages": [*body["messages"], *later]}).status_code == 200
    other = conversation([say("Else.")])
    assert post({**other, "messages": [*other["messages"], *later]}).status_code == 400


def test_streams_and_the_middle_of_them(post: Any, upstream: Upstream) -> None:
    upstream.answers(turn("Hi.", ToolCall("bash", {"a": 1}), error_after=5), Fault(429, "slow"))
    buffer = EventStreamBuffer()
    buffer.add_data(post(GOOD, f"{PATH}-stream").content)
    *events, error = buffer
    names = [one.headers[":event-type"] for one in events]
    assert names == [
        "messageStart",
        "contentBlockDelta",
        "contentBlockStop",
        "contentBlockStart",
        "contentBlockDelta",
    ]
    assert error.headers[":exception-type"] == "throttlingException"
    assert post(GOOD, f"{PATH}-stream").json() == {"message": "slow"}


def test_invoke_is_anthropics_without_model_and_stream(post: Any) -> None:
    body = {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}],
    }
    assert post(body, "/model/m/invoke").json()["content"] == [{"type": "text", "text": "Understood."}]
    for wrong in (
        {**body, "model": "m"},
        {**body, "stream": True},
        {**body, "anthropic_version": "1"},
        {**body, "x": 1},
    ):
        assert post(wrong, "/model/m/invoke").status_code == 400
    assert json.loads(post(body, "/model/m/invoke").content)["model"] == "m"
