"""OpenAI Chat Completions and the model list: the rules of a request, and answers as JSON and as a stream."""

import json
import re
from collections.abc import Iterator
from typing import Any

from support.upstream.api import Api, Event, Received, Refused, Rendered, cut, spoken, tokens, words
from support.upstream.script import Text, ToolCall, Turn

_CHAT = words(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens"
    " messages metadata modalities model moderation n parallel_tool_calls prediction presence_penalty"
    " prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format"
    " safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools"
    " top_logprobs top_p user verbosity web_search_options"
)
_MESSAGES = {
    "system": "content name",
    "developer": "content name",
    "user": "content name",
    "assistant": "content name refusal audio tool_calls function_call",
    "tool": "content tool_call_id",
    "function": "content name",
}
_PARTS = {
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text",),
    "function": (),
    "assistant": ("text", "refusal"),
    "user": ("text", "image_url", "input_audio", "file"),
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Bad(Exception):
    """Raised for a refused request, with the API's text."""

    def __init__(
        self, message: str, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


def check_chat(body: Any) -> None:
    """Raise Bad for a body that Chat Completions refuses."""
    if not isinstance(body, dict):
        raise Bad("We could not parse the JSON body of your request.")
    for key in body:
        if key not in _CHAT:
            raise Bad(f"Unrecognized request argument supplied: {key}")
    for key in ("model", "messages"):
        if key not in body:
            raise Bad(f"Missing required parameter: '{key}'.", key, "missing_required_parameter")
    if not isinstance(body["messages"], list) or not body["messages"]:
        raise Bad("[] is too short - 'messages'", "messages")
    if body.get("stream_options") is not None and not body.get("stream"):
        raise Bad(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options"
        )
    _check_tools(body)
    for i, message in enumerate(body["messages"]):
        _check_message(i, message)
    _check_pairing(body["messages"])


def _check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools")
    if tools == []:
        raise Bad(
            "Invalid 'tools': empty array. Expected an array with minimum length 1.", "tools", "empty_array"
        )
    names = [(tool.get("function") or tool.get("custom") or {}).get("name") for tool in tools or []]
    for i, name in enumerate(names):
        if not _NAME.fullmatch(str(name)):
            place = f"tools[{i}].function.name"
            raise Bad(
                f"Invalid '{place}': string does not match pattern '^[a-zA-Z0-9_-]+$'.",
                place,
                "invalid_value",
            )
    if len(names) > 128:
        raise Bad("Invalid 'tools': array too long.", "tools", "array_above_max_length")
    for key in ("tool_choice", "parallel_tool_calls"):
        if body.get(key) is not None and not tools:
            raise Bad(f"Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified.", key)
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and (choice.get("function") or {}).get("name") not in names:
        raise Bad("Invalid value for 'tool_choice': the named function is not in 'tools'.", "tool_choice")


def _check_message(i: int, message: Any) -> None:
    place = f"messages[{i}]"
    role = message.get("role") if isinstance(message, dict) else None
    if role not in _MESSAGES:
        raise Bad(f"Invalid value: '{role}'.", f"{place}.role", "invalid_value")
    for key in message:
        if key not in ("role", *_MESSAGES[role].split()):
            raise Bad(f"Unknown parameter: '{place}.{key}'.", f"{place}.{key}", "unknown_parameter")
    content = message.get("content")
    calls = message.get("tool_calls") or message.get("function_call")
    if content is None and not calls and not message.get("refusal"):
        raise Bad("Invalid value for 'content': expected a string, got null.", f"{place}.content")
    if content == []:
        raise Bad(f"Invalid '{place}.content': empty array.", f"{place}.content", "empty_array")
    for k, part in enumerate(content if isinstance(content, list) else []):
        _check_part(f"{place}.content[{k}]", part, role)
    for k, call in enumerate(message.get("tool_calls") or []):
        if not isinstance((call.get("function") or {}).get("arguments", ""), str):
            where = f"{place}.tool_calls[{k}].function.arguments"
            raise Bad(f"Invalid type for '{where}': expected a string.", where, "invalid_type")


def _check_part(place: str, part: Any, role: str) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in _PARTS[role]:
        raise Bad(f"Invalid value: '{kind}'.", f"{place}.type", "invalid_value")
    for key in part:
        if key not in ("type", kind):
            raise Bad(f"Unknown parameter: '{place}.{key}'.", f"{place}.{key}", "unknown_parameter")


def _check_pairing(messages: list[dict[str, Any]]) -> None:
    waiting: list[str] = []
    given: set[str] = set()
    for i, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            call = message.get("tool_call_id")
            if call not in waiting and call not in given:
                raise Bad(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message"
                    " with 'tool_calls'.",
                    f"messages.[{i}].role",
                )
            if call in given:
                raise Bad(f"Duplicate value for 'tool_call_id' of '{call}'.", f"messages.[{i}].tool_call_id")
            waiting.remove(call)
            given.add(call)
            continue
        if waiting:
            raise Bad(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
                " 'tool_call_id'. The following tool_call_ids did not have response messages:"
                f" {', '.join(waiting)}",
                f"messages.[{i}].role",
            )
        waiting = [call["id"] for call in message.get("tool_calls") or []]
        given = set()
        if len(set(waiting)) != len(waiting):
            raise Bad("Duplicate value for 'tool_calls[].id'.", f"messages.[{i}].tool_calls")


_KINDS = {
    401: "authentication_error",
    429: "tokens",
    500: "server_error",
    503: "server_error",
    529: "server_error",
}
_CREATED = 1_760_000_000


class OpenAIChat(Api):
    """OpenAI's Chat Completions."""

    name = "openai_chat"

    def operation(self, received: Received) -> str:
        return {
            ("POST", "/v1/chat/completions"): "model",
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
        return None

    def check(self, received: Received, body: Any) -> None:
        try:
            if not received.header("authorization"):
                raise Bad("You didn't provide an API key.", status=401)
            check_chat(body)
        except Bad as bad:
            document = self.fault(bad.status, str(bad), bad.param, bad.code)
            raise Refused(bad.status, document, str(bad)) from None

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        message = self._message(answer)
        reason = answer.stop or ("tool_calls" if "tool_calls" in message else "stop")
        usage = _usage(body, message) | dict(answer.usage)
        frame = {"id": f"chatcmpl-{next(self.ids):024}", "created": _CREATED, "model": body["model"]}
        chunk = {**frame, "object": "chat.completion.chunk"}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        document = {**frame, "object": "chat.completion", "choices": [choice], "usage": usage}
        found = (body.get("stream_options") or {}).get("include_usage") is True
        return Rendered(
            document,
            list(_events(chunk, message, reason, answer, usage if found else None)),
            body.get("stream") is True,
            ("", self.fault(500, "The server had an error while processing your request.")),
        )

    def _message(self, answer: Turn) -> dict[str, Any]:
        texts = [block.text for block in answer.blocks if isinstance(block, Text)]
        calls = [
            {
                "id": block.id or f"call_{next(self.ids):024}",
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


def _usage(body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    total = tokens(body, "tools", "messages")
    wrote = len(json.dumps(message)) // 4
    return {
        "prompt_tokens": total,
        "completion_tokens": wrote,
        "total_tokens": total + wrote,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    }


def _deltas(message: dict[str, Any], answer: Turn) -> Iterator[dict[str, Any]]:
    size = answer.delivery.delta
    yield {"role": "assistant", "content": None if message["content"] is None else "", "refusal": None}
    for block in answer.blocks:
        if isinstance(block, Text):
            for piece in spoken(block, size):
                yield {"content": piece}
    scripted = [block for block in answer.blocks if isinstance(block, ToolCall)]
    for index, (block, call) in enumerate(zip(scripted, message.get("tool_calls", []), strict=True)):
        function = {"name": block.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]}
        for piece in cut(call["function"]["arguments"], size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _events(
    frame: dict[str, Any], message: dict[str, Any], reason: str, answer: Turn, usage: dict[str, Any] | None
) -> Iterator[Event]:
    """Yield the events of a completion, with figures at its end if the request asked for them."""
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
