"""What clients are told of their requests' size, once a refusal has shown that less fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penumbra.apis.edited_bytes import EditedBytes
from penumbra.apis.scaled_usage import ScaledUsage
from penumbra.conversation import context_windows
from penumbra.conversation.usage_scaling import UsageScale, told
from penumbra.store.conversations import LearnedLimits
from proxy.retry.test_e2e_retry import JSON, Client, chat, claude
from support.upstream import Raw, Text, ToolCall, turn

# What is known of windows


@pytest.mark.parametrize("example", context_windows.table()["examples"], ids=str)
def test_the_examples_of_the_rule_file(example: Any) -> None:
    found = context_windows.of(example.get("model", ""), example.get("headers", {}), example.get("path", ""))
    assert (found.tokens, found.believed) == (example["window"], example["believed"])


@pytest.mark.parametrize(
    ("lesson", "believed", "cut", "expected"),
    [
        (LearnedLimits(), 200_000, True, None),
        (LearnedLimits(tokens=9), 200_000, True, None),
        (LearnedLimits(window=100_000), 200_000, False, UsageScale(100_000, 200_000)),
        (LearnedLimits(window=100_000), 200_000, True, UsageScale(85_000, 200_000)),
        (LearnedLimits(window=200_000), 200_000, False, None),
        (LearnedLimits(window=200_000), 200_000, True, UsageScale(170_000, 200_000)),
        (LearnedLimits(window=400_000), 200_000, True, None),
        (LearnedLimits(window=100_000), 0, True, None),
        (LearnedLimits(window=4_000), 1_048_576, False, None),
    ],
)
def test_nothing_is_told_before_a_limit_is_known(lesson: Any, believed: Any, cut: Any, expected: Any) -> None:
    assert told(lesson, believed, cut) == expected


def test_a_count_is_never_smaller_and_exact_in_parts_of_the_window() -> None:
    one = UsageScale(64_000, 200_000)
    assert [one.count(n) for n in (0, 1, 64_000, 32_001)] == [0, 4, 200_000, 100_004]


# Figures of every API


def double(count: int) -> int:
    return 2 * count


CASES = [
    (
        "anthropic",
        '{"type":"message_start","message":{"id":"m","usage":{"input_tokens": 7,"cache_creation_input_tokens":5,"cache_read_input_tokens":90,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":0},"output_tokens":1}}}',
        '{"type":"message_start","message":{"id":"m","usage":{"input_tokens": 14,"cache_creation_input_tokens":10,"cache_read_input_tokens":180,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":0},"output_tokens":1}}}',
    ),
    (
        "anthropic",
        '{"type":"message_delta","delta":{},"usage":{"input_tokens":7,"output_tokens":44}}',
        '{"type":"message_delta","delta":{},"usage":{"input_tokens":14,"output_tokens":44}}',
    ),
    (
        "openai_chat",
        '{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":9,"total_tokens":109,"prompt_tokens_details":{"cached_tokens":64,"audio_tokens":0},"cost":0.0012}}',
        '{"choices":[],"usage":{"prompt_tokens":200,"completion_tokens":9,"total_tokens":209,"prompt_tokens_details":{"cached_tokens":128,"audio_tokens":0},"cost":0.0012}}',
    ),
    (
        "openai_responses",
        '{"type":"response.completed","response":{"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":109}}}',
        '{"type":"response.completed","response":{"usage":{"input_tokens":200,"input_tokens_details":{"cached_tokens":128},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":209}}}',
    ),
    (
        "gemini",
        '{"candidates":[],"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":9,"cachedContentTokenCount":64,"totalTokenCount":109,"promptTokensDetails":[{"modality":"TEXT","tokenCount":100}]}}',
        '{"candidates":[],"usageMetadata":{"promptTokenCount":200,"candidatesTokenCount":9,"cachedContentTokenCount":128,"totalTokenCount":209,"promptTokensDetails":[{"modality":"TEXT","tokenCount":200}]}}',
    ),
    (
        "gemini",
        '{"response":{"usageMetadata":{"promptTokenCount":3,"totalTokenCount":4}}}',
        '{"response":{"usageMetadata":{"promptTokenCount":6,"totalTokenCount":7}}}',
    ),
    (
        "ollama",
        '{"done":true,"prompt_eval_count":26,"eval_count":9}',
        '{"done":true,"prompt_eval_count":52,"eval_count":9}',
    ),
    (
        "bedrock",
        '{"usage":{"inputTokens":5,"outputTokens":6,"totalTokens":11,"cacheReadInputTokens":0}}',
        '{"usage":{"inputTokens":10,"outputTokens":6,"totalTokens":16,"cacheReadInputTokens":0}}',
    ),
]


@pytest.mark.parametrize(("format_name", "before", "after"), CASES)
def test_input_figures_change_and_nothing_else(format_name: str, before: str, after: str) -> None:
    assert ScaledUsage(format_name, double).document(before.encode()).decode() == after


WORDS = '{"type":"content_block_delta","delta":{"text":"\\"input_tokens\\": 7"}}'
START, DELTA = CASES[0], CASES[1]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_stream_is_changed_event_by_event(size: int) -> None:
    events = [START[1], WORDS, DELTA[1]]
    stream = b": hi\r\n\r\n" + b"".join(b"event: x\r\ndata: %s\r\n\r\n" % one.encode() for one in events)
    usage = ScaledUsage("anthropic", double)
    edited = EditedBytes(usage, "anthropic", stream=True)
    made = (
        b"".join(edited.feed(stream[at : at + size]) for at in range(0, len(stream), size)) + edited.close()
    )
    assert made == stream.replace(START[1].encode(), START[2].encode()).replace(
        DELTA[1].encode(), DELTA[2].encode()
    )
    assert usage.real == {"input_tokens": 7, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 90}


@pytest.mark.parametrize("format_name", ["gemini", "ollama", "openai_chat"])
def test_other_framings_and_what_is_no_json(format_name: str) -> None:
    before, after = next(case[1:] for case in CASES if case[0] == format_name)
    framing = {
        "gemini": "[%s,\n%s]",
        "ollama": "%s\n%s\n",
        "openai_chat": "data: %s\n\ndata: %s\n\ndata: [DONE]\n\n",
    }
    edited = EditedBytes(ScaledUsage(format_name, double), format_name, stream=True)
    sent = (framing[format_name] % (before, before)).encode()
    assert edited.feed(sent) + edited.close() == (framing[format_name] % (after, after)).encode()
    whole = EditedBytes(ScaledUsage(format_name, double), format_name, stream=False)
    assert whole.feed(b"<html> prompt_tokens") + whole.close() == b"<html> prompt_tokens"


# Through the proxy


def refusal(have: int, limit: int) -> Raw:
    words = f"prompt is too long: {have} tokens > {limit} maximum"
    return Raw(400, JSON, json.dumps({"type": "error", "error": {"message": words}}).encode())


USAGE = {"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 60_000}


def usages(answer: Any, stream: bool) -> list[dict[str, int]]:
    """The usage objects of an answer, in order."""
    if not stream:
        return [answer.json()["usage"]]
    events = [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: ")]
    return [
        one.get("usage") or one["message"]["usage"]
        for one in events
        if one["type"] in ("message_start", "message_delta")
    ]


def inputs(usage: Any) -> list[int]:
    return [usage.get(name) for name in USAGE]


@pytest.mark.parametrize("stream", [True])
def test_a_recovered_conversation_is_told_in_parts_of_what_it_believes_in(
    stream: bool, own_proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    proxy = own_proxy()
    client = Client(clients, proxy, api_key)
    upstream.answers(refusal(110_000, 100_000), turn("Taken.", usage=USAGE), turn("Next.", usage=USAGE))
    first = client.post(claude(9, stream=stream), "api.anthropic.com")
    # 85,000 is what Penumbra keeps to, 200,000 what the client believes in.
    scaled = [-(-n * 200_000 // 85_000) for n in USAGE.values()]
    assert [inputs(usage) for usage in usages(first, stream)] == [scaled] * (1 + stream)
    assert b"Taken." in first.content
    proxy.restart()
    client = Client(clients, proxy, api_key)
    second = client.post(claude(10, stream=stream), "api.anthropic.com")
    assert [inputs(usage) for usage in usages(second, stream)] == [scaled] * (1 + stream)
    flow = proxy.flows()[-1]
    assert flow["metadata"]["penumbra_context_guard"]["told"]["cache_read_input_tokens"] == [
        60_000,
        scaled[2],
    ]
    assert "told 2.35 times the input tokens" in flow["comment"]
    # Compacted: nothing is cut any more, and the window itself is the measure.
    upstream.answers(turn("Fresh.", usage=USAGE))
    fresh = client.post({**claude(0, stream=stream)}, "api.anthropic.com")
    assert inputs(usages(fresh, stream)[0]) == [2 * n for n in USAGE.values()]


@pytest.mark.parametrize("stream", [False, True])
def test_hidden_turns_are_told_once_and_output_is_true(
    stream: bool, proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    """A refusal, then a turn that asks for an original, then words."""

    def ask(received: Any) -> Any:
        ref = json.dumps(received.json).split("<<<SHADOW:")[1][:39]
        return turn(ToolCall("expand_context", {"id": ref}), usage={**USAGE, "output_tokens": 30})

    steps = [
        lambda received: refusal(110_000, 100_000),
        ask,
        lambda received: turn(Text("Read it."), usage={**USAGE, "output_tokens": 12}),
    ]
    upstream.script(lambda received: steps.pop(0)(received))
    answer = Client(clients, proxy(), api_key).post(claude(9, stream=stream), "api.anthropic.com")
    last = usages(answer, stream)[-1]
    assert inputs(last) == [-(-n * 200_000 // 85_000) for n in USAGE.values()]
    assert last["output_tokens"] == 42


@pytest.mark.parametrize("stream", [False, True])
def test_chat_without_a_tool_of_ours(
    stream: bool, proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    usage = {"prompt_tokens": 50_000, "completion_tokens": 5, "total_tokens": 50_005}
    upstream.answers(refusal(70_000, 64_000), turn("Taken.", usage=usage))
    more = {"stream_options": {"include_usage": True}} if stream else {}
    answer = Client(clients, proxy(), api_key).post(chat(9, stream=stream, **more) | {"model": "gpt-4o"})
    assert answer.status_code == 200
    said = answer.json() if not stream else json.loads(answer.text.split("data: ")[-2])
    told_ = -(-50_000 * 128_000 // 54_400)
    assert (said["usage"]["prompt_tokens"], said["usage"]["total_tokens"]) == (told_, told_ + 5)


def test_it_can_be_switched_off_and_nothing_changes_without_a_lesson(
    proxy: Any, clients: Any, upstream: Any, api_key: str, tmp_path: Path
) -> None:
    upstream.answers(refusal(110_000, 100_000), turn("Taken.", usage=USAGE))
    off = Client(clients, proxy(penumbra_context_guard="off"), api_key)
    assert inputs(usages(off.post(claude(9), "api.anthropic.com"), False)[0]) == list(USAGE.values())
    upstream.answers(turn("Fine.", usage=USAGE))
    on = Client(clients, proxy(), api_key)
    assert inputs(usages(on.post(claude(9), "api.anthropic.com"), False)[0]) == list(USAGE.values())
