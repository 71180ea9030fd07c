"""Model and stop reason of a response, where `test_one_response.py` has no such form."""

from __future__ import annotations

import pytest
from msgspec import json

from penumbra.apis.formats import FORMATS
from penumbra.apis.usage import NOT_READ, Ending

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
