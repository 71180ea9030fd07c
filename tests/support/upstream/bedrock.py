"""Amazon Bedrock: Converse, and InvokeModel with Anthropic's models, as JSON and as event streams."""

import base64
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from support.upstream import amazon, binding
from support.upstream.anthropic import Anthropic
from support.upstream.anthropic_rules import Bad as NotAnthropic
from support.upstream.api import Api, Event, Received, Rendered, cut, spoken, tokens, words
from support.upstream.script import Text, ToolCall, Turn

FIELDS = words(
    "additionalModelRequestFields additionalModelResponseFieldPaths guardrailConfig inferenceConfig messages"
    " outputConfig performanceConfig promptVariables requestMetadata serviceTier system toolConfig"
)
_EITHER = "cachePoint document guardContent image text video"
_BLOCKS = {
    "user": words(f"{_EITHER} searchResult toolResult"),
    "assistant": words(f"{_EITHER} citationsContent reasoningContent toolUse"),
}
_RESULT = words("document image json searchResult text video")
_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,256}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Bad(Exception):
    """Raised for a refused request, with the API's text."""


def check_converse(body: Any) -> None:
    """Raise Bad for a body that the API refuses."""
    for key in body:
        if key not in FIELDS:
            raise Bad(f"Unexpected field {key}")
    messages = body.get("messages") or []
    if not messages or messages[0]["role"] != "user":
        raise Bad("A conversation must start with a user message. Try again with one.")
    for before, after in itertools.pairwise(messages):
        if before["role"] == after["role"]:
            raise Bad("A conversation must alternate between user and assistant roles.")
    for place, role, block in placed(messages):
        _check_block(place, role, block)
    _check_tools(body)
    _check_pairing(messages)
    marks = [block for _, _, block in placed(messages) if "cachePoint" in block]
    others = [*(body.get("system") or ()), *(body.get("toolConfig") or {}).get("tools", ())]
    if len(marks) + sum("cachePoint" in block for block in others) > 4:
        raise Bad("Your request has more than 4 cache points.")


