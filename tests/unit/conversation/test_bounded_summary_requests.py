"""Requests for a summary, bounded before they are sent: what fits stays, what is not cached has a budget."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from penumbra.apis.recognise import apis
from penumbra.compress import token_estimate
from penumbra.compress.result import Mode, Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite, summary_requests
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Inputs
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.wire.document import Document

CLAUDE = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the conversation so far."
TOOLS = [{"name": "read_notes", "input_schema": {"type": "object"}}]


def prose(seed: int, lines: int = 60) -> str:
    return "\n".join(
        f"{n * 7919 % 10007:05} {seed * n % 9973:05} words of {n * seed % 991}" for n in range(1, lines)
    )


def session(count: int, **more: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "look at all of it"}]
    for n in range(count):
        call = {"type": "tool_use", "id": f"toolu_own{n:021}", "name": "read_notes", "input": {"part": n}}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": prose(n + 3)}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    messages += [{"role": "assistant", "content": "That was all."}, {"role": "user", "content": CLAUDE}]
    return {"model": "claude-x", "max_tokens": 99, "tools": TOOLS, "messages": messages, **more}


def sent(
    body: dict[str, Any],
    limits: LearnedLimits | None = None,
    name: str = "anthropic-messages",
    path: str = "/v1/messages",
    **settings: Any,
) -> dict[str, Any]:
    """What becomes of a body."""
    api = next(one for one in apis() if one.id == name)
    made = Settings(Mode.SAFE, redact_secrets=False, dedup=False, adopt="raw", **settings)
    request = read.read(Document(json.dumps(body).encode()), api, made, b"s" * 32)
    assert request is not None
    result, _ = rewrite.compose(
        Inputs(
            replace(request, path=path),
            {},
            lambda text, hint: Redacted(text),
            None,
            state=ConversationState(None, limits or LearnedLimits()),
        ),
        None,
        LineIndexes(),
    )
    value: dict[str, Any] = json.loads(result.body)
    return value


def is_bounded(body: dict[str, Any], key: str = "messages") -> bool:
    return any("[Compact input budget applied]" in json.dumps(message) for message in body[key])


def test_what_shares_the_cache_changes_only_where_it_would_not_fit() -> None:
    body = session(70)
    assert sent(body) == body
    made = sent(body, LearnedLimits(window=30_000))
    assert is_bounded(made)
    assert token_estimate.estimate(json.dumps(made)) <= 30_000 * 0.9
    assert made["messages"][-1] == body["messages"][-1]
    assert sent(body, LearnedLimits(window=300_000)) == body


def test_a_window_that_is_known_for_sure_is_kept_to() -> None:
    body = session(400, model="claude-3-5-haiku-latest")
    assert token_estimate.estimate(json.dumps(body)) > 200_000
    made = sent(body)
    assert is_bounded(made)
    assert token_estimate.estimate(json.dumps(made)) < 200_000
    unknown = session(400, model="claude-x")
    assert sent(unknown) == unknown


OWN = {"system": "You are a helpful AI assistant tasked with summarizing conversations."}


@pytest.mark.parametrize("shape", [OWN, {"tools": []}])
def test_what_is_not_cached_has_a_budget(shape: dict[str, Any]) -> None:
    body = session(70, model="something-new", **shape)
    made = sent(body)
    assert is_bounded(made)
    assert (
        summary_requests.BUDGET * 0.7
        < sum(len(json.dumps(one)) for one in made["messages"])
        <= summary_requests.BUDGET
    )
    small = session(20, model="something-new", **shape)
    assert sent(small) == small
    # Half of the window that such a model is believed to have.
    assert sent({**body, "model": "claude-x"}) == {**body, "model": "claude-x"}


@pytest.mark.parametrize("settings", [{"recover": "off"}, {"lossy": "off"}])
def test_it_can_be_switched_off(settings: dict[str, Any]) -> None:
    body = session(70, model="something-new", **OWN)
    assert sent(body, **settings) == body


def test_an_ordinary_request_is_none() -> None:
    body = session(70, model="something-new", **OWN)
    body["messages"][-1]["content"] = "And what now?"
    assert sent(body) == body


def items(count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text", "text": "go"}]}]
    for n in range(count):
        found += [
            {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "r" * 200},
            {"type": "function_call", "call_id": f"c{n}", "name": "read", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": f"c{n}",
                "output": prose(n + 3, 6_000 if n == count - 1 else 60),
            },
        ]
    return found


@pytest.mark.parametrize("path", ["/v1/responses/compact", "/openai/v1/responses/compact/?api-version=1"])
def test_codex_endpoint_has_no_prompt_and_its_last_result_may_be_shortened(path: str) -> None:
    body = {"model": "something-new", "input": items(120)}
    made = sent(body, name="openai-responses-compact", path=path)
    assert is_bounded(made, "input")
    assert sum(len(json.dumps(one)) for one in made["input"]) <= summary_requests.BUDGET
    last = made["input"][-1]
    assert last["call_id"] == "c119"
    assert len(last["output"]) <= 2_900
    note = made["input"][0]["content"][0]["text"].split("\n")
    gone = len(body["input"]) - (len(made["input"]) - 1)
    # Reasoning within what stays is left out too, and counted.
    assert f"Original messages: {len(body['input'])}. Omitted messages: {gone}." in note
    assert not [one for one in made["input"] if one.get("type") == "reasoning"]


def test_a_history_at_the_provider_can_not_be_bounded() -> None:
    body = {
        "model": "gpt-4o",
        "previous_response_id": "resp_1",
        "input": [*items(400), {"type": "compaction_trigger"}],
    }
    made = sent(body, name="openai-responses", path="/v1/responses")
    assert len(made["input"]) == len(body["input"])
    assert not is_bounded(made, "input")


def test_codex_trigger_is_bounded_where_the_window_is_known() -> None:
    tools = [{"type": "function", "name": "read", "parameters": {}}]
    body = {"model": "gpt-4o", "tools": tools, "input": [*items(400), {"type": "compaction_trigger"}]}
    assert token_estimate.estimate(json.dumps(body)) > 128_000
    made = sent(body, name="openai-responses", path="/v1/responses")
    assert is_bounded(made, "input")
    assert made["input"][-1] == {"type": "compaction_trigger"}
    assert made["tools"] == tools
    calls = [one["call_id"] for one in made["input"] if one.get("type") == "function_call"]
    assert calls == [one["call_id"] for one in made["input"] if one.get("type") == "function_call_output"]


# Rules of the budget


def bound(body: dict[str, Any], format_name: str, budget: int) -> dict[str, Any]:
    made = summary_requests.bound(json.dumps(body).encode(), format_name, budget)
    assert made is not None
    value: dict[str, Any] = json.loads(made)
    return value


def test_a_message_of_many_texts_has_one_limit_in_bytes() -> None:
    blocks = [{"type": "text", "text": "\n".join(f"行{n}的文字" for n in range(150))} for _ in range(12)]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": blocks}
    body = session(9)
    body["messages"][1:1] = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "x", "input": {}}]},
        {"role": "user", "content": [result]},
    ]
    made = bound(body, "anthropic", 35_000)
    texts = [one["text"] for one in made["messages"][2]["content"][0]["content"]]
    assert len(texts) == 12
    assert sum(len(text.encode()) for text in texts) < 6_000


def test_thinking_that_the_call_under_way_needs_stays() -> None:
    body = session(9, thinking={"type": "enabled", "budget_tokens": 50})
    del body["messages"][-2]
    last = body["messages"].pop()
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    body["messages"][-2]["content"].insert(0, thought)
    body["messages"][-1]["content"].append({"type": "text", "text": last["content"]})
    made = bound(body, "anthropic", 12_000)
    assert made["messages"][-2:] == body["messages"][-2:]
    body["thinking"] = {"type": "adaptive"}
    assert thought not in bound(body, "anthropic", 12_000)["messages"][-2]["content"]


def test_converse_keeps_calls_with_their_results() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"text": "go"}]}]
    for n in range(20):
        use = {
            "toolUse": {"toolUseId": f"t{n}", "name": "x", "input": {"text": "a" * (4000 if n == 19 else 4)}}
        }
        answer = {"toolResult": {"toolUseId": f"t{n}", "content": [{"text": prose(n + 3, 400)}]}}
        messages += [
            {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "hm"}}}, use]},
            {"role": "user", "content": [answer]},
        ]
    messages.append({"role": "user", "content": [{"text": "Summarize the conversation so far."}]})
    body = {"messages": messages}
    found = summary_requests.recognise(Document(json.dumps(body).encode()), "bedrock")
    assert found == summary_requests.Compaction("generic", shares_cache=False, prompted=True)
    made = bound(body, "bedrock", 30_000)["messages"]
    assert made[0]["content"][0]["text"].startswith("[Compact input budget applied]")
    assert made[-1] == messages[-1]
    uses = [one["content"][0]["toolUse"] for one in made[1:-1:2]]
    results = [one["content"][0]["toolResult"] for one in made[2:-1:2]]
    assert [one["toolUseId"] for one in uses] == [one["toolUseId"] for one in results]
    assert len(uses) > 3
    assert "_compacted_arguments" in uses[-1]["input"]
    assert all(len(one["content"][0]["text"]) <= 2_900 for one in results)


def test_converse_says_its_system_prompt_and_its_thinking_in_its_own_way() -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"text": prose(1, 400)}]}] * 3
    use = {"toolUse": {"toolUseId": "t", "name": "x", "input": {}}}
    answer = {"toolResult": {"toolUseId": "t", "content": [{"text": "y"}]}}
    asks = {"text": "Your task is to create a detailed summary of the conversation so far"}
    messages = [
        *messages,
        {"role": "assistant", "content": [thought, use]},
        {"role": "user", "content": [answer, asks]},
    ]
    body: dict[str, Any] = {"messages": messages, "toolConfig": {"tools": [{"toolSpec": {"name": "x"}}]}}
    found = summary_requests.recognise(Document(json.dumps(body).encode()), "bedrock")
    assert found is not None
    assert found.shares_cache
    body["system"] = [{"text": "You are a helpful AI assistant tasked with summarizing conversations."}]
    found = summary_requests.recognise(Document(json.dumps(body).encode()), "bedrock")
    assert found is not None
    assert not found.shares_cache
    assert thought not in bound(body, "bedrock", 500)["messages"][-2]["content"]
    body["additionalModelRequestFields"] = {"thinking": {"type": "enabled", "budget_tokens": 50}}
    assert thought in bound(body, "bedrock", 500)["messages"][-2]["content"]


def test_freeform_arguments_are_shortened_too() -> None:
    whole = [
        {"role": "user", "content": "go"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": "x" * 9_000},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": prose(3, 400)},
        {"type": "compaction_trigger"},
    ]
    made = bound({"input": whole}, "openai_responses", 14_000)["input"]
    assert json.loads(made[1]["input"]) == {"_compacted_arguments": "[9002 bytes of arguments left out]"}


HEADERS = [
    ("openai_responses", {"x-openai-subagent": "compact"}, "codex-subagent"),
    ("anthropic", {"x-stainless-helper": "BetaToolRunner, compaction"}, "anthropic-sdk"),
    ("openai_chat", {"x-codex-turn-metadata": '{"request_kind":"compaction"}'}, "codex-metadata"),
    ("anthropic", {"x-stainless-helper": "BetaToolRunner"}, None),
    ("openai_responses", {"x-openai-subagent": "review"}, None),
]


@pytest.mark.parametrize(("format_name", "headers", "expected"), HEADERS)
def test_headers_that_say_so(format_name: str, headers: dict[str, str], expected: str | None) -> None:
    key = "input" if format_name == "openai_responses" else "messages"
    document = Document(json.dumps({key: [{"role": "user", "content": "hi"}]}).encode())
    found = summary_requests.recognise(document, format_name, "/v1/x", headers)
    assert (found.id if found else None) == expected
