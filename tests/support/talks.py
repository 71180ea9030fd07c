"""Conversations that grow by tool calls and are rewritten turn by turn with all earlier decisions."""

from __future__ import annotations

import json
from typing import Any

from penumbra.compress.result import Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.model import Request
from penumbra.expand.reference import References
from penumbra.store.conversations import ConversationState
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document
from support.apis import BY_ID
from support.engines import api_of

SCOPE = b"s" * 32
REFERENCES = References(b"k" * 32, b"c" * 32, "expand_context", True)
JUST_NOW = ConversationState(idle=3.0)
CACHED = [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}]


def unredacted(text: str, hint: str = "") -> Redacted:
    return Redacted(text)


THOUGHT = [{"type": "thinking", "thinking": "hm", "signature": "s"}]


class Talk:
    """A `Talk` is a conversation with one API; `more` are further members of each of its requests."""

    def __init__(self, api: str = "anthropic-messages", more: Any = None, **settings: Any) -> None:
        self.api = api_of(api)
        self.settings = Settings(**settings)
        self.format = BY_ID[api]
        self.member = self.format.member
        self.messages: list[Any] = [self.format.write(("user", "go"))]
        self.more: dict[str, Any] = {"model": "claude-x", "max_tokens": 9, **(more or {})}
        self.known: dict[bytes, Decision] = {}
        self.originals: dict[str, str] = {}
        self.references: Any = REFERENCES
        self.line, self.sent = "", b""

    def call(self, name: str, text: str = "ok", error: bool = False, lead: Any = (), **given: Any) -> Talk:
        """Add a call and its result; `lead` is what stands before the call in its message."""
        call_id = f"toolu_{len(self.messages):024}"
        call, result = self.format.written([("call", call_id, name, given), ("result", call_id, text, name)])
        if self.member == "contents":
            call["parts"][0] |= dict(lead)
            call["parts"][0]["functionCall"]["id"] = call_id
            result["parts"][0]["functionResponse"]["id"] = call_id
        elif lead or error:
            call["content"] = [*lead, *call["content"]]
            result["content"][0]["is_error"] = error
        self.messages += [call, result]
        return self

    def body(self) -> bytes:
        return json.dumps({**self.more, self.member: self.messages}).encode()

    def request(self) -> Request:
        request = read.read(Document(self.body()), self.api, self.settings, SCOPE)
        assert request is not None
        return request

    def compose(self, past: ConversationState = JUST_NOW) -> list[Any]:
        """Compose the next request; return its messages as they are sent."""
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
        """Compose the next request of the Messages API; return its results as they are sent."""
        blocks = (block for one in self.compose(past) for block in _blocks(one))
        return [block["content"] for block in blocks if block.get("type") == "tool_result"]

    def send_arguments(self, past: ConversationState = JUST_NOW) -> list[dict[str, Any]]:
        """Compose the next request; return the arguments of its calls as they are sent."""
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