def placed(messages: list[Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield place, role and value of every content block."""
    for i, message in enumerate(messages):
        if message.keys() != {"role", "content"} or not message["content"]:
            raise Bad(f"The content field in the Message object at messages.{i} is empty.")
        if message["role"] == "assistant" and "reasoningContent" in message["content"][-1]:
            raise Bad(f"messages.{i}: The final block in an assistant message cannot be `thinking`.")
        for j, block in enumerate(message["content"]):
            yield f"messages.{i}.content.{j}", message["role"], block


def _check_block(place: str, role: str, block: dict[str, Any]) -> None:
    if len(block) != 1 or not block.keys() <= _BLOCKS[role]:
        raise Bad(f"The content block at {place} can't be {sorted(block)} in a {role} message.")
    if "text" in block and not block["text"].strip():
        raise Bad(f"The text field in the ContentBlock object at {place} is blank.")
    if "toolUse" in block:
        use = block["toolUse"]
        if not _ID.fullmatch(use["toolUseId"]) or not _NAME.fullmatch(use["name"]):
            raise Bad(f"The id or name of the toolUse at {place} is malformed.")
        if not isinstance(use["input"], dict) or not use.keys() <= words("toolUseId name input type"):
            raise Bad(f"The format of the value at {place}.toolUse.input is invalid. Provide a json object.")
    if "toolResult" in block:
        _check_result(place, block["toolResult"])


def _check_result(place: str, result: dict[str, Any]) -> None:
    if not result.keys() <= words("toolUseId content status type") or not result["content"]:
        raise Bad(f"The toolResult at {place} is malformed.")
    if result.get("status", "success") not in ("success", "error"):
        raise Bad(f"The status of the toolResult at {place} is unknown.")
    for part in result["content"]:
        if len(part) != 1 or not part.keys() <= _RESULT or not str(part.get("text", "x")).strip():
            raise Bad(f"The content of the toolResult at {place} is blank or malformed.")


def _check_tools(body: dict[str, Any]) -> None:
    config = body.get("toolConfig")
    if config is None:
        if any({"toolUse", "toolResult"} & block.keys() for _, _, block in placed(body["messages"])):
            raise Bad(
                "The toolConfig field must be defined when using toolUse and toolResult content blocks."
            )
        return
    names = []
    for i, tool in enumerate(config.get("tools") or ()):
        if len(tool) != 1 or not tool.keys() <= {"toolSpec", "cachePoint", "systemTool"}:
            raise Bad(f"The tool at toolConfig.tools.{i} is malformed.")
        if specification := tool.get("toolSpec"):
            names.append(specification["name"])
            if not specification.keys() <= words("name description inputSchema strict"):
                raise Bad(f"toolConfig.tools.{i}.toolSpec has unknown members.")
            if specification["inputSchema"]["json"].get("type") != "object":
                raise Bad(f"toolConfig.tools.{i}.toolSpec.inputSchema.json.type must be one of: object.")
    if not names or len(set(names)) != len(names):
        raise Bad("The toolConfig has no tools, or two of one name.")
    choice = config.get("toolChoice") or {"auto": {}}
    if len(choice) != 1 or choice.get("tool", {"name": names[0]})["name"] not in names:
        raise Bad("The toolChoice names no tool.")


def _check_pairing(messages: list[Any]) -> None:
    wanted: list[str] = []
    for i, message in enumerate([*messages, {"role": "user", "content": []}]):
        blocks = message["content"]
        if message["role"] == "assistant":
            uses = (block["toolUse"] for block in blocks if "toolUse" in block)
            wanted = [use["toolUseId"] for use in uses if use.get("type") != "server_tool_use"]
            continue
        given = [block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block]
        if len(given) > len(wanted) or len(set(given)) != len(given):
            raise Bad(
                f"The number of toolResult blocks at messages.{i}.content exceeds the number of toolUse"
                " blocks of previous turn."
            )
        if missing := [name for name in wanted if name not in given]:
            raise Bad(
                f"Expected toolResult blocks at messages.{i}.content for the following Ids: {', '.join(missing)}"
            )
        wanted = []


_PATH = re.compile(r"/model/([^/]+)/(converse|converse-stream|invoke|invoke-with-response-stream)")
_VERSION = re.compile(r"bedrock-2023-05-31|20\d\d-\d\d-\d\d")
_PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0"


class Bedrock(Api):
    """The state of Bedrock: Anthropic's models."""

    name = "bedrock"

    def __init__(self) -> None:
        self.anthropic = Anthropic()
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self.anthropic.reset()

    def operation(self, received: Received) -> str:
        return "model" if received.method == "POST" and _PATH.fullmatch(received.path) else ""

    def fault(self, status: int, message: str) -> dict[str, Any]:
        return {"message": message or "The system encountered an unexpected error."}

    def check(self, received: Received, body: Any) -> None:
        has_key = (received.header("authorization") or "").startswith("Bearer ")
        if not has_key and (problem := amazon.why_not_signed(received)):
            raise self.refused(problem, 403)
        try:
            if "/invoke" in received.path:
                self._check_invoke(received, body)
            else:
                check_converse(body)
                self._check_binding(body)
        except (Bad, NotAnthropic) as bad:
            raise self.refused(str(bad)) from None

    def _check_invoke(self, received: Received, body: dict[str, Any]) -> None:
        if not _VERSION.fullmatch(body.get("anthropic_version", "")):
            raise Bad("anthropic_version: Field required")
        for key in ("model", "stream"):
            if key in body:
                raise Bad(f"{key}: Extra inputs are not permitted")
        self.anthropic.check_body(_as_anthropic(received, body), ",".join(body.get("anthropic_beta") or ()))

    def _check_binding(self, body: dict[str, Any]) -> None:
        for i, j, block, prefix in binding.walk(_plain(body)):
            reasoning = block.get("reasoningContent")
            if reasoning is None:
                continue
            text = reasoning["reasoningText"]
            found = binding.claims(text.get("signature"))
            if found is None or not binding.covers(found, text["text"]) or found["prefix"] != prefix:
                raise Bad(f"messages.{i}.content.{j}: Invalid `signature` in `thinking` block")

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        streamed = received.path.endswith("stream")
        if "/invoke" in received.path:
            return self._rendered_invoke(received, body, answer, streamed)
        content = self._content(body, answer)
        total = tokens(body, "toolConfig", "system", "messages")
        wrote = len(json.dumps(content)) // 4
        usage = {"inputTokens": total, "outputTokens": wrote, "totalTokens": total + wrote}
        usage |= {"cacheReadInputTokens": 0, "cacheWriteInputTokens": 0, **answer.usage}
        calls = any(isinstance(block, ToolCall) for block in answer.blocks)
        document = {
            "metrics": {"latencyMs": 100},
            "output": {"message": {"content": content, "role": "assistant"}},
            "stopReason": answer.stop or ("tool_use" if calls else "end_turn"),
            "usage": usage,
        }
        events = [
            (name, {**value, "p": _padding(n)}) for n, (name, value) in enumerate(_events(document, answer))
        ]
        error = ("throttlingException", self.fault(429, "Overloaded"))
        return Rendered(document, events, streamed, error, framing="messages")

    def _content(self, body: dict[str, Any], answer: Turn) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        for block in answer.blocks:
            if isinstance(block, Text):
                content.append({"text": block.text})
            elif isinstance(block, ToolCall):
                name = block.id or f"tooluse_{next(self.ids):022}"
                use = {"input": dict(block.arguments), "name": block.name, "toolUseId": name}
                content.append({"toolUse": use})
            else:
                signature = binding.sign(block.text, binding.digest(_plain(body), content))
                text = {"signature": signature, "text": block.text}
                content.append({"reasoningContent": {"reasoningText": text}})
        return content

    def _rendered_invoke(self, received: Received, body: Any, answer: Turn, streamed: bool) -> Rendered:
        made = self.anthropic.render(received, _as_anthropic(received, body), answer)
        events = []
        for number, (_, value) in enumerate(event for event in made.events if event[0] != "ping"):
            data = json.dumps(value, ensure_ascii=False).encode()
            events.append(("chunk", {"bytes": base64.b64encode(data).decode(), "p": _padding(number)}))
        error = ("throttlingException", self.fault(429, "Overloaded"))
        return Rendered(made.document, events, streamed, error, framing="messages")


def _as_anthropic(received: Received, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body as Anthropic's own API would have it."""
    match = _PATH.fullmatch(received.path)
    own = {key: value for key, value in body.items() if key not in ("anthropic_version", "anthropic_beta")}
    return {"model": unquote(match[1]) if match else "", **own}


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """Return what reasoning is bound to: tools, system and messages, without marks for the cache."""
    tools = (body.get("toolConfig") or {}).get("tools") or []
    messages = [{**one, "content": _unmarked(one["content"])} for one in body["messages"]]
    return {"tools": _unmarked(tools), "system": _unmarked(body.get("system") or []), "messages": messages}


def _unmarked(blocks: list[Any]) -> list[Any]:
    return [block for block in blocks if "cachePoint" not in block]


def _padding(number: int) -> str:
    """Return padding of another length for every event, which hides how long the tokens are."""
    return _PADDING[: number * 7 % 31]


def _deltas(block: Any, made: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    if isinstance(block, Text):
        yield from ({"text": piece} for piece in spoken(block, size))
    elif isinstance(block, ToolCall):
        text = json.dumps(made["toolUse"]["input"], ensure_ascii=False)
        yield from ({"toolUse": {"input": piece}} for piece in ("", *cut(text, size)))
    else:
        for piece in spoken(block, size):
            yield {"reasoningContent": {"text": piece}}
        yield {"reasoningContent": {"signature": made["reasoningContent"]["reasoningText"]["signature"]}}


def _events(document: dict[str, Any], answer: Turn) -> Iterator[Event]:
    """Yield the events of a message: start, the blocks with their deltas, the stop reason, the figures."""
    yield "messageStart", {"role": "assistant"}
    content = document["output"]["message"]["content"]
    for index, (block, made) in enumerate(zip(answer.blocks, content, strict=True)):
        place = {"contentBlockIndex": index}
        if "toolUse" in made:
            use = {key: made["toolUse"][key] for key in ("name", "toolUseId")}
            yield "contentBlockStart", {**place, "start": {"toolUse": use}}
        for delta in _deltas(block, made, answer.delivery.delta):
            yield "contentBlockDelta", {**place, "delta": delta}
        yield "contentBlockStop", place
    yield "messageStop", {"stopReason": document["stopReason"]}
    yield "metadata", {"metrics": document["metrics"], "usage": document["usage"]}
