"""OpenAI Chat Completions, embeddings and the model list; answers as JSON and as a stream."""

from __future__ import annotations

import base64
import itertools
import json
import struct
from collections.abc import Iterator
from typing import Any

from support.upstream.api import Event, PrefixCache, Received, Refused, Rendered
from support.upstream.openai_chat_rules import Bad, check_chat, check_embeddings
from support.upstream.script import Text, ToolCall, Turn

_KINDS = {
    401: "authentication_error",
    429: "tokens",
    500: "server_error",
    503: "server_error",
    529: "server_error",
}
_CREATED = 1_760_000_000
_VECTOR = (0.25, -0.5, 0.125)


class OpenAIChat:
    """One provider's state: what its prompt cache holds."""

    name = "openai_chat"

    def __init__(self) -> None:
        self.cache = PrefixCache()
        self.reset()

    def reset(self) -> None:
        self._ids = itertools.count(1)
        self.cache.clear()

    def operation(self, received: Received) -> str:
        return {
            ("POST", "/v1/chat/completions"): "model",
            ("POST", "/v1/embeddings"): "embeddings",
            ("GET", "/v1/models"): "models",
        }.get((received.method, received.path), "")

    def fault(
        self, status: int, message: str, param: str | None = None, code: str | None = None
    ) -> dict[str, Any]:
        kind = _KINDS.get(status, "invalid_request_error")
        return {"error": {"message": message or kind, "type": kind, "param": param, "code": code}}

    def direct(self, operation: str, received: Received, body: Any) -> dict[str, Any] | None:
        if operation == "models":
            model = {"id": "gpt-5", "object": "model", "created": _CREATED, "owned_by": "openai"}
            return {"object": "list", "data": [model]}
        if operation == "embeddings":
            self._refuse_bad(received, body, check_embeddings)
            return self._embeddings(body)
        return None

    def check(self, received: Received, body: Any) -> None:
        self._refuse_bad(received, body, check_chat)

    def _refuse_bad(self, received: Received, body: Any, check: Any) -> None:
        try:
            if not received.header("authorization"):
                raise Bad("You didn't provide an API key.", status=401)
            check(body)
        except Bad as bad:
            document = self.fault(bad.status, str(bad), bad.param, bad.code)
            raise Refused(bad.status, document, str(bad)) from None

    def _embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
        packed = base64.b64encode(struct.pack(f"<{len(_VECTOR)}f", *_VECTOR)).decode()
        vector = packed if body.get("encoding_format") == "base64" else list(_VECTOR)
        data = [{"object": "embedding", "index": i, "embedding": vector} for i in range(len(inputs))]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "data": data, "model": body["model"], "usage": usage}

    # -- answers

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        message = self._message(answer)
        reason = answer.stop or ("tool_calls" if "tool_calls" in message else "stop")
        usage = self._usage(received, body, message) | dict(answer.usage)
        frame = {"id": f"chatcmpl-{next(self._ids):024}", "created": _CREATED, "model": body["model"]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        document = {**frame, "object": "chat.completion", "choices": [choice], "usage": usage}
        told = (body.get("stream_options") or {}).get("include_usage") is True
        return Rendered(
            document,
            list(
                _events(
                    {**frame, "object": "chat.completion.chunk"},
                    message,
                    reason,
                    answer,
                    usage if told else None,
                )
            ),
            body.get("stream") is True,
            ("", self.fault(500, "The server had an error while processing your request.")),
            ": keep-alive\n\n",
        )

    def _message(self, answer: Turn) -> dict[str, Any]:
        texts = [block.text for block in answer.blocks if isinstance(block, Text)]
        calls = [
            {
                "id": block.id or f"call_{next(self._ids):024}",
                "type": "function",
                "function": {
                    "name": block.name,
                    "arguments": json.dumps(dict(block.arguments), ensure_ascii=False),
                },
            }
            for block in answer.blocks
            if isinstance(block, ToolCall)
        ]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(texts) if texts else None,
            "refusal": None,
        }
        if calls:
            message["tool_calls"] = calls
        return message

    def _usage(self, received: Received, body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
        parts = [
            json.dumps(item, sort_keys=True) for key in ("tools", "messages") for item in body.get(key) or []
        ]
        cached, total = self.cache.read(f"{received.header('authorization')}{body['model']}", parts)
        wrote = len(json.dumps(message)) // 4
        return {
            "prompt_tokens": total,
            "completion_tokens": wrote,
            "total_tokens": total + wrote,
            "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        }


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _deltas(message: dict[str, Any], answer: Turn) -> Iterator[dict[str, Any]]:
    size = answer.delivery.delta
    yield {"role": "assistant", "content": None if message["content"] is None else "", "refusal": None}
    for block in answer.blocks:
        if isinstance(block, Text):
            for piece in block.deltas or _cut(block.text, size):
                yield {"content": piece}
    scripted = [block for block in answer.blocks if isinstance(block, ToolCall)]
    for index, (block, call) in enumerate(zip(scripted, message.get("tool_calls", []), strict=True)):
        function = {"name": block.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]}
        for piece in block.fragments or _cut(call["function"]["arguments"], size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _events(
    frame: dict[str, Any], message: dict[str, Any], reason: str, answer: Turn, usage: dict[str, Any] | None
) -> Iterator[Event]:
    """The stream of a completion; with figures at its end if they were asked for."""
    extra = {} if usage is None else {"usage": None}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return "", {**frame, "choices": [choice], **extra}

    for delta in _deltas(message, answer):
        yield chunk(delta)
    yield chunk({}, reason)
    if usage is not None:
        yield "", {**frame, "choices": [], "usage": usage}
    yield "", "[DONE]"
