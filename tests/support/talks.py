"""A conversation of any tools' calls that grows, composed turn by turn with what was decided before."""

from __future__ import annotations

import json
from typing import Any

from penumbra.apis.recognise import apis
from penumbra.compress.result import Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Inputs
from penumbra.conversation.model import Request
from penumbra.expand.reference import References
from penumbra.store.conversations import ConversationState
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document

SCOPE = b"s" * 32
REFERENCES = References(b"k" * 32, b"c" * 32, "expand_context", True)
JUST_NOW = ConversationState(idle=3.0)
CACHED = [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}]


def unredacted(text: str, hint: str = "") -> Redacted:
    return Redacted(text)


def _anthropic(call_id: str, name: str, given: Any, text: str, error: bool, lead: Any) -> list[Any]:
    call = {"type": "tool_use", "id": call_id, "name": name, "input": given}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": error}
    return [{"role": "assistant", "content": [*lead, call]}, {"role": "user", "content": [result]}]


def _chat(call_id: str, name: str, given: Any, text: str, error: bool, lead: Any) -> list[Any]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    return [said, {"role": "tool", "tool_call_id": call_id, "content": text}]


def _responses(call_id: str, name: str, given: Any, text: str, error: bool, lead: Any) -> list[Any]:
    call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(given)}
    return [call, {"type": "function_call_output", "call_id": call_id, "output": text}]


def _gemini(call_id: str, name: str, given: Any, text: str, error: bool, lead: Any) -> list[Any]:
    call = {"functionCall": {"id": call_id, "name": name, "args": given}, **dict(lead)}
    answer = {"functionResponse": {"id": call_id, "name": name, "response": {"output": text}}}
    return [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]


_FORMATS: dict[str, tuple[str, Any, Any]] = {
    "anthropic-messages": ("messages", {"role": "user", "content": "go"}, _anthropic),
    "openai-chat": ("messages", {"role": "user", "content": "go"}, _chat),
    "openai-responses": ("input", {"role": "user", "content": "go"}, _responses),
    "gemini": ("contents", {"role": "user", "parts": [{"text": "go"}]}, _gemini),
}
THOUGHT = [{"type": "thinking", "thinking": "hm", "signature": "s"}]


class Talk:
    """A conversation with one API; `more` are further members of each of its requests."""

    def __init__(self, api: str = "anthropic-messages", more: Any = None, **settings: Any) -> None:
        self.api = next(one for one in apis() if one.id == api)
        self.settings = Settings(**settings)
        self.member, first, self._write = _FORMATS[api]
        self.messages: list[Any] = [first]
        self.more: dict[str, Any] = {"model": "claude-x", "max_tokens": 9, **(more or {})}
        self.known: dict[bytes, Decision] = {}
        self.originals: dict[str, str] = {}
        self.references: Any = REFERENCES
        self.line, self.sent = "", b""

    def call(self, name: str, text: str = "ok", error: bool = False, lead: Any = (), **given: Any) -> Talk:
        """A call and its result; `lead`: what stands before the call in its message."""
        call_id = f"toolu_{len(self.messages):024}"
        self.messages += self._write(call_id, name, given, text, error, lead)
        return self

    def body(self) -> bytes:
        return json.dumps({**self.more, self.member: self.messages}).encode()

    def request(self) -> Request:
        request = read.read(Document(self.body()), self.api, self.settings, SCOPE)
        assert request is not None
        return request

    def compose(self, past: ConversationState = JUST_NOW) -> list[Any]:
        """One request; its messages as they are sent."""
        request = self.request()
        known = {key: self.known[key] for key in rewrite.keys(request, past) if key in self.known}
        inputs = Inputs(request, known, unredacted, self.references, state=past)
        made, self.line = rewrite.compose(inputs, None, LineIndexes())
        self.known |= made.decisions
        self.originals |= made.originals
        self.sent = made.body
        sent: list[Any] = json.loads(made.body)[self.member]
        return sent

    def send(self, past: ConversationState = JUST_NOW) -> list[str]:
        """One request; its results as they are sent, of the Messages API."""
        blocks = (block for one in self.compose(past) for block in _blocks(one))
        return [block["content"] for block in blocks if block.get("type") == "tool_result"]

    def send_arguments(self, past: ConversationState = JUST_NOW) -> list[dict[str, Any]]:
        """One request; the arguments of its calls as they are sent."""
        found: list[Any] = []
        for one in self.compose(past):
            found += [block["input"] for block in _blocks(one) if block.get("type") == "tool_use"]
            found += [call["function"]["arguments"] for call in one.get("tool_calls") or ()]
            found += [
                part["functionCall"]["args"] for part in one.get("parts") or () if "functionCall" in part
            ]
            found += [one["arguments"]] if "arguments" in one else []
        return [json.loads(value) if isinstance(value, str) else value for value in found]


def _blocks(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []
