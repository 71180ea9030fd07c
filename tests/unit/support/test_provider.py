"""The test provider: what it refuses, how it cuts streams, and what it remembers."""

from __future__ import annotations

import copy
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from support.filled import load
from support.upstream import (
    Fault,
    Hangup,
    Raw,
    Text,
    Thinking,
    ToolCall,
    Turn,
    Upstream,
    decode,
    encode,
    turn,
)

TOOLS = [{"name": "bash", "input_schema": {"type": "object"}}]
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


def call(name: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "bash", "input": {}, **more}


def result(name: str = "t1", content: Any = "out", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def text(words: str = "hi", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def conversation(*contents: Any, **more: Any) -> dict[str, Any]:
    """Return a body whose messages alternate from the user on."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return {"model": "m", "max_tokens": 4096, "messages": messages, "tools": TOOLS, **more}


GOOD = conversation("hi", [text("ok"), call()], [result(), text("go on")])
REFUSED = load(Path(__file__).with_name("refused_requests"))["anthropic"]
CHAT_REFUSED = load(Path(__file__).with_name("refused_requests"))["chat"]
CACHED = {"type": "ephemeral"}


@pytest.fixture
def post(upstream: Upstream, clients: Any) -> Any:
    client = clients.http(None)

    def send(body: Any, path: str = "/v1/messages", headers: Any = HEADERS, **more: Any) -> Any:
        return client.post(f"http://127.0.0.1:{upstream.port}{path}", json=body, headers=headers, **more)

    return send


def test_takes_a_good_request(post: Any, upstream: Upstream) -> None:
    answer = post(GOOD)
    assert answer.status_code == 200
    assert answer.json()["content"] == [{"type": "text", "text": "Understood."}]
    assert upstream.requests[0].json == GOOD


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str, post: Any, upstream: Upstream) -> None:
    body, words = REFUSED[case]["body"], REFUSED[case]["says"]
    answer = post(body)
    assert answer.status_code == 400
    error = answer.json()
    assert (error["type"], error["error"]["type"]) == ("error", "invalid_request_error")
    assert words in error["error"]["message"]
    assert upstream.requests[0].problem == error["error"]["message"]


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
    newer = {"authorization": "Bearer k", "anthropic-version": "2026-10-21"}
    assert post(body).status_code == 200
    answer = post(body, headers=newer)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert post(GOOD, headers=newer).status_code == 200
    assert post(GOOD, headers={**newer, "anthropic-version": "2026-10-22"}).status_code == 400


def test_counting_takes_no_max_tokens(post: Any) -> None:
    body = {key: GOOD[key] for key in ("model", "messages", "tools")}
    assert post(body, "/v1/messages/count_tokens").json()["input_tokens"] > 0
    assert "max_tokens: Extra inputs" in post(GOOD, "/v1/messages/count_tokens").text


def think(post: Any, upstream: Upstream) -> dict[str, Any]:
    """Return a conversation with a bound thinking block."""
    thinking = {"type": "enabled", "budget_tokens": 1024}
    body = conversation("hi", thinking=thinking)
    upstream.answers(turn(Thinking("hm"), ToolCall("bash", {"command": "ls"})))
    content = post(body).json()["content"]
    return conversation("hi", content, [result(content[1]["id"])], thinking=thinking)


def test_bound_thinking_is_taken_back(post: Any, upstream: Upstream) -> None:
    body = think(post, upstream)
    assert post(body).status_code == 200
    moved = copy.deepcopy(body)
    moved["messages"][0]["content"] = [text("hi", cache_control=CACHED)]
    assert post(moved).status_code == 200


@pytest.mark.parametrize("change", ["message", "tool added", "system", "thinking text"])
def test_bound_thinking_elsewhere_is_refused(change: str, post: Any, upstream: Upstream) -> None:
    body = think(post, upstream)
    if change == "message":
        body["messages"][0]["content"] = "ho"
    elif change == "tool added":
        body["tools"] = [*TOOLS, {"name": "expand_context", "input_schema": {"type": "object"}}]
    elif change == "system":
        body["system"] = "You are"
    else:
        body["messages"][1]["content"][0]["thinking"] = "hmm"
    answer = post(body)
    assert answer.status_code == 400
    expected = "cannot be modified" if change == "thinking text" else "bound to a different conversation"
    assert expected in answer.text


def test_bound_thinking_is_dropped_on_demand(post: Any, upstream: Upstream) -> None:
    body = think(post, upstream)
    body["messages"][0]["content"] = "ho"
    body["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    beta = {**HEADERS, "anthropic-beta": "thinking-binding-controls-2026-08-01"}
    assert post(body, headers=beta).status_code == 200
    assert upstream.anthropic.dropped == ["messages.1.content.0"]


def test_binding_can_be_switched_off(post: Any, upstream: Upstream) -> None:
    body = think(post, upstream)
    body["messages"][0]["content"] = "ho"
    upstream.anthropic.enforce_binding = False
    assert post(body).status_code == 200


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **more}


USER = {"role": "user", "content": "hi"}
FUNCTION = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "out"}


@pytest.mark.parametrize("case", CHAT_REFUSED)
def test_chat_refuses(case: str, post: Any) -> None:
    body, words = CHAT_REFUSED[case]["body"], CHAT_REFUSED[case]["says"]
    answer = post(body, "/v1/chat/completions", {"authorization": "Bearer k"})
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


def test_chat_takes_a_good_request(post: Any) -> None:
    body = chat(USER, CALLS, ANSWER, tools=[FUNCTION], tool_choice="auto")
    assert post(body, "/v1/chat/completions", {"authorization": "Bearer k"}).status_code == 200


def test_embeddings_take_no_tools(post: Any) -> None:
    keys = {"authorization": "Bearer k"}
    assert post({"model": "e", "input": "a"}, "/v1/embeddings", keys).status_code == 200
    refused = post({"model": "e", "input": "a", "tools": []}, "/v1/embeddings", keys)
    assert "supplied: tools" in refused.text


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
def test_encodings(encoding: str, upstream: Upstream, clients: Any) -> None:
    import json

    data = json.dumps(GOOD).encode()
    url = f"http://127.0.0.1:{upstream.port}/v1/messages"
    packed = encode(encoding, data)
    assert decode(encoding, packed) == data
    client = clients.http(None)
    headers = {**HEADERS, "content-encoding": encoding, "accept-encoding": encoding}
    upstream.answers(turn("words " * 40, encoding="accept"))
    with client.stream("POST", url, content=packed, headers=headers) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == encoding
    assert b"words words" in decode(encoding, raw)
    assert upstream.requests[0].raw_body == packed
    assert upstream.requests[0].body == data
    assert client.post(url, content=packed[:-9], headers=headers).status_code == 400


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("split", [0, 1, 7, 100_000])
def test_streams_survive_any_cut(http2: bool, split: int, upstream: Upstream, clients: Any) -> None:
    verify = ssl.create_default_context(cafile=str(upstream.ca_file))
    client = clients.http(None, http2=http2, verify=verify)
    blocks = (
        Thinking("Überlegung"),
        Text("größer"),
        ToolCall("bash", {"command": "ls"}, fragments=('{"comm', 'and":"ls"}')),
    )
    whole, cut = turn(*blocks), turn(*blocks, split=split, pings=2)
    streams = []
    for answer in (whole, cut):
        upstream.reset()
        upstream.answers(answer)
        url = f"https://localhost:{upstream.tls_port}/v1/messages"
        got = client.post(url, json={**GOOD, "stream": True}, headers=HEADERS)
        streams.append(got.text.removeprefix('event: ping\ndata: {"type": "ping"}\n\n' * 2))
        assert upstream.requests[0].http_version == ("2" if http2 else "1.1")
    assert streams[0] == streams[1]
    assert '{"type":"input_json_delta","partial_json":"and\\":\\"ls\\"}"}' in streams[0]


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("answer", [Hangup(), turn("abc", cut_after=3)])
def test_connections_die_on_demand(http2: bool, answer: Any, upstream: Upstream, clients: Any) -> None:
    verify = ssl.create_default_context(cafile=str(upstream.ca_file))
    client = clients.http(None, http2=http2, verify=verify)
    upstream.answers(answer)
    url = f"https://localhost:{upstream.tls_port}/v1/messages"
    with pytest.raises(clients.httpx.TransportError):
        client.post(url, json={**GOOD, "stream": True}, headers=HEADERS)
    assert client.post(url, json=GOOD, headers=HEADERS).status_code == 200


def test_errors_and_raw_answers(post: Any, upstream: Upstream) -> None:
    fault = Fault(529, "Overloaded", (("retry-after", "3"),))
    upstream.answers(fault, Raw(502, (("content-type", "text/html"),), b"<html>"), turn("ab", error_after=3))
    overloaded = post(GOOD)
    assert (overloaded.status_code, overloaded.headers["retry-after"]) == (529, "3")
    assert overloaded.json()["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert post(GOOD).content == b"<html>"
    assert post({**GOOD, "stream": True}).text.split("event: ")[-1].startswith("error\n")


@pytest.mark.parametrize("http2", [False, True])
def test_knows_when_the_client_goes_away(http2: bool, upstream: Upstream, clients: Any) -> None:
    gate = threading.Event()
    upstream.answers(turn("abc", hold={4: gate}))
    verify = ssl.create_default_context(cafile=str(upstream.ca_file))
    client = clients.http(None, http2=http2, verify=verify)
    url = f"https://localhost:{upstream.tls_port}/v1/messages"
    with client.stream("POST", url, json={**GOOD, "stream": True}, headers=HEADERS) as answer:
        assert "message_start" in next(answer.iter_text())
    client.close()
    received = upstream.requests[0]
    assert received.done.wait(20)
    assert received.cancelled


def test_cache_figures_follow_the_prefix(post: Any, upstream: Upstream) -> None:
    upstream.script(lambda received: Turn((Text("a"),)))
    first = post(conversation("hi " * 100)).json()["usage"]
    second = post(conversation("hi " * 100, "a", "more")).json()["usage"]
    changed = post(conversation("ho " * 100, "a", "more")).json()["usage"]
    assert first["cache_read_input_tokens"] == 0
    assert second["cache_read_input_tokens"] == first["input_tokens"]
    assert changed["cache_read_input_tokens"] < first["input_tokens"]


@pytest.mark.parametrize("http2", [False, True])
def test_large_bodies_both_ways(http2: bool, upstream: Upstream, clients: Any) -> None:
    verify = ssl.create_default_context(cafile=str(upstream.ca_file))
    client = clients.http(None, http2=http2, verify=verify)
    url = f"https://localhost:{upstream.tls_port}/v1/messages"
    words = "some words " * 150_000
    for stream in (False, True):
        upstream.answers(turn(words, delta=110_000))
        answer = client.post(url, json=conversation(words, stream=stream), headers=HEADERS)
        assert answer.text.count("some words") == 150_000
    assert [len(request.json["messages"][0]["content"]) for request in upstream.requests] == [len(words)] * 2
