"""Requests for a summary that don't fit are bounded, before they are refused or after."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.refused import JSON, TOO_LONG, TOOLS, Client, claude, prose
from support.upstream import Raw, turn

COMPACT = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the conversation so far."


def test_a_compaction_request_that_does_not_fit_is_bounded(client: Client, upstream: Any) -> None:
    upstream.answers(Raw(400, JSON, TOO_LONG), turn("<summary>all of it</summary>"))
    body = claude(30)
    body["messages"].append({"role": "assistant", "content": "That was all."})
    body["messages"].append({"role": "user", "content": COMPACT})
    answer = client.post(body, "api.anthropic.com")
    assert answer.status_code == 200
    first, second = (received.json["messages"] for received in upstream.asked())
    assert len(second) < len(first)
    assert second[0]["content"].startswith("[Compact input budget applied]")
    assert second[-1] == first[-1] == body["messages"][-1]


def test_a_compaction_request_that_fits_is_what_it_would_be_anyway(client: Client, upstream: Any) -> None:
    body = claude(30)
    body["messages"].append({"role": "assistant", "content": "That was all."})
    client.post(body | {"messages": body["messages"][:-1]}, "api.anthropic.com")
    body["messages"].append({"role": "user", "content": COMPACT})
    client.post(body, "api.anthropic.com")
    before, after = (received.json["messages"] for received in upstream.asked())
    assert after[: len(before)] == before


def test_codex_own_endpoint_for_compaction_is_bounded_too(
    clients: Any, proxy: Any, upstream: Any, api_key: str
) -> None:
    path = "/v1/responses/compact"
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    ]
    for n in range(20):
        items += [
            {"type": "function_call", "call_id": f"c{n}", "name": "read_notes", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{n}", "output": prose(n + 3)},
        ]
    refusal = b'{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","type":"invalid_request_error"}}'
    upstream.pages[path] = Raw(400, JSON, refusal)
    body = json.dumps({"model": "gpt-5", "input": items}).encode()
    headers = {"authorization": f"Bearer {api_key}", "content-type": "application/json"}
    answer = clients.http(proxy()).post(f"https://api.openai.com{path}", content=body, headers=headers)
    assert (answer.status_code, answer.content) == (400, refusal)
    sent = [json.loads(received.raw_body)["input"] for received in upstream.requests if received.path == path]
    assert len(sent) == 3
    assert [len(json.dumps(one)) for one in sent] == sorted(
        (len(json.dumps(one)) for one in sent), reverse=True
    )
    assert sent[1][0]["content"][0]["text"].startswith("[Compact input budget applied]")
    assert sent[1][-1] == sent[0][-1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_compaction_request_is_bounded_before_it_is_refused(
    stream: bool, client: Client, upstream: Any
) -> None:
    """Nothing of it is cached: it brings a prompt of its own."""
    upstream.answers(turn("<summary>all of it</summary>"))
    body = claude(90, stream=stream)
    body |= {
        "model": "something-new",
        "tools": TOOLS[:1],
        "system": "You are a helpful AI assistant tasked with summarizing conversations.",
    }
    body["messages"].append({"role": "assistant", "content": "That was all."})
    body["messages"].append({"role": "user", "content": COMPACT})
    answer = client.post(body, "api.anthropic.com")
    assert answer.status_code == 200
    assert b"all of it" in answer.content
    (sent,) = (received.json["messages"] for received in upstream.asked())
    assert sum(len(json.dumps(message)) for message in sent) <= 120 * 1024
    assert sent[0]["content"].startswith("[Compact input budget applied]")
    assert sent[-1] == body["messages"][-1]


def test_a_learned_limit_bounds_the_next_summary_at_once(client: Client, upstream: Any) -> None:
    upstream.answers(Raw(400, JSON, TOO_LONG), turn("Taken."), turn("<summary>all of it</summary>"))
    body = claude(30)
    assert client.post(body, "api.anthropic.com").status_code == 200
    talk = {"role": "user", "content": "\n".join(f"And {n * 7919 % 10007} of {n}?" for n in range(6000))}
    body["messages"] += [{"role": "assistant", "content": "So."}, talk]
    body["messages"].append({"role": "assistant", "content": "That was all."})
    body["messages"].append({"role": "user", "content": COMPACT})
    assert client.post(body, "api.anthropic.com").status_code == 200
    _, _, sent = (received.json["messages"] for received in upstream.asked())
    assert sent[-3]["content"].endswith(talk["content"][-50:])
    assert "chars due to provider limits]" in sent[-3]["content"]
    assert len(sent[-3]["content"]) <= 2_900
    assert sent[-1] == body["messages"][-1]
