"""Amazon Bedrock: Converse, and InvokeModel with Anthropic's models, as JSON and as event streams."""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from support.upstream import amazon, binding
from support.upstream.anthropic import Anthropic
from support.upstream.anthropic_rules import Bad as NotAnthropic
from support.upstream.api import Event, PrefixCache, Received, Refused, Rendered
from support.upstream.bedrock_rules import Bad, check_converse
from support.upstream.script import RedactedThinking, Text, Thinking, ToolCall, Turn

_PATH = re.compile(r"/model/([^/]+)/(converse|converse-stream|invoke|invoke-with-response-stream)")
_VERSION = re.compile(r"bedrock-2023-05-31|20\d\d-\d\d-\d\d")
_PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0"


class Bedrock:
    """One provider's state: what its prompt cache holds, and Anthropic's models behind it."""

    name = "bedrock"

    def __init__(self) -> None:
        self.cache = PrefixCache()
        self.anthropic = Anthropic()
        self.reset()

    def reset(self) -> None:
        self._ids = itertools.count(1)
        self.anthropic.reset()
        self.cache.clear()

    def operation(self, received: Received) -> str:
        return "model" if received.method == "POST" and _PATH.fullmatch(received.path) else ""

    def fault(self, status: int, message: str) -> dict[str, Any]:
        return {"message": message or "The system encountered an unexpected error."}

    def direct(self, operation: str, received: Received, body: Any) -> dict[str, Any] | None:
        return None

    def check(self, received: Received, body: Any) -> None:
        has_key = (received.header("authorization") or "").startswith("Bearer ")
        if not has_key and (problem := amazon.why_not_signed(received)):
            raise Refused(403, self.fault(403, problem), problem)
        try:
            if "/invoke" in received.path:
                self._check_invoke(received, body)
            else:
                check_converse(body)
                self._check_binding(body)
        except (Bad, NotAnthropic) as bad:
            raise Refused(400, self.fault(400, str(bad)), str(bad)) from None

    def _check_invoke(self, received: Received, body: dict[str, Any]) -> None:
        if not _VERSION.fullmatch(body.get("anthropic_version", "")):
            raise Bad("anthropic_version: Field required")
        for key in ("model", "stream"):
            if key in body:
                raise Bad(f"{key}: Extra inputs are not permitted")
        self.anthropic.check_body(_as_anthropic(received, body), ",".join(body.get("anthropic_beta") or ()))

    def _check_binding(self, body: dict[str, Any]) -> None:
        for i, j, block, prefix in binding.walk(_plain(body)):
            reasoning = block.get("reasoningContent")
            if reasoning is None:
                continue
            text = reasoning.get("reasoningText") or {}
            found = binding.claims(reasoning.get("redactedContent") or text.get("signature"))
            if (
                found is None
                or (text and not binding.covers(found, text["text"]))
                or found["prefix"] != prefix
            ):
                raise Bad(f"messages.{i}.content.{j}: Invalid `signature` in `thinking` block")

    # -- answers

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        streamed = received.path.endswith("stream")
        if "/invoke" in received.path:
            return self._rendered_invoke(received, body, answer, streamed)
        content = self._content(body, answer)
        told = [body.get("toolConfig"), body.get("system"), *body["messages"]]
        parts = [json.dumps(one, sort_keys=True) for one in told]
        cached, total = self.cache.read(received.path, parts)
        wrote = len(json.dumps(content)) // 4
        usage = {"inputTokens": total - cached, "outputTokens": wrote, "totalTokens": total - cached + wrote}
        usage |= {"cacheReadInputTokens": cached, "cacheWriteInputTokens": 0, **answer.usage}
        calls = any(isinstance(block, ToolCall) for block in answer.blocks)
        document = {
            "metrics": {"latencyMs": 100},
            "output": {"message": {"content": content, "role": "assistant"}},
            "stopReason": answer.stop or ("tool_use" if calls else "end_turn"),
            "usage": usage,
        }
        events = [
            (name, {**value, "p": _padding(n)}) for n, (name, value) in enumerate(_events(document, answer))
        ]
        error = ("throttlingException", self.fault(429, "Overloaded"))
        return Rendered(document, events, streamed, error, "", framing="messages")

    def _content(self, body: dict[str, Any], answer: Turn) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        for block in answer.blocks:
            if isinstance(block, Text):
                content.append({"text": block.text})
            elif isinstance(block, ToolCall):
                name = block.id or f"tooluse_{next(self._ids):022}"
                use = {"input": dict(block.arguments), "name": block.name, "toolUseId": name}
                content.append({"toolUse": use})
            else:
                signature = binding.sign(block.text, binding.digest(_plain(body), content))
                if isinstance(block, RedactedThinking):
                    content.append({"reasoningContent": {"redactedContent": signature}})
                else:
                    text = {"signature": signature, "text": block.text}
                    content.append({"reasoningContent": {"reasoningText": text}})
        return content

    def _rendered_invoke(self, received: Received, body: Any, answer: Turn, streamed: bool) -> Rendered:
        made = self.anthropic.render(received, _as_anthropic(received, body), answer)
        usage = made.document["usage"]
        metrics = {
            "inputTokenCount": usage["input_tokens"],
            "outputTokenCount": usage["output_tokens"],
            "invocationLatency": 100,
            "firstByteLatency": 50,
        }
        events = []
        for number, (name, value) in enumerate(event for event in made.events if event[0] != "ping"):
            last = {"amazon-bedrock-invocationMetrics": metrics} if name == "message_stop" else {}
            data = json.dumps({**value, **last}, ensure_ascii=False).encode()
            events.append(("chunk", {"bytes": base64.b64encode(data).decode(), "p": _padding(number)}))
        error = ("throttlingException", self.fault(429, "Overloaded"))
        told = {"input": usage["input_tokens"], "output": usage["output_tokens"]}
        headers = (
            () if streamed else tuple((f"x-amzn-bedrock-{k}-token-count", str(n)) for k, n in told.items())
        )
        return Rendered(made.document, events, streamed, error, "", headers, framing="messages")


