"""Anthropic Messages, threads and token counting; answers as JSON and as a stream."""

import json
from collections.abc import Iterator
from typing import Any

from support.upstream import binding
from support.upstream.anthropic_rules import CHANGES_BETA, VERSIONS, Bad, check_messages
from support.upstream.api import Api, Event, Received, Refused, Rendered, cut, spoken, tokens
from support.upstream.script import Block, Text, Thinking, ToolCall, Turn

_BETA = "message-threads-2026-08-12"


class BadThread(Exception):
    """Raised for a thread that can't be continued."""

    def __init__(self, message: str, code: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class Threads:
    """`Threads` have conversations by the id of their last response."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, Any]] = {}
        self._continued: set[str] = set()

    def lose(self) -> None:
        """Forget all conversations."""
        self._held.clear()

    def whole(self, body: Any, beta: str) -> Any:
        """Return the request with the history that it continues. Raise BadThread."""
        thread = body.get("thread") if isinstance(body, dict) else None
        if thread is None or _BETA not in beta:
            return body
        new = {key: value for key, value in body.items() if key != "thread"}
        if thread == {"type": "create"}:
            return new
        before = thread["previous_message_id"]
        kept = self._held.get(before)
        if kept is None:
            raise BadThread("No usable thread state was found.", "thread_not_found", 404)
        if before in self._continued:
            raise BadThread("The response has already been continued.", "thread_already_continued")
        for key in ("model", "system", "tools"):
            if new.get(key, kept.get(key)) != kept.get(key):
                raise BadThread(f"differing field: {key}", "thread_fingerprint_mismatch")
        return {**kept, **new, "messages": [*kept["messages"], *new["messages"]]}

    def keep(self, body: Any, whole: Any, number: str, content: list[Any]) -> None:
        """Keep a conversation by the id of its newest response."""
        if "thread" in body:
            self._continued.add(body["thread"].get("previous_message_id", ""))
            messages = [*whole["messages"], {"role": "assistant", "content": content}]
            self._held[number] = {**whole, "messages": messages}


_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


class Anthropic(Api):
    """The state of the Messages API: its threads, and its strictness about thinking."""

    name = "anthropic"

    def reset(self) -> None:
        self.enforce_binding = True
        """True if a thinking block in a foreign conversation is refused."""
        self.takes_late_tools = True
        """True if tools can be declared after a message; otherwise, their blocks are unknown."""
        self.dropped: list[str] = []
        """Places of the thinking blocks that were dropped because the request asked for it."""
        self.threads = Threads()
        self._prompts: dict[str, dict[str, Any]] = {}
        """Prompts that may be compared, by the id of the response."""
        super().reset()

    def operation(self, received: Received) -> str:
        return {("POST", "/v1/messages"): "model", ("POST", "/v1/messages/count_tokens"): "count_tokens"}.get(
            (received.method, received.path), ""
        )

    def fault(self, status: int, message: str) -> dict[str, Any]:
        kind = _KINDS.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message or kind}, "request_id": "req_0"}

    def direct(self, operation: str, received: Received, body: Any) -> dict[str, Any] | None:
        if operation == "model":
            return None
        self._check(received, body, counting=True)
        return {"input_tokens": tokens(body, "tools", "system", "messages")}

    def check(self, received: Received, body: Any) -> None:
        self._check(received, body, counting=False)

    def _check(self, received: Received, body: Any, *, counting: bool) -> None:
        try:
            if not received.header("x-api-key") and not received.header("authorization"):
                raise Bad("x-api-key header is required", 401)
            version = received.header("anthropic-version")
            if not version:
                raise Bad("anthropic-version: header is required")
            if version not in VERSIONS:
                raise Bad(f'anthropic-version: "{version}" is not a valid version')
            beta = received.header("anthropic-beta") or ""
            known = beta if self.takes_late_tools else beta.replace(CHANGES_BETA, "")
            self.check_body(self.threads.whole(body, beta), known, counting=counting, version=version)
        except BadThread as bad:
            fault = self.fault(bad.status, str(bad))
            fault["error"]["details"] = {"error_code": bad.code}
            raise Refused(bad.status, fault, str(bad)) from None
        except Bad as bad:
            raise self.refused(str(bad), bad.status) from None

    def check_body(self, body: Any, beta: str, *, counting: bool = False, version: str = VERSIONS[0]) -> None:
        """Raise Bad for a body that the models refuse. `beta` are the features of the request's header."""
        check_messages(body, beta, counting=counting, version=version)
        self._check_binding(body)

    def _check_binding(self, body: dict[str, Any]) -> None:
        last = max((i for i, m in enumerate(body["messages"]) if m["role"] == "assistant"), default=-1)
        controls = (body.get("thinking") or {}).get("block_binding") or {}
        drop = controls.get("prefix_mismatch_behavior") == "drop_block"
        for i, j, block, prefix in binding.walk(body):
            if block.get("type") != "thinking":
                continue
            place = f"messages.{i}.content.{j}"
            found = binding.claims(block.get("signature"))
            if found is None:
                raise Bad(f"{place}: Invalid `signature` in `thinking` block")
            if not binding.covers(found, block.get("thinking", "")):
                raise Bad(
                    f"{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message"
                    " cannot be modified. These blocks must remain as they were in the original response."
                    if i == last
                    else f"{place}: Invalid `signature` in `thinking` block"
                )
            if found["prefix"] != prefix and drop:
                self.dropped.append(place)
            elif found["prefix"] != prefix and self.enforce_binding:
                raise Bad(
                    f"{place}: Invalid `signature` in `thinking` block. The block is bound to a different"
                    " conversation. Remove the block, or set"
                    ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                )

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        asked, body = body, self.threads.whole(body, received.header("anthropic-beta") or "")
        content = self._content(body, answer)
        usage = {
            "input_tokens": tokens(body, "tools", "system", "messages"),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": len(json.dumps(content)) // 4,
            **answer.usage,
        }
        calls = any(isinstance(block, ToolCall) for block in answer.blocks)
        number = next(self.ids)
        document = {
            "id": f"msg_{number:024}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": answer.stop or ("tool_use" if calls else "end_turn"),
            "stop_sequence": None,
            "usage": usage,
        }
        if body.get("safeguards"):
            judged = {made["id"]: {"verdict": "safe"} for made in content if made["type"] == "tool_use"}
            document["safeguard_results"] = {"tool_uses": judged}
        self.threads.keep(asked, body, document["id"], content)
        if "diagnostics" in body:
            document["diagnostics"] = self._compare(body)
            self._prompts[document["id"]] = body
        error = self.fault(529, "Overloaded")
        return Rendered(
            document, list(_events({**document}, answer)), body.get("stream") is True, ("error", error)
        )

    def _compare(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Name the first difference between a prompt and the one of the response that the request names."""
        if (named := body["diagnostics"]["previous_message_id"]) is None:
            return None
        if (before := self._prompts.get(named)) is None:
            return {"cache_miss_reason": {"type": "previous_message_not_found"}}
        messages = [[part for *_, part in binding.walk(prompt)] for prompt in (before, body)]
        changed = {
            "model_changed": before["model"] != body["model"],
            "tools_changed": before.get("tools") != body.get("tools"),
            "system_changed": binding.preamble(before) != binding.preamble(body),
            "messages_changed": messages[1][: len(messages[0])] != messages[0],
        }
        reason = next((name for name, differs in changed.items() if differs), None)
        tokens = len(json.dumps(before["messages"])) // 4
        return reason and {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": tokens}}

    def _content(self, body: dict[str, Any], answer: Turn) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        for block in answer.blocks:
            if isinstance(block, Text):
                content.append({"type": "text", "text": block.text})
            elif isinstance(block, ToolCall):
                name = block.id or f"toolu_{next(self.ids):024}"
                content.append(
                    {"type": "tool_use", "id": name, "name": block.name, "input": dict(block.arguments)}
                )
            else:
                signature = binding.sign(block.text, binding.digest(body, content))
                content.append({"type": "thinking", "thinking": block.text, "signature": signature})
        return content


def _deltas(block: Block, made: dict[str, Any], size: int) -> Iterator[Any]:
    if isinstance(block, Text):
        for piece in spoken(block, size):
            yield {"type": "text_delta", "text": piece}
    elif isinstance(block, Thinking):
        for piece in spoken(block, size):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": made["signature"]}
    else:
        yield {"type": "input_json_delta", "partial_json": ""}
        text = json.dumps(made["input"], ensure_ascii=False) if made["input"] else ""
        for piece in cut(text, size):
            yield {"type": "input_json_delta", "partial_json": piece}


_EMPTY: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


def _events(document: dict[str, Any], answer: Turn) -> Iterator[Event]:
    """Yield the events of a message: start, the blocks with their deltas, the stop reason, stop."""
    usage = document["usage"]
    judged = {key: document.pop(key) for key in ("safeguard_results",) if key in document}
    start = {**document, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": start}
    yield "ping", {"type": "ping"}
    for index, (block, made) in enumerate(zip(answer.blocks, document["content"], strict=True)):
        empty = {**made, **_EMPTY.get(made["type"], {})}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in _deltas(block, made, answer.delivery.delta):
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    reason = {"stop_reason": document["stop_reason"], "stop_sequence": None, **judged}
    yield "message_delta", {"type": "message_delta", "delta": reason, "usage": usage}
    yield "message_stop", {"type": "message_stop"}
