"""The first events of streams: refused, or on their way."""

import json
from typing import Any

import pytest

from penumbra.retry.first_events import FirstEvents, Verdict


def event(value: Any, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


ERROR = event({"type": "error", "error": {"message": "x"}}, "error")
START = event({"type": "message_start", "message": {}}, "message_start")
CREATED = event({"type": "response.created", "response": {"error": None}}, "response.created")
FAILED = event({"type": "response.failed", "response": {"error": {"code": "context_length_exceeded"}}})
ROLE = event({"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
WORDS = event({"choices": [{"delta": {"content": "hi"}}]})
BLOCK = event({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}})
SSE, LINES = "text/event-stream", "application/x-ndjson"


CASES = [
    (SSE, ERROR, Verdict.ERROR),
    (SSE, START + ERROR, Verdict.ERROR),
    (SSE, CREATED + FAILED, Verdict.ERROR),
    (SSE, CREATED, Verdict.WAIT),
    (SSE, START + BLOCK + ERROR, Verdict.GO),
    (SSE, ROLE, Verdict.WAIT),
    (SSE, ROLE + WORDS, Verdict.GO),
    (SSE, ROLE + event({"error": {"message": "x"}}), Verdict.ERROR),
    (SSE, b": ping\n\n" + ERROR, Verdict.ERROR),
    (SSE, b": ping\n\n", Verdict.WAIT),
    (SSE, b": OPENROUTER PROCESSING\n\n" + WORDS, Verdict.GO),
    (SSE, event(b"[DONE]"), Verdict.GO),
    (SSE, event({"choices": [{"delta": {}, "finish_reason": "stop"}]}), Verdict.GO),
    (SSE, event({"base_resp": {"status_code": 1039, "status_msg": "token limit"}}), Verdict.ERROR),
    (SSE, event({"base_resp": {"status_code": 0}, "choices": [{"delta": {"content": "x"}}]}), Verdict.GO),
    (SSE, event([1]), Verdict.GO),
    (SSE, b"x" * 70_000, Verdict.GO),
    (LINES, b'{"error":"prompt too long; exceeded max context length by 9 tokens"}\n', Verdict.ERROR),
    (LINES, b'\n{"message":{"role":"assistant","content":"hi"},"done":false}\n', Verdict.GO),
    ("application/json", b'[{"error":{"code":400,"message":"x"}}\n]', Verdict.ERROR),
    ("application/json; charset=UTF-8", b'[{"candidates":[{"content":{}}]}', Verdict.GO),
    ("application/vnd.amazon.eventstream", b"\x00\x00\x00", Verdict.GO),
]


@pytest.mark.parametrize(("kind", "data", "verdict"), CASES)
def test_the_verdict_is_the_same_however_the_stream_is_cut(kind: str, data: bytes, verdict: Verdict) -> None:
    for size in (len(data), 7):
        events = FirstEvents(kind, lambda piece: piece)
        found = Verdict.WAIT
        for start in range(0, len(data), size):
            found = events.feed(data[start : start + size])
            if found is not Verdict.WAIT:
                break
        assert found is verdict
        assert bool(events.error) is (verdict is Verdict.ERROR)


def test_an_undecodable_response_is_passed_on() -> None:
    assert FirstEvents(SSE, None).feed(ERROR) is Verdict.GO

    def broken(piece: bytes) -> bytes:
        raise ValueError(piece)

    assert FirstEvents(SSE, broken).feed(ERROR) is Verdict.GO
