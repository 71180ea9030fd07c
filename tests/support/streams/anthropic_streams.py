"""Streams of the Messages API, as bytes."""

import json
from typing import Any

PHANTOM = "expand_context"


def event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def start(number: int = 0, **usage: int) -> bytes:
    usage = {"input_tokens": 100, "output_tokens": 1, **usage}
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return event("message_start", message=message) + event("ping")


def block(index: int, first: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    out = event("content_block_start", index=index, content_block=first)
    for delta in deltas:
        out += event("content_block_delta", index=index, delta=delta)
    return out + event("content_block_stop", index=index)


def text(index: int, *pieces: str) -> bytes:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": p} for p in pieces))


def thinking(index: int, words: str, signature: str) -> bytes:
    first = {"type": "thinking", "thinking": "", "signature": ""}
    signed = {"type": "signature_delta", "signature": signature}
    return block(index, first, {"type": "thinking_delta", "thinking": words}, signed)


def call(index: int, name: str, call_id: str, *pieces: str) -> bytes:
    first = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block(index, first, *({"type": "input_json_delta", "partial_json": p} for p in pieces))


def end(reason: str, output: int, **usage: Any) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    usage = {"output_tokens": output, **usage}
    return event("message_delta", delta=delta, usage=usage) + event("message_stop")


FIRST = (
    start(0)
    + thinking(0, "the log is short", "sig-0")
    + text(1, "Let me see ", "all of it.")
    + call(2, PHANTOM, "toolu_p0", "", '{"id": "shad', 'ow_0"', "}")
    + end("tool_use", 7)
)
SECOND = (
    start(1, input_tokens=40, cache_read_input_tokens=60)
    + thinking(0, "found", "sig-1")
    + text(1, "It fails ", "in é.")
    + call(2, "Bash", "toolu_r1", '{"command": "ls"}')
    + end("tool_use", 5)
)
MIXED = (
    start(0)
    + text(0, "Both.")
    + call(1, PHANTOM, "toolu_p0", '{"id":"shadow_0"}')
    + call(2, "Bash", "toolu_r0", '{"command":"ls"}')
    + end("tool_use", 9)
)
