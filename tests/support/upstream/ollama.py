"""Ollama's own chat API: answers as JSON lines and as one document."""

from typing import Any

from support.upstream.api import Api, Event, Received, Rendered, spoken, tokens, words
from support.upstream.script import Text, Thinking, ToolCall, Turn

_FIELDS = words("format keep_alive logprobs messages model options stream think tools top_logprobs")
_MESSAGE = words("content images role thinking tool_call_id tool_calls tool_name")


class Ollama(Api):
    """An Ollama server."""

    name = "ollama"

    def operation(self, received: Received) -> str:
        return "model" if (received.method, received.path) == ("POST", "/api/chat") else ""

    def fault(self, status: int, message: str) -> dict[str, Any]:
        return {"error": message or "server error"}

    def check(self, received: Received, body: Any) -> None:
        unknown = [key for key in body if key not in _FIELDS]
        waiting: list[str] = []
        for message in body["messages"]:
            unknown += [key for key in message if key not in _MESSAGE]
            for call in message.get("tool_calls") or ():
                waiting.append(call["function"]["name"])
                if not isinstance(call["function"]["arguments"], dict):
                    raise self.refused("json: cannot unmarshal string into Go struct field .arguments")
            if message["role"] == "tool":
                if message.get("tool_name", waiting[:1][0] if waiting else None) not in waiting:
                    raise self.refused("tool result without a call")
                waiting.remove(message.get("tool_name") or waiting[0])
        if unknown:
            raise self.refused(f"unknown fields: {unknown}")
        if waiting:
            raise self.refused(f"calls without a result: {waiting}")

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        head = {"model": body["model"], "created_at": "2026-01-01T00:00:00Z"}
        done = {
            "done": True,
            "done_reason": answer.stop or "stop",
            "prompt_eval_count": tokens(body, "messages"),
        }
        done |= {"eval_count": 7, **answer.usage}
        pieces = [_piece(block) for block in answer.blocks]
        found = [piece for block in answer.blocks for piece in _cut(block, answer.delivery.delta)]
        events: list[Event] = [("", {**head, "message": piece, "done": False}) for piece in found]
        events.append(("", {**head, "message": {"role": "assistant", "content": ""}, **done}))
        calls = [call for piece in pieces for call in piece.get("tool_calls", ())]
        whole = {"role": "assistant", "content": "".join(piece["content"] for piece in pieces)}
        message = {**whole, "tool_calls": calls} if calls else whole
        streamed = body.get("stream") is not False
        document = {**head, "message": message, **done}
        return Rendered(document, events, streamed, ("", self.fault(500, "Overloaded")), framing="lines")


def _cut(block: Any, size: int) -> list[dict[str, Any]]:
    """Return a block as the pieces of a stream; calls come whole."""
    if isinstance(block, ToolCall):
        return [_piece(block)]
    texts = spoken(block, size)
    kind = Text if isinstance(block, Text) else Thinking
    return [_piece(kind(text)) for text in texts]


def _piece(block: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    if isinstance(block, Text):
        message["content"] = block.text
    elif isinstance(block, Thinking):
        message["thinking"] = block.text
    elif isinstance(block, ToolCall):
        message["tool_calls"] = [{"function": {"name": block.name, "arguments": dict(block.arguments)}}]
    return message
