"""Requests as they may have been sent for a logged conversation, in the format of an API.

System prompts, declarations of tools, images and reasoning are not in logs, or not needed here: a body has
the messages, and declares the tools that were called, by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import orjson

from penumbra.session_logs.log_entries import (
    Entry,
    LoggedCall,
    LoggedConversation,
    LoggedPrompt,
    LoggedResponse,
    LoggedResult,
)

Message = dict[str, Any]
_SCHEMA = {"type": "object"}
_NO_TOOL = "tool"
"""Stands for the tools of a conversation in which none was called."""


@dataclass(frozen=True, slots=True)
class LoggedBody:
    """The last request of a conversation, which holds all others."""

    data: bytes
    turns: tuple[int, ...]
    """For each of its messages the number of the first request that has it, from 0 on."""


@dataclass(frozen=True, slots=True)
class WireShape:
    """How an API writes a conversation."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    messages: str
    """The member that holds them."""
    said: Callable[[LoggedResponse], list[Message]]
    asked: Callable[[LoggedPrompt], list[Message]]
    gave: Callable[[Sequence[tuple[LoggedResult, LoggedCall | None]]], list[Message]]
    tools: Callable[[Sequence[tuple[str, bool]]], list[Message]]
    """Of names, and whether the tool is freeform."""

    def body(self, conversation: LoggedConversation, model: str) -> LoggedBody | None:
        """The request behind the last response; None if there is no response."""
        entries, turn = conversation.entries, 0
        last = max((at for at, entry in enumerate(entries) if isinstance(entry, LoggedResponse)), default=-1)
        if last < 0:
            return None
        calls: dict[str, LoggedCall] = {}
        messages: list[Message] = []
        turns: list[int] = []
        for kind, group in groupby(entries[:last], type):
            for made in self._messages(kind, list(group), calls):
                messages += made
                turns += [turn] * len(made)
                turn += kind is LoggedResponse
        names = {call.name: isinstance(call.arguments, str) for call in calls.values()} or {_NO_TOOL: False}
        body = {"model": model, "tools": self.tools(list(names.items())), self.messages: messages}
        return LoggedBody(_dumped(body), tuple(turns))

    def _messages(
        self, kind: type, entries: list[Entry], calls: dict[str, LoggedCall]
    ) -> Iterator[list[Message]]:
        """The messages of neighbours of one kind; `calls` gets those that they make."""
        if kind is LoggedResult:
            results = [entry for entry in entries if isinstance(entry, LoggedResult)]
            yield self.gave([(result, calls.get(result.call_id)) for result in results])
        for entry in entries:
            if isinstance(entry, LoggedPrompt):
                yield self.asked(entry)
            elif isinstance(entry, LoggedResponse):
                calls |= {call.id: call for call in entry.calls}
                yield self.said(entry)


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (orjson.JSONEncodeError, TypeError):
        # Lone surrogates and numbers of any size, which orjson does not write.
        return json.dumps(value, default=str).encode()


def _anthropic_said(response: LoggedResponse) -> list[Message]:
    blocks: list[Message] = [{"type": "text", "text": response.text}] if response.text else []
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in response.calls
    ]
    return [{"role": "assistant", "content": blocks or [{"type": "text", "text": "."}]}]


def _anthropic_gave(results: Sequence[tuple[LoggedResult, LoggedCall | None]]) -> list[Message]:
    blocks: list[Message] = []
    for result, _ in results:
        content: Any = [{"type": "text", "text": text} for text in result.texts]
        if len(result.texts) == 1:
            content = result.texts[0]
        block = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
        blocks.append({**block, "is_error": True} if result.is_error else block)
    return [{"role": "user", "content": blocks}]


_ANTHROPIC = WireShape(
    "POST",
    "/v1/messages",
    (("x-api-key", "projection"), ("anthropic-version", "2023-06-01")),
    "messages",
    said=_anthropic_said,
    asked=lambda prompt: [{"role": "user", "content": prompt.text}],
    gave=_anthropic_gave,
    tools=lambda names: [{"name": name, "input_schema": _SCHEMA} for name, _ in names],
)


def _responses_said(response: LoggedResponse) -> list[Message]:
    items: list[Message] = []
    if response.text or not response.calls:
        content = [{"type": "output_text", "text": response.text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    return items + [_responses_call(call) for call in response.calls]


def _responses_call(call: LoggedCall) -> Message:
    if isinstance(call.arguments, str):
        named: Message = {"type": "custom_tool_call", "call_id": call.id, "name": call.name}
        return {**named, "input": call.arguments}
    written = _dumped(call.arguments).decode()
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": written}


def _responses_gave(results: Sequence[tuple[LoggedResult, LoggedCall | None]]) -> list[Message]:
    items = []
    for result, call in results:
        is_free = call is not None and isinstance(call.arguments, str)
        output: Any = [{"type": "input_text", "text": text} for text in result.texts]
        if len(result.texts) == 1:
            output = result.texts[0]
        kind = "custom_tool_call_output" if is_free else "function_call_output"
        items.append({"type": kind, "call_id": result.call_id, "output": output})
    return items


_RESPONSES = WireShape(
    "POST",
    "/v1/responses",
    (("authorization", "Bearer projection"),),
    "input",
    said=_responses_said,
    asked=lambda prompt: [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt.text}]}
    ],
    gave=_responses_gave,
    tools=lambda names: [
        {"type": "custom", "name": name}
        if is_free
        else {"type": "function", "name": name, "parameters": _SCHEMA}
        for name, is_free in names
    ],
)


def _gemini_said(response: LoggedResponse) -> list[Message]:
    parts: list[Message] = [{"text": response.text}] if response.text or not response.calls else []
    parts += [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
        for call in response.calls
    ]
    return [{"role": "model", "parts": parts}]


def _gemini_gave(results: Sequence[tuple[LoggedResult, LoggedCall | None]]) -> list[Message]:
    parts = []
    for result, call in results:
        name = call.name if call is not None else _NO_TOOL
        response = {"error" if result.is_error else "output": "\n".join(result.texts)}
        parts.append({"functionResponse": {"id": result.call_id, "name": name, "response": response}})
    return [{"role": "user", "parts": parts}]


_GEMINI = WireShape(
    "POST",
    "/v1beta/models/gemini:streamGenerateContent",
    (("x-goog-api-key", "projection"),),
    "contents",
    said=_gemini_said,
    asked=lambda prompt: [{"role": "user", "parts": [{"text": prompt.text}]}],
    gave=_gemini_gave,
    tools=lambda names: [{"functionDeclarations": [{"name": name} for name, _ in names]}],
)

SHAPES = {"anthropic": _ANTHROPIC, "openai_responses": _RESPONSES, "gemini": _GEMINI}
"""By the name of the format, as in `rules/prices.yaml`."""
