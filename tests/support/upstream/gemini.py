"""Google Gemini: generateContent, streamGenerateContent (events and array) and countTokens."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from support.upstream.api import Api, Event, Received, Rendered, spoken, tokens, words
from support.upstream.script import Text, Thinking, ToolCall, Turn

_FIELDS = words("cachedContent contents generationConfig safetySettings systemInstruction toolConfig tools")
_PARTS = words("fileData functionCall functionResponse inlineData text thought thoughtSignature")
_PATH = re.compile(
    r"/v1(?:beta)?/models/[\w.-]+:(generateContent|streamGenerateContent|countTokens)|/v1internal:(\w+)"
)


class Gemini(Api):
    """The state of Gemini: the signatures that it has issued."""

    name = "gemini"

    def reset(self) -> None:
        super().reset()
        self.call_ids = True
        """True if calls have ids."""
        self._signatures: set[str] = set()

    def operation(self, received: Received) -> str:
        match = _PATH.fullmatch(received.path) if received.method == "POST" else None
        if match is None:
            return ""
        return "count_tokens" if "countTokens" in match.group() else "model"

    def fault(self, status: int, message: str) -> dict[str, Any]:
        name = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED"}.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message or name, "status": name}}

    def direct(self, operation: str, received: Received, body: Any) -> dict[str, Any] | None:
        if operation != "count_tokens":
            return None
        return {"totalTokens": self._count(body)}

    def check(self, received: Received, body: Any) -> None:
        if not received.header("x-goog-api-key") and "key=" not in received.target:
            raise self.refused("Method doesn't allow unregistered callers.", 403)
        request = _inner(body)
        for key in request:
            if key not in _FIELDS:
                raise self.refused(f'Invalid JSON payload received. Unknown name "{key}": Cannot find field.')
        names = [one["name"] for tool in request.get("tools") or () for one in tool["functionDeclarations"]]
        if len(set(names)) != len(names):
            raise self.refused("Duplicate function declaration found.")
        if not request.get("contents"):
            raise self.refused("* GenerateContentRequest.contents: contents is not specified")
        self._check_contents(_merged(request["contents"]))

    def _check_contents(self, contents: list[dict[str, Any]]) -> None:
        for i, (content, after) in enumerate(itertools.zip_longest(contents, contents[1:])):
            for part in content["parts"]:
                if not part.keys() <= _PARTS or not part:
                    raise self.refused(f"Unknown name in contents[{i}].parts: {sorted(part)}")
                signature = part.get("thoughtSignature")
                if signature and signature not in self._signatures:
                    raise self.refused("Thought signature is not valid")
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            answers = _answers(after) if after else []
            if calls and sorted(one["name"] for one in answers) != sorted(one["name"] for one in calls):
                raise self.refused(
                    "Please ensure that the number of function response parts is equal to the number of"
                    " function call parts of the function call turn."
                )
            if not calls and answers:
                raise self.refused(
                    "Please ensure that function response turn comes immediately after a function call turn."
                )
            if sorted(str(one.get("id")) for one in answers) != sorted(str(one.get("id")) for one in calls):
                raise self.refused("function response ids do not match")

    def _count(self, body: dict[str, Any]) -> int:
        return tokens(_inner(body), "tools", "systemInstruction", "contents")

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        total = self._count(body)
        parts = list(self._parts(answer))
        wrote = len(json.dumps(parts)) // 4
        usage = {
            "promptTokenCount": total,
            "cachedContentTokenCount": 0,
            "candidatesTokenCount": wrote,
            "totalTokenCount": total + wrote,
            **answer.usage,
        }
        frame = {"usageMetadata": usage, "modelVersion": "gemini", "responseId": f"r{next(self.ids)}"}
        reason = answer.stop or "STOP"

        def piece(parts: list[Any], **more: Any) -> dict[str, Any]:
            value = {
                "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **more}],
                **frame,
            }
            return {"response": value, "traceId": "t"} if "request" in body else value

        *before, last = [[part] for part in _cut(parts, answer)] or [[]]
        pieces = [*map(piece, before), piece(last, finishReason=reason)]
        events: list[Event] = [("", one) for one in pieces]
        return Rendered(
            piece(parts, finishReason=reason),
            events,
            "streamGenerateContent" in received.path,
            ("", self.fault(503, "Overloaded")),
            framing="events" if "alt=sse" in received.target else "array",
        )

    def _parts(self, answer: Turn) -> Iterator[dict[str, Any]]:
        for block in answer.blocks:
            if isinstance(block, Text):
                yield {"text": block.text}
            elif isinstance(block, Thinking):
                yield {"text": block.text, "thought": True}
            elif isinstance(block, ToolCall):
                number = f"{next(self.ids):024}"
                self._signatures.add(f"U0lH{number}")
                call = {"name": block.name, "args": dict(block.arguments)}
                if self.call_ids:
                    call["id"] = block.id or f"call-{number}"
                yield {"functionCall": call, "thoughtSignature": f"U0lH{number}"}


def _inner(body: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = body.get("request", body)
    return inner


def _merged(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return contents in which neighbours of one role are merged."""
    merged: list[dict[str, Any]] = []
    for content in contents:
        if merged and merged[-1]["role"] == content["role"]:
            merged[-1] = {**merged[-1], "parts": [*merged[-1]["parts"], *content["parts"]]}
        else:
            merged.append(content)
    return merged


def _answers(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]


def _cut(parts: list[dict[str, Any]], answer: Turn) -> Iterator[dict[str, Any]]:
    size = answer.delivery.delta
    for block, part in zip(answer.blocks, parts, strict=True):
        pieces = [] if isinstance(block, ToolCall) else spoken(block, size)
        yield from ({**part, "text": piece} for piece in pieces) if pieces else [part]