def _as_anthropic(received: Received, body: dict[str, Any]) -> dict[str, Any]:
    """The body as Anthropic's own API would have it."""
    match = _PATH.fullmatch(received.path)
    own = {key: value for key, value in body.items() if key not in ("anthropic_version", "anthropic_beta")}
    return {"model": unquote(match[1]) if match else "", **own}


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """What reasoning is bound to: tools, system and messages, without marks for the cache."""
    tools = (body.get("toolConfig") or {}).get("tools") or []
    messages = [{**one, "content": _unmarked(one["content"])} for one in body["messages"]]
    return {"tools": _unmarked(tools), "system": _unmarked(body.get("system") or []), "messages": messages}


def _unmarked(blocks: list[Any]) -> list[Any]:
    return [block for block in blocks if "cachePoint" not in block]


def _padding(number: int) -> str:
    """What hides how long the tokens are: of another length in every event."""
    return _PADDING[: number * 7 % 31]


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _deltas(block: Any, made: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    if isinstance(block, Text):
        yield from ({"text": piece} for piece in block.deltas or _cut(block.text, size))
    elif isinstance(block, ToolCall):
        text = json.dumps(made["toolUse"]["input"], ensure_ascii=False)
        yield from ({"toolUse": {"input": piece}} for piece in ("", *(block.fragments or _cut(text, size))))
    elif isinstance(block, Thinking):
        for piece in block.deltas or _cut(block.text, size):
            yield {"reasoningContent": {"text": piece}}
        yield {"reasoningContent": {"signature": made["reasoningContent"]["reasoningText"]["signature"]}}
    else:
        yield made


def _events(document: dict[str, Any], answer: Turn) -> Iterator[Event]:
    """The stream of a message: start, the blocks with their deltas, the stop reason, the figures."""
    yield "messageStart", {"role": "assistant"}
    content = document["output"]["message"]["content"]
    for index, (block, made) in enumerate(zip(answer.blocks, content, strict=True)):
        place = {"contentBlockIndex": index}
        if "toolUse" in made:
            use = {key: made["toolUse"][key] for key in ("name", "toolUseId")}
            yield "contentBlockStart", {**place, "start": {"toolUse": use}}
        for delta in _deltas(block, made, answer.delivery.delta):
            yield "contentBlockDelta", {**place, "delta": delta}
        yield "contentBlockStop", place
    yield "messageStop", {"stopReason": document["stopReason"]}
    yield "metadata", {"metrics": document["metrics"], "usage": document["usage"]}
