"""Token counts, model and stop reason of responses in forms that `test_one_response.py` does not have."""

import pytest
from msgspec import json

from penumbra.apis.formats import FORMATS
from penumbra.apis.usage import NOT_READ, BilledTokens, Ending

MESSAGE = {"id": "m", "role": "assistant", "model": "claude-x-1", "content": [], "stop_reason": None}
CHAT = [
    {"model": "gpt", "choices": [{"index": index, "delta": {"content": "So"}, "finish_reason": reason}]}
    for index, reason in ((0, None), (1, "length"), (0, "stop"))
]
INCOMPLETE = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
RESPONSES = [
    {"type": "response.created", "response": {"id": "r", "model": "gpt", "status": "in_progress"}},
    {"type": "response.incomplete", "response": {"id": "r", "model": "gpt-snapshot", **INCOMPLETE}},
]
GEMINI = {"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}], "modelVersion": "gemini-x"}


@pytest.mark.parametrize(
    ("name", "events", "ending"),
    [
        ("anthropic", [{"type": "message_start", "message": MESSAGE}], Ending("claude-x-1")),
        ("openai_chat", CHAT, Ending("gpt", ("stop", "length"))),
        ("openai_responses", RESPONSES, Ending("gpt-snapshot", ("max_output_tokens",))),
    ],
    ids=["a stream that broke off", "several choices", "a detail"],
)
def test_streams(name, events, ending):
    response = FORMATS[name].stream("")
    response.feed(b"".join(b"data: %b\n\n" % json.encode(event) for event in events))
    assert response.end_turn().ending == ending


@pytest.mark.parametrize(
    ("name", "body", "ending"),
    [
        ("openai_responses", {"model": "m", "status": "queued", "output": []}, Ending("m")),
        ("gemini", {"response": GEMINI}, Ending("gemini-x", ("STOP",))),
        ("openai_chat", {"model": 7, "choices": [{"finish_reason": {"a": 1}}, None]}, NOT_READ),
    ],
    ids=["no end", "a wrapper", "odd values"],
)
def test_documents(name, body, ending):
    response = FORMATS[name].body("")
    response.feed(json.encode(body))
    assert response.end_turn().ending == ending


BESIDE, WITHIN, NO_CACHE = BilledTokens(5, 90, 7, 3), BilledTokens(5, 90, 0, 3), BilledTokens(4, 0, 0, 2)
USAGES = (
    ("input_tokens=5 cache_read_input_tokens=90 cache_creation_input_tokens=7 output_tokens=3", BESIDE),
    ("inputTokens=5 cacheReadInputTokens=90 cacheWriteInputTokens=7 outputTokens=3", BESIDE),
    ("prompt_tokens=95 prompt_tokens_details.cached_tokens=90 completion_tokens=3", WITHIN),
    ("prompt_tokens=95 prompt_cache_hit_tokens=90 prompt_cache_miss_tokens=5 completion_tokens=3", WITHIN),
    ("input_tokens=95 input_tokens_details.cached_tokens=90 output_tokens=3", WITHIN),
    ("promptTokenCount=95 cachedContentTokenCount=90 candidatesTokenCount=1 thoughtsTokenCount=2", WITHIN),
    ("prompt_eval_count=4 eval_count=2", NO_CACHE),
    ("output_tokens=3", None),
    ("", None),
)


@pytest.mark.parametrize(("usage", "billed"), USAGES, ids=[usage for usage, _ in USAGES])
def test_each_token_is_counted_once(usage, billed):
    counts = dict(pair.split("=") for pair in usage.split())
    assert BilledTokens.of({name: int(count) for name, count in counts.items()}) == billed
    assert billed is None or billed.prompt == {BESIDE: 102, WITHIN: 95, NO_CACHE: 4}[billed]
