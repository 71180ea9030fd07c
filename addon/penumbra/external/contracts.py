"""How a model is asked for a short text, in each provider's own words: request out, response in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penumbra.external.api import count
from penumbra.external.http import Call
from penumbra.external.strategy import Failure, Response


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told and given."""

    model: str
    instruction: str
    text: str
    tokens: int
    """How many its response may have, thinking included."""


@dataclass(frozen=True, slots=True)
class Contract:
    """One provider's API."""

    path: str
    """Behind the base URL; `{model}` stands for the model's name."""
    key: Callable[[str], dict[str, str]]
    """The headers that carry a key."""
    headers: Mapping[str, str]
    body: Callable[[Prompt], dict[str, Any]]
    read: Callable[[Any], Response]
    """What a decoded response says. Raises Failure, or LookupError, TypeError where it is none."""

    def call(self, endpoint: str, headers: Mapping[str, str], prompt: Prompt) -> Call:
        """The request to an endpoint: a base URL, or the whole address."""
        url = address(endpoint, self.path, prompt.model)
        return Call(url, {**self.headers, **headers}, self.body(prompt))


def address(endpoint: str, path: str, model: str) -> str:
    """A base URL with the contract's path behind it, as much of it as is missing."""
    base = endpoint.rstrip("/")
    version, operation = path.split("/")[1], path.rsplit("/", 1)[1]
    base_path = urlsplit(base).path
    if base_path.endswith(operation.replace("{model}", model).rpartition(":")[2] or operation):
        return base
    if base_path.endswith(f"/{version}"):
        base = base.removesuffix(f"/{version}")
    return base + path.replace("{model}", model)


def _finished(reason: Any, *good: Any) -> None:
    """A response that was cut off, or that is a refusal, is none."""
    if reason not in good:
        raise Failure("unfinished", str(reason)[:40] if isinstance(reason, str) else "")


def _anthropic_body(prompt: Prompt) -> dict[str, Any]:
    return {
        "model": prompt.model,
        "max_tokens": prompt.tokens,
        "system": prompt.instruction,
        "messages": [{"role": "user", "content": prompt.text}],
    }


def _anthropic_response(response: Any) -> Response:
    text = "".join(block["text"] for block in response["content"] if block["type"] == "text")
    _finished(response["stop_reason"], "end_turn", "stop_sequence")
    usage = response.get("usage") or {}
    return Response(text, count(usage.get("input_tokens")), count(usage.get("output_tokens")))


def _openai_body(prompt: Prompt) -> dict[str, Any]:
    return {
        "model": prompt.model,
        "max_completion_tokens": prompt.tokens,
        "messages": [
            {"role": "system", "content": prompt.instruction},
            {"role": "user", "content": prompt.text},
        ],
    }


def _openai_response(response: Any) -> Response:
    choice = response["choices"][0]
    _finished(choice["finish_reason"], "stop")
    usage = response.get("usage") or {}
    tokens = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    return Response(choice["message"]["content"], *tokens)


def _gemini_body(prompt: Prompt) -> dict[str, Any]:
    return {
        "systemInstruction": {"parts": [{"text": prompt.instruction}]},
        "contents": [{"role": "user", "parts": [{"text": prompt.text}]}],
        "generationConfig": {"maxOutputTokens": prompt.tokens},
    }


def _gemini_response(response: Any) -> Response:
    candidate = response["candidates"][0]
    _finished(candidate["finishReason"], "STOP")
    parts = candidate["content"]["parts"]
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    usage = response.get("usageMetadata") or {}
    spent = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
    return Response(text, count(usage.get("promptTokenCount")), spent)


CONTRACTS: Mapping[str, Contract] = {
    "anthropic": Contract(
        path="/v1/messages",
        key=lambda key: {"x-api-key": key},
        headers={"anthropic-version": "2023-06-01"},
        body=_anthropic_body,
        read=_anthropic_response,
    ),
    "openai": Contract(
        path="/v1/chat/completions",
        key=lambda key: {"authorization": f"Bearer {key}"},
        headers={},
        body=_openai_body,
        read=_openai_response,
    ),
    "gemini": Contract(
        path="/v1beta/models/{model}:generateContent",
        key=lambda key: {"x-goog-api-key": key},
        headers={},
        body=_gemini_body,
        read=_gemini_response,
    ),
}
