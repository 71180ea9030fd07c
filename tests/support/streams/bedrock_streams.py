"""Streams of Converse and InvokeModel, as bytes."""

import base64
import json
from typing import Any

from support.upstream.amazon import event

PHANTOM = "expand_context"
METRICS = "amazon-bedrock-invocationMetrics"


def start() -> bytes:
    return event("messageStart", {"role": "assistant", "p": "abc"})


def delta(index: int, **members: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": members, "p": "abcdefgh"})


def stop(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index, "p": "a"})


def text(index: int, *pieces: str) -> bytes:
    return b"".join(delta(index, text=piece) for piece in pieces) + stop(index)


def thinking(index: int, words: str, signature: str) -> bytes:
    pieces = delta(index, reasoningContent={"text": words}) + delta(
        index, reasoningContent={"signature": signature}
    )
    return pieces + stop(index)


def call(index: int, name: str, call_id: str, *pieces: str, **more: str) -> bytes:
    use = {"toolUse": {"toolUseId": call_id, "name": name, **more}}
    first = event("contentBlockStart", {"contentBlockIndex": index, "p": "abcd", "start": use})
    return first + b"".join(delta(index, toolUse={"input": piece}) for piece in pieces) + stop(index)


def end(reason: str, output: int, read: int = 100, **more: Any) -> bytes:
    usage = {"inputTokens": read, "outputTokens": output, "totalTokens": read + output, "serverToolUsage": {}}
    metadata = {"usage": usage, "metrics": {"latencyMs": 10 * output}, "p": "abcde", **more}
    return event("messageStop", {"stopReason": reason, "p": "ab"}) + event("metadata", metadata)


FIRST = (
    start()
    + thinking(0, "the log is short", "sig-0")
    + text(1, "Let me see ", "all of it.")
    + call(2, PHANTOM, "tooluse_p0", "", '{"id": "shad', 'ow_0"', "}")
    + end("tool_use", 7)
)
SECOND = (
    start()
    + thinking(0, "found", "sig-1")
    + text(1, "It fails ", "in é.")
    + call(2, "Bash", "tooluse_r1", '{"command": "ls"}')
    + end("tool_use", 5, 40)
)
MIXED = (
    start()
    + text(0, "Both.")
    + call(1, PHANTOM, "tooluse_p0", '{"id":"shadow_0"}')
    + call(2, "Bash", "tooluse_r0", '{"command":"ls"}')
    + end("tool_use", 9)
)


def chunk(value: Any) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return event("chunk", {"bytes": base64.b64encode(data).decode(), "p": "abcdefg"})


def chunked(sse: bytes, output: int = 0) -> bytes:
    """Return Anthropic's own stream as InvokeModelWithResponseStream sends it."""
    values = [json.loads(part.split(b"data: ", 1)[1]) for part in sse.split(b"\n\n") if part]
    metrics = {
        "inputTokenCount": 100,
        "outputTokenCount": output,
        "invocationLatency": 9,
        "firstByteLatency": 4,
    }
    for value in values:
        if value["type"] == "message_stop":
            value[METRICS] = metrics
    return b"".join(chunk(value) for value in values if value["type"] != "ping")
