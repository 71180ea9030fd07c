"""What OpenAI Chat Completions and embeddings refuse about a request's shape, with their words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from support.upstream.api import words

_CHAT = words(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens"
    " messages metadata modalities model moderation n parallel_tool_calls prediction presence_penalty"
    " prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format"
    " safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools"
    " top_logprobs top_p user verbosity web_search_options"
)
_EMBEDDINGS = words("dimensions encoding_format input model user")
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
    """A request that is refused; the text is the API's."""

    def __init__(
        self, message: str, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


def check_embeddings(body: Any) -> None:
    """Raises Bad for a body that the embeddings API does not take."""
    _check_fields(body, _EMBEDDINGS, ("model", "input"))


def check_chat(body: Any) -> None:
    """Raises Bad for a body that Chat Completions does not take."""
    _check_fields(body, _CHAT, ("model", "messages"))
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


def _check_fields(body: Any, known: Iterable[str], required: Iterable[str]) -> None:
    if not isinstance(body, dict):
        raise Bad("We could not parse the JSON body of your request.")
    for key in body:
        if key not in known:
            raise Bad(f"Unrecognized request argument supplied: {key}")
    for key in required:
        if key not in body:
            raise Bad(f"Missing required parameter: '{key}'.", key, "missing_required_parameter")


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
