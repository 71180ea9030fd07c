"""Which model wrote a response, and why it stopped: streams and documents of each API."""

from __future__ import annotations

import pytest
from msgspec import json

from penumbra.apis.formats import FORMATS
from penumbra.apis.usage import NOT_READ, Ending

ANTHROPIC = (
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "role": "assistant",
            "model": "claude-x-1",
            "content": [],
            "stop_reason": None,
        },
    },
    {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)
CHAT = tuple(
    {
        "model": "gpt-x-1",
        "choices": [{"index": index, "delta": {"content": "So"}, "finish_reason": reason}],
    }
    for index, reason in ((0, None), (1, "length"), (0, "stop"))
)
RESPONSES = (
    {"type": "response.created", "response": {"id": "r", "model": "gpt-x-1", "status": "in_progress"}},
    {
        "type": "response.incomplete",
        "response": {
            "id": "r",
            "model": "gpt-x-1-snapshot",
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
        },
    },
)
GEMINI = tuple(
    {
        "candidates": [
            {"content": {"parts": [{"text": "So"}]}, **({"finishReason": reason} if reason else {})}
        ],
        "modelVersion": "gemini-x-1",
    }
    for reason in ("", "STOP", "STOP")
)


def sse(events):
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event.get("type", "message").encode(), json.encode(event))
        for event in events
    )


@pytest.mark.parametrize(
    ("name", "events", "ending"),
    [
        ("anthropic", ANTHROPIC, Ending("claude-x-1", ("max_tokens",))),
        ("openai_chat", CHAT, Ending("gpt-x-1", ("stop", "length"))),
        ("openai_responses", RESPONSES, Ending("gpt-x-1-snapshot", ("max_output_tokens",))),
        ("gemini", GEMINI, Ending("gemini-x-1", ("STOP",))),
    ],
)
def test_of_a_stream(name, events, ending):
    response = FORMATS[name].stream("")
    response.feed(sse(events))
    assert response.end_turn().ending == ending


@pytest.mark.parametrize(
    ("name", "body", "ending"),
    [
        (
            "anthropic",
            {"type": "message", "model": "m", "content": [], "stop_reason": "tool_use"},
            Ending("m", ("tool_use",)),
        ),
        (
            "openai_chat",
            {"model": "m", "choices": [{"index": 0, "message": {"content": "So"}, "finish_reason": "stop"}]},
            Ending("m", ("stop",)),
        ),
        (
            "openai_responses",
            {"model": "m", "status": "completed", "incomplete_details": None, "output": []},
            Ending("m", ("completed",)),
        ),
        ("openai_responses", {"model": "m", "status": "queued", "output": []}, Ending("m")),
        ("gemini", GEMINI[1], Ending("gemini-x-1", ("STOP",))),
        ("gemini", {"response": GEMINI[1]}, Ending("gemini-x-1", ("STOP",))),
        (
            "ollama",
            {"model": "m", "message": {"content": "So"}, "done": True, "done_reason": "stop"},
            Ending("m", ("stop",)),
        ),
        (
            "bedrock",
            {"output": {"message": {"content": [{"text": "So"}]}}, "stopReason": "end_turn"},
            Ending("", ("end_turn",)),
        ),
        ("openai_chat", {"model": 7, "choices": [{"finish_reason": {"a": 1}}, None]}, NOT_READ),
    ],
)
def test_of_a_document(name, body, ending):
    response = FORMATS[name].body("")
    response.feed(json.encode(body))
    assert response.end_turn().ending == ending


def test_a_stream_that_broke_off_has_no_reason():
    response = FORMATS["anthropic"].stream("")
    response.feed(sse(ANTHROPIC[:1]))
    assert response.end_turn().ending == Ending("claude-x-1")
