"""OpenAI Responses: answers as JSON and as a stream, with a memory of what it has stored and issued."""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from support.upstream.api import Api, Event, Received, Refused, Rendered, cut, spoken, words
from support.upstream.openai_chat import Bad
from support.upstream.script import Text, Thinking, ToolCall, Turn

_FIELDS = words(
    "background client_metadata context_management conversation include input instructions max_output_tokens"
    " max_tool_calls metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key"
    " prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream"
    " stream_options temperature text tool_choice tools top_logprobs top_p truncation user"
)
_CALLS = ("function_call", "custom_tool_call")
_ITEMS = words(
    "additional_tools compaction compaction_trigger custom_tool_call custom_tool_call_output function_call"
    " function_call_output message reasoning"
)
_CREATED = 1_790_000_000


class OpenAIResponses(Api):
    """The state of the Responses API: stored responses and issued reasoning."""

    name = "openai_responses"

    def reset(self) -> None:
        super().reset()
        self._stored: dict[str, list[Any]] = {}
        """The conversation up to a response, by the response's id."""
        self.items: dict[str, Any] = {}
        """Items that requests may refer to, by id."""
        self._reasoning: dict[str, str] = {}
        """Encrypted content that was issued, by id."""
        self._led_to: dict[str, tuple[str, str]] = {}
        """The item that was issued after a reasoning item, by the reasoning's id."""
        self._needs: dict[str, str] = {}
        """The reasoning that was issued before a stored item, by the item's id."""

    def operation(self, received: Received) -> str:
        return "model" if (received.method, received.path) == ("POST", "/v1/responses") else ""

    def fault(self, status: int, message: str, param: str | None = None) -> dict[str, Any]:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message or kind, "type": kind, "param": param, "code": None}}

    def check(self, received: Received, body: Any, unstored: Mapping[str, list[Any]] | None = None) -> None:
        """Check a request. `unstored` are conversations that are kept beside the stored ones, by the id of their
        last response."""
        try:
            if not received.header("authorization"):
                raise Bad("You didn't provide an API key.", status=401)
            self._check(body, unstored or {})
        except Bad as bad:
            raise Refused(bad.status, self.fault(bad.status, str(bad), bad.param), str(bad)) from None

    def _check(self, body: Any, unstored: Mapping[str, list[Any]]) -> None:
        for key in body:
            if key not in _FIELDS:
                raise Bad(f"Unknown parameter: '{key}'.", key)
        if not body.get("input"):
            raise Bad("Missing required parameter: 'input'.", "input")
        for i, tool in enumerate(_tools(body)):
            if tool.get("type") == "function" and not isinstance(tool.get("parameters"), dict):
                raise Bad(f"Missing required parameter: 'tools[{i}].parameters'.")
        items = self.conversation(body, unstored)
        self._check_pairing(items)
        known = len(items) - len(body["input"]) if unstored and isinstance(body["input"], list) else 0
        self._check_reasoning(items[known:], stored=body.get("store", True))
        given_ids = {item.get("id") for item in items}
        for item in items[known:]:
            needed = self._needs.get(item.get("id", ""))
            if needed and needed not in given_ids:
                kind = item.get("type", "message")
                raise Bad(
                    f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item:"
                    f" '{needed}'."
                )

    def conversation(self, body: dict[str, Any], unstored: Mapping[str, list[Any]]) -> list[Any]:
        """Return all items: those that are kept, and those of the request."""
        given = body["input"]
        new = [{"role": "user", "content": given}] if isinstance(given, str) else given
        for one in new:
            if one.get("type") == "item_reference" and one["id"] not in self.items:
                raise Bad(f"Item with id '{one['id']}' not found.", "input", status=404)
        new = [self.items[one["id"]] if one.get("type") == "item_reference" else one for one in new]
        before = body.get("previous_response_id")
        kept = {**self._stored, **unstored}
        if before and before not in kept:
            raise Bad(f"Previous response with id '{before}' not found.", "previous_response_id")
        for item in new:
            kind = item.get("type", "message")
            if kind not in _ITEMS:
                raise Bad(f"Invalid value: '{kind}'.", "input")
        return [*kept.get(before or "", []), *new]

    def _check_pairing(self, items: list[Any]) -> None:
        waiting: dict[str, str] = {}
        for item in items:
            kind = item.get("type", "message")
            if kind in _CALLS:
                waiting[item["call_id"]] = kind
            elif kind.endswith("_call_output") and waiting.pop(item["call_id"], "") + "_output" != kind:
                raise Bad(f"No tool call found for function call output with call_id {item['call_id']}.")
        for call in waiting:
            raise Bad(f"No tool output found for function call {call}.", "input")

    def _check_reasoning(self, items: list[Any], *, stored: bool) -> None:
        for place, item in enumerate(items):
            after = next((one for one in items[place + 1 :] if one.get("type") != "reasoning"), {})
            if item.get("type") != "reasoning":
                continue
            issued = self._reasoning.get(item["id"])
            opaque = item.get("encrypted_content")
            if (opaque and opaque != issued) or (issued is None):
                raise Bad(f"The encrypted content for item {item['id']} could not be verified.")
            if not opaque and not stored:
                raise Bad(f"Item with id '{item['id']}' not found.", "input")
            if _identity(after) != self._led_to.get(item["id"]):
                raise Bad(
                    f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
                )

    def render(
        self, received: Received, body: Any, answer: Turn, unstored: Mapping[str, list[Any]] | None = None
    ) -> Rendered:
        items = self._items(body, answer)
        for item, after in zip(reversed(items), [{}, *reversed(items)], strict=False):
            if item["type"] == "reasoning":
                more = after.get("type") == "reasoning"
                self._led_to[item["id"]] = self._led_to[after["id"]] if more else _identity(after)
                if body.get("store", True) and after and not more:
                    self._needs[after["id"]] = item["id"]
        conversation = self.conversation(body, unstored or {})
        number = f"resp_{next(self.ids):024}"
        if body.get("store", True):
            self._stored[number] = [*conversation, *items]
            self.items |= {item["id"]: item for item in items}
        parts = [json.dumps(item) for item in (*_tools(body), body.get("instructions"), *conversation)]
        total = sum(map(len, parts)) // 4
        wrote = len(json.dumps(items)) // 4
        usage = {
            "input_tokens": total,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": wrote,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": total + wrote,
            **answer.usage,
        }
        document = {
            "id": number,
            "object": "response",
            "created_at": _CREATED + next(self.ids),
            "status": answer.stop or "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "model": body["model"],
            "output": items,
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": body.get("previous_response_id"),
            "store": body.get("store", True),
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "usage": usage,
        }
        fault = {"type": "error", "code": "server_error", "message": "Overloaded", "param": None}
        return Rendered(
            document,
            list(_events(document, items, answer)),
            body.get("stream") is True,
            ("error", {**fault, "sequence_number": 999}),
        )

    def _items(self, body: dict[str, Any], answer: Turn) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for block in answer.blocks:
            number = f"{next(self.ids):024}"
            if isinstance(block, Thinking):
                opaque = self._reasoning[f"rs_{number}"] = f"gAAAA{number}"
                item = {"id": f"rs_{number}", "type": "reasoning"}
                summary = [{"type": "summary_text", "text": block.text}]
                hidden = "reasoning.encrypted_content" in (body.get("include") or ())
                items.append(
                    {**item, "summary": summary, **({"encrypted_content": opaque} if hidden else {})}
                )
            elif isinstance(block, Text):
                part = {"type": "output_text", "text": block.text, "annotations": [], "logprobs": []}
                item = {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant"}
                items.append({**item, "content": [part]})
            elif isinstance(block, ToolCall):
                item = {"id": f"fc_{number}", "type": "function_call", "status": "completed"}
                arguments = json.dumps(dict(block.arguments), ensure_ascii=False)
                call_id = block.id or f"call_{number}"
                items.append({**item, "call_id": call_id, "name": block.name, "arguments": arguments})
        return items


def _identity(item: dict[str, Any]) -> tuple[str, str]:
    """Return the identity of an item without its id; empty for an item that the model did not write. Texts
    may be edited."""
    kind = item.get("type", "message")
    if kind in _CALLS:
        return kind, item["call_id"]
    if kind == "message" and item.get("role") == "assistant":
        return kind, ""
    return "", ""


def _tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all tools of a request from all places."""
    given = body["input"] if isinstance(body.get("input"), list) else []
    lists = [body.get("tools") or [], *(i["tools"] for i in given if i.get("type") == "additional_tools")]
    return [tool for tools in lists for tool in tools]


def _events(document: dict[str, Any], items: list[dict[str, Any]], answer: Turn) -> Iterator[Event]:
    numbers = itertools.count()

    def event(kind: str, **members: Any) -> Event:
        return kind, {"type": kind, **members, "sequence_number": next(numbers)}

    begun = {**document, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for place, (item, block) in enumerate(zip(items, answer.blocks, strict=True)):
        at = {"output_index": place, "item_id": item["id"]}
        if isinstance(block, Text):
            part = item["content"][0]
            yield event("response.output_item.added", output_index=place, item={**item, "content": []})
            yield event("response.content_part.added", **at, content_index=0, part={**part, "text": ""})
            for piece in spoken(block, answer.delivery.delta):
                yield event("response.output_text.delta", **at, content_index=0, delta=piece, logprobs=[])
            yield event("response.output_text.done", **at, content_index=0, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **at, content_index=0, part=part)
        elif isinstance(block, ToolCall):
            yield event("response.output_item.added", output_index=place, item={**item, "arguments": ""})
            for piece in cut(item["arguments"], answer.delivery.delta):
                yield event("response.function_call_arguments.delta", **at, delta=piece)
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield event("response.function_call_arguments.done", **at, **done)
        else:
            yield event("response.output_item.added", output_index=place, item={**item, "summary": []})
        yield event("response.output_item.done", output_index=place, item=item)
    yield event(f"response.{document['status']}", response=document)
