"""The test providers refuse what the real ones refuse."""

from pathlib import Path
from typing import Any

import pytest

from support.filled import load
from support.upstream import Thinking, ToolCall, Upstream, turn

TABLE = load(Path(__file__).with_name("refused_requests"))
PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "converse": "/model/m/converse"}
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
KEY = {"authorization": "Bearer k"}
TOOLS = [{"name": "bash", "input_schema": {"type": "object"}}]


def text(words: str = "hi", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def result(name: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "out"}


def conversation(*contents: Any, **more: Any) -> dict[str, Any]:
    """Return a body whose messages alternate from the user on."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return {"model": "m", "max_tokens": 4096, "messages": messages, "tools": TOOLS, **more}


CALL = {"type": "tool_use", "id": "t1", "name": "bash", "input": {}}
GOOD = conversation("hi", [text("ok"), CALL], [result("t1"), text("go on")])


@pytest.fixture
def post(upstream: Upstream, clients: Any) -> Any:
    client = clients.http(None)

    def send(body: Any, path: str = "/v1/messages", headers: Any = HEADERS) -> Any:
        return client.post(f"http://127.0.0.1:{upstream.port}{path}", json=body, headers=headers)

    return send


@pytest.mark.parametrize(
    ("api", "body", "words"),
    [
        pytest.param(api, case["body"], case["says"], id=f"{api}, {name}")
        for api, cases in TABLE.items()
        for name, case in cases.items()
    ],
)
def test_invalid_requests_are_refused_with_a_reason(
    api: str, body: Any, words: str, post: Any, upstream: Upstream
) -> None:
    answer = post(body, PATHS[api], HEADERS if api == "anthropic" else KEY)
    assert answer.status_code == 400
    said = answer.json() if api == "converse" else answer.json()["error"]
    assert words in said["message"]
    assert words in upstream.requests[0].problem


DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}
CITED = text(citations=[{"type": "char_location", "cited_text": "d"}])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**GOOD, "temperature": 1.0}, "temperature: Extra inputs"),
        ({**GOOD, "top_k": 3}, "top_k: Extra inputs"),
        (conversation("hi", [text("ok"), DOCUMENT], "go on"), "can not be in `assistant` messages"),
        (conversation([CITED]), "citations: Extra inputs"),
    ],
    ids=["temperature", "top_k", "document", "citations"],
)
def test_the_newer_version_takes_less(body: Any, words: str, post: Any) -> None:
    newer = {**KEY, "anthropic-version": "2026-10-21"}
    assert post(body).status_code == 200
    answer = post(body, headers=newer)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert post(GOOD, headers=newer).status_code == 200
    assert post(GOOD, headers={**newer, "anthropic-version": "2026-10-22"}).status_code == 400


@pytest.mark.parametrize("change", ["cache breakpoint", "message", "tool added", "system", "thinking text"])
def test_bound_thinking_elsewhere_is_refused(change: str, post: Any, upstream: Upstream) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    upstream.answers(turn(Thinking("hm"), ToolCall("bash", {"command": "ls"})))
    content = post(conversation("hi", thinking=thinking)).json()["content"]
    body = conversation("hi", content, [result(content[1]["id"])], thinking=thinking)
    assert post(body).status_code == 200
    expected = "bound to a different conversation"
    if change == "cache breakpoint":
        body["messages"][0]["content"] = [text("hi", cache_control={"type": "ephemeral"})]
        expected = "Understood."
    elif change == "message":
        body["messages"][0]["content"] = "ho"
    elif change == "tool added":
        body["tools"] = [*TOOLS, {"name": "expand_context", "input_schema": {"type": "object"}}]
    elif change == "system":
        body["system"] = "You are"
    else:
        body["messages"][1]["content"][0]["thinking"] = "hmm"
        expected = "cannot be modified"
    answer = post(body)
    assert answer.status_code == (200 if expected == "Understood." else 400)
    assert expected in answer.text


def test_reasoning_of_bedrock_is_bound_to_its_prefix(post: Any, upstream: Upstream) -> None:
    def prompt(words: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"text": words}]}

    upstream.answers(turn(Thinking("Hm."), "So."))
    answer = post({"messages": [prompt("hi")]}, PATHS["converse"], KEY).json()["output"]["message"]
    for words, status in (("hi", 200), ("Else.", 400)):
        body = {"messages": [prompt(words), answer, prompt("Go on.")]}
        assert post(body, PATHS["converse"], KEY).status_code == status


def test_counting_takes_no_max_tokens(post: Any) -> None:
    body = {key: GOOD[key] for key in ("model", "messages", "tools")}
    assert post(body, "/v1/messages/count_tokens").json()["input_tokens"] > 0
    assert "max_tokens: Extra inputs" in post(GOOD, "/v1/messages/count_tokens").text


SIGNED = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20200101/us-east-1/bedrock/aws4_request, SignedHeaders={}, "


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "security token"),
        ({"authorization": SIGNED.format("host") + f"Signature={'0' * 64}"}, "does not conform"),
        (
            {
                "authorization": SIGNED.format("host;x-amz-date") + f"Signature={'0' * 64}",
                "x-amz-date": "20200101T000000Z",
            },
            "Signature expired",
        ),
    ],
    ids=["none", "incomplete", "old"],
)
def test_unsigned_requests_to_bedrock_are_refused(headers: dict[str, str], words: str, post: Any) -> None:
    body = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
    assert post(body, PATHS["converse"], KEY).status_code == 200
    answer = post(body, PATHS["converse"], headers)
    assert answer.status_code == 403
    assert words in answer.json()["message"]


@pytest.mark.parametrize("wrong", [{"model": "m"}, {"stream": True}, {"anthropic_version": "1"}, {"x": 1}])
def test_invoke_takes_neither_model_nor_stream(wrong: dict[str, Any], post: Any) -> None:
    body = conversation("x", anthropic_version="bedrock-2023-05-31")
    del body["model"]
    assert post(body, "/model/m/invoke", KEY).status_code == 200
    assert post({**body, **wrong}, "/model/m/invoke", KEY).status_code == 400
