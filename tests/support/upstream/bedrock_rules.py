"""What Bedrock's Converse refuses about a request's shape, with its words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from support.upstream.api import words

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
    """A request that is refused; the text is the API's."""


def check_converse(body: Any) -> None:
    """Raises Bad for a body that the API does not take."""
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
    """Place, role and value of every content block."""
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
