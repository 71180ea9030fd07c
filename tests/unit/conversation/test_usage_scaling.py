"""Scaled usage in responses, in documents and in streams."""

from typing import Any

import pytest

from penumbra.apis.formats import FORMATS
from penumbra.conversation import context_windows
from penumbra.conversation.context_windows import UsageScale
from penumbra.store.conversations import LearnedLimits

WORDS = '{"type":"content_block_delta","delta":{"text":"\\"input_tokens\\": 7"}}'


@pytest.mark.parametrize("example", context_windows.table()["examples"], ids=str)
def test_the_examples_of_the_rule_file(example: Any) -> None:
    found = context_windows.of(example.get("model", ""), example.get("headers", {}), example.get("path", ""))
    assert (found.tokens, found.believed) == (example["window"], example["believed"])


@pytest.mark.parametrize(
    ("limits", "believed", "cut", "expected"),
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
def test_usage_is_not_scaled_before_a_limit_is_known(
    limits: Any, believed: Any, cut: Any, expected: Any
) -> None:
    assert context_windows.usage_scale(limits, believed, cut) == expected


def test_a_count_is_never_smaller_and_exact_in_parts_of_the_window() -> None:
    one = UsageScale(64_000, 200_000)
    assert [one.count(n) for n in (0, 1, 64_000, 32_001)] == [0, 4, 200_000, 100_004]


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
START, DELTA = CASES[0], CASES[1]


@pytest.mark.parametrize(("format_name", "before", "after"), CASES)
def test_input_figures_change_and_nothing_else(format_name: str, before: str, after: str) -> None:
    passed = FORMATS[format_name].responses.passed(
        [FORMATS[format_name].responses.scaled_usage(double)], stream=False
    )
    assert passed.feed(before.encode()) + passed.close() == after.encode()


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_stream_is_changed_event_by_event(size: int) -> None:
    events = [START[1], WORDS, DELTA[1]]
    stream = b": hi\r\n\r\n" + b"".join(b"event: x\r\ndata: %s\r\n\r\n" % one.encode() for one in events)
    usage = FORMATS["anthropic"].responses.scaled_usage(double)
    edited = FORMATS["anthropic"].responses.passed([usage], stream=True)
    made = (
        b"".join(edited.feed(stream[at : at + size]) for at in range(0, len(stream), size)) + edited.close()
    )
    assert made == stream.replace(START[1].encode(), START[2].encode()).replace(
        DELTA[1].encode(), DELTA[2].encode()
    )
    assert usage.real == {"input_tokens": 7, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 90}


@pytest.mark.parametrize("format_name", ["gemini", "ollama", "openai_chat"])
def test_other_framings_and_invalid_json(format_name: str) -> None:
    before, after = next(case[1:] for case in CASES if case[0] == format_name)
    framing = {
        "gemini": "[%s,\n%s]",
        "ollama": "%s\n%s\n",
        "openai_chat": "data: %s\n\ndata: %s\n\ndata: [DONE]\n\n",
    }
    api = FORMATS[format_name].responses
    edited = api.passed([api.scaled_usage(double)], stream=True)
    sent = (framing[format_name] % (before, before)).encode()
    assert edited.feed(sent) + edited.close() == (framing[format_name] % (after, after)).encode()
    whole = api.passed([api.scaled_usage(double)], stream=False)
    assert whole.feed(b"<html> prompt_tokens") + whole.close() == b"<html> prompt_tokens"
