"""The refusals of requests that are larger than a model's context (4 characters are a token)."""

import json
from typing import Any

from support.upstream.api import Api, Received, Refused

_WORDS = {
    "anthropic": "prompt is too long: {have} tokens > {limit} maximum",
    "openai_chat": "This model's maximum context length is {limit} tokens. However, your messages resulted in {have}"
    " tokens. Please reduce the length of the messages.",
    "openai_responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "gemini": "The input token count ({have}) exceeds the maximum number of tokens allowed ({limit}).",
    "ollama": "prompt too long; exceeded max context length by {over} tokens",
    "bedrock": "Input is too long for requested model.",
}


def check(api: Api, received: Received, whole: Any, limit: int) -> None:
    """Raise Refused for a request that does not fit. `whole` is the request with the history that the
    provider keeps."""
    have = len(json.dumps(whole, ensure_ascii=False)) // 4
    if not 0 < limit < have:
        return
    message = _WORDS[api.name].format(have=have, limit=limit, over=have - limit)
    body = api.fault(400, message)
    if api.name.startswith("openai"):
        body["error"]["code"] = "context_length_exceeded"
    raise Refused(400, body, f"{have} tokens where {limit} fit")


def failed_events(body: dict[str, Any], before: str | None) -> list[dict[str, Any]]:
    """Return the refusal as the Responses API writes it into a stream that has begun. `before` is the
    response that the request continues."""
    response: dict[str, Any] = {"id": "resp_refused", "object": "response", "created_at": 1_790_000_000}
    response |= {"previous_response_id": before, "output": [], "error": None}
    error = {name: body["error"][name] for name in ("code", "message")}
    return [
        {"type": "response.created", "response": {**response, "status": "in_progress"}, "sequence_number": 0},
        {
            "type": "response.in_progress",
            "response": {**response, "status": "in_progress"},
            "sequence_number": 1,
        },
        {
            "type": "response.failed",
            "response": {**response, "status": "failed", "error": error},
            "sequence_number": 2,
        },
    ]
