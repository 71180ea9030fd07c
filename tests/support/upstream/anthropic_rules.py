"""The rules by which Anthropic Messages refuses a request, and the text of each refusal."""

import re
from collections import Counter
from typing import Any

from support.upstream.api import words
from support.upstream.binding import blocks

_COUNTED = words(
    "cache_control messages model output_config speed system thinking tool_choice tools user_profile_id"
)
_MESSAGE = _COUNTED | words(
    "container diagnostics inference_geo max_tokens metadata service_tier stop_sequences stream temperature"
    " top_k top_p"
)
_BETA = words("context_management mcp_servers output_format fallbacks billing_policy compaction")
_BLOCKS = {
    "text": "text citations",
    "image": "source transformations",
    "document": "source title context citations",
    "search_result": "source title content citations",
    "thinking": "thinking signature",
    "redacted_thinking": "data",
    "tool_use": "id name input caller toolset_name",
    "tool_result": "tool_use_id content is_error toolset_name",
    "server_tool_use": "id name input caller",
    "web_search_tool_result": "tool_use_id content caller",
    "tool_reference": "tool_name",
    "container_upload": "file_id",
    "code_execution_tool_result": "tool_use_id content",
    "mcp_tool_use": "id name server_name input",
    "mcp_tool_result": "tool_use_id is_error content",
    "compaction": "content encrypted_content signature tool_changes",
    "tool_addition": "tool",
    "tool_removal": "tool",
}
_UNCACHED = ("thinking", "redacted_thinking")
_IN_RESULT = ("text", "image", "document", "search_result", "tool_reference")
_TOOL = words(
    "allowed_callers cache_control defer_loading description eager_input_streaming input_examples"
    " input_schema name strict type"
)
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_SAFEGUARDS_BETA = "dangerous-tool-use-2026-09-03"
CHANGES_BETA = "mid-conversation-tool-changes-2026-07-01"
_INLINE_BETA = "inline-tools-2026-09-15"
_TOOL_CHANGES = ("tool_addition", "tool_removal")
VERSIONS = ("2023-06-01", "2026-10-21")
_SAMPLING = ("temperature", "top_p", "top_k")
_EXTRA = "Extra inputs are not permitted"
_MISSING_RESULT = (
    "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each"
    " `tool_use` block must have a corresponding `tool_result` block in the next message."
)


class Bad(Exception):
    """Raised for a refused request, with the API's text."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def check_messages(body: Any, beta: str, *, counting: bool, version: str = VERSIONS[0]) -> None:
    """Raise Bad for a body that the API refuses. `beta` and `version` are headers."""
    if not isinstance(body, dict):
        raise Bad("Input should be a valid dictionary or object to extract fields from")
    _check_fields(body, beta, counting)
    if version != VERSIONS[0]:
        _check_newer(body)
    _check_tools(body)
    _check_breakpoints(body)
    for i, message in enumerate(body["messages"]):
        _check_message(i, message, last=i == len(body["messages"]) - 1)
    _check_tool_changes(body, beta)
    turns = _turns(body["messages"])
    if turns and turns[0][0] != "user":
        raise Bad('messages: first message must use the "user" role')
    for role, placed in turns:
        if role == "assistant" and placed and placed[-1][1]["type"] in _UNCACHED:
            raise Bad(
                f"messages.{placed[-1][0]}: The final block in an assistant message cannot be `thinking`."
            )
    _check_ids(turns)
    _check_pairing(turns)
    _check_thinking(body, turns, counting)


def _check_fields(body: dict[str, Any], beta: str, counting: bool) -> None:
    known = (_COUNTED if counting else _MESSAGE) | (_BETA if beta else frozenset())
    known |= {"safeguards"} if _SAFEGUARDS_BETA in beta else frozenset()
    for key in body:
        if key not in known:
            raise Bad(f"{key}: {_EXTRA}")
    for key in ("model", "messages") if counting else ("model", "messages", "max_tokens"):
        if key not in body:
            raise Bad(f"{key}: Field required")
    if not isinstance(body["messages"], list) or not body["messages"]:
        raise Bad("messages: at least one message is required")
    thinking = body.get("thinking") or {}
    if "block_binding" in thinking and _BINDING_BETA not in beta:
        raise Bad(f"thinking.{thinking['type']}.block_binding: {_EXTRA}")


def _check_newer(body: dict[str, Any]) -> None:
    """Check members that only the first version accepts."""
    for key in _SAMPLING:
        if key in body:
            raise Bad(f"{key}: {_EXTRA}")
    for i, message in enumerate(body["messages"]):
        for j, block in enumerate(blocks(message.get("content"))):
            if message.get("role") == "assistant" and block.get("type") == "document":
                raise Bad(f"messages.{i}.content.{j}: `document` blocks can not be in `assistant` messages")
            if message.get("role") == "user" and block.get("type") == "text" and block.get("citations"):
                raise Bad(f"messages.{i}.content.{j}.text.citations: {_EXTRA}")


def _check_tools(body: dict[str, Any]) -> None:
    names = []
    for i, tool in enumerate(body.get("tools") or []):
        names.append(tool.get("name"))
        if tool.get("type", "custom") != "custom":
            continue
        for key in tool:
            if key not in _TOOL:
                raise Bad(f"tools.{i}.custom.{key}: {_EXTRA}")
        if not _TOOL_NAME.fullmatch(str(tool.get("name"))):
            raise Bad(f"tools.{i}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if not isinstance(tool.get("input_schema"), dict) or tool["input_schema"].get("type") != "object":
            raise Bad(f"tools.{i}.custom.input_schema.type: Field required")
    if len(set(names)) != len(names):
        raise Bad("tools: Tool names must be unique.")
    choice = body.get("tool_choice")
    if choice and not names:
        raise Bad("tool_choice: tool_choice may only be specified while providing tools.")
    if choice and choice.get("type") == "tool" and choice.get("name") not in names:
        raise Bad(f"tool_choice: Tool '{choice.get('name')}' not found in provided tools")


def _check_tool_changes(body: dict[str, Any], beta: str) -> None:
    """Check that a system message within the messages stands after a user message and before the model's
    turn."""
    messages, names = body["messages"], {tool.get("name") for tool in body.get("tools") or []}
    for i, message in enumerate(messages):
        changes = [each for each in blocks(message["content"]) if each["type"] in _TOOL_CHANGES]
        if changes and message["role"] != "system":
            raise Bad(f"messages.{i}: `{changes[0]['type']}` blocks can only be in `system` messages")
        if not changes:
            continue
        before = messages[i - 1]["role"] if i else ""
        after = messages[i + 1]["role"] if i + 1 < len(messages) else "assistant"
        if before != "user" or after != "assistant":
            raise Bad(f"messages.{i}: a `system` message must follow a `user` message and precede a response")
        for change in changes:
            _check_tool_change(f"messages.{i}.content", change, names, beta)


def _check_tool_change(place: str, change: dict[str, Any], names: set[Any], beta: str) -> None:
    tool = change.get("tool") or {}
    if CHANGES_BETA not in beta:
        raise Bad(f"{place}: Input tag '{change['type']}' does not match any of the expected tags")
    if tool.get("type") == "tool_definition":
        definition = tool.get("definition") or {}
        if _INLINE_BETA not in beta:
            raise Bad(f"{place}.tool: Input tag 'tool_definition' does not match any of the expected tags")
        if set(tool) != {"type", "definition"} or not set(definition) <= _TOOL:
            raise Bad(f"{place}.tool.tool_definition: {_EXTRA}")
        if (definition.get("input_schema") or {}).get("type") != "object":
            raise Bad(f"{place}.tool.tool_definition.definition.input_schema.type: Field required")
        names.add(definition.get("name"))
    elif tool.get("type") == "tool_reference" and tool.get("name") not in names:
        raise Bad(f"{place}.tool: Tool '{tool.get('name')}' not found")


def _count_breakpoints(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_count_breakpoints, value))
    if not isinstance(value, dict):
        return 0
    return bool(value.get("cache_control")) + sum(
        _count_breakpoints(value[k]) for k in ("content",) if k in value
    )


def _check_breakpoints(body: dict[str, Any]) -> None:
    found = sum(_count_breakpoints(body.get(key)) for key in ("tools", "system", "messages"))
    found += bool(body.get("cache_control"))
    if found > 4:
        raise Bad(f"A maximum of 4 blocks with cache_control may be provided. Found {found}.")


def _check_message(i: int, message: Any, *, last: bool) -> None:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant", "system"):
        raise Bad(f"messages.{i}.role: Input should be 'user' or 'assistant'")
    for key in message:
        if key not in ("role", "content"):
            raise Bad(f"messages.{i}.{key}: {_EXTRA}")
    if not isinstance(message.get("content"), (str, list)):
        raise Bad(f"messages.{i}.content: Field required")
    found = blocks(message["content"])
    if not message["content"] and not (last and message["role"] == "assistant"):
        raise Bad(
            f"messages.{i}: all messages must have non-empty content except for the optional final"
            " assistant message"
        )
    for j, block in enumerate(found):
        _check_block(f"messages.{i}.content.{j}", block, message["role"])
    final = found[-1] if found else {}
    if (
        last
        and message["role"] == "assistant"
        and str(final.get("text", "")) != str(final.get("text", "")).rstrip()
    ):
        raise Bad("messages: final assistant content cannot end with trailing whitespace")


def _check_block(place: str, block: Any, role: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in _BLOCKS:
        raise Bad(f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags")
    allowed = {"type", *_BLOCKS[kind].split(), *(() if kind in _UNCACHED else ("cache_control",))}
    for key in block:
        if key not in allowed:
            raise Bad(f"{place}.{kind}.{key}: {_EXTRA}")
    if kind == "text":
        _check_text(block)
    elif kind in ("tool_use", "thinking", "redacted_thinking") and role != "assistant":
        raise Bad(f"{place}: `{kind}` blocks can only be in `assistant` messages")
    elif kind == "tool_use":
        if not _ID.fullmatch(str(block.get("id"))):
            raise Bad(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not isinstance(block.get("input"), dict):
            raise Bad(f"{place}.tool_use.input: Input should be a valid dictionary")
    elif kind == "tool_result":
        _check_result(place, block, role)


def _check_text(block: dict[str, Any]) -> None:
    if not isinstance(block.get("text"), str) or not block["text"]:
        raise Bad("messages: text content blocks must be non-empty")
    if not block["text"].strip():
        raise Bad("messages: text content blocks must contain non-whitespace text")


def _check_result(place: str, block: dict[str, Any], role: str) -> None:
    if role != "user":
        raise Bad(f"{place}: `tool_result` blocks can only be in `user` messages")
    content = block.get("content")
    if block.get("is_error") and not content:
        raise Bad(f"{place}.tool_result: content cannot be empty if `is_error` is true")
    for k, part in enumerate(content if isinstance(content, list) else []):
        if not isinstance(part, dict) or part.get("type") not in _IN_RESULT:
            raise Bad(f"{place}.tool_result.content.{k}: Input tag does not match any of the expected tags")
        _check_block(f"{place}.tool_result.content.{k}", part, role)


Placed = tuple[int, dict[str, Any]]
Turns = list[tuple[str, list[Placed]]]


def _turns(messages: list[dict[str, Any]]) -> Turns:
    """Yield runs of messages of one role, as the API joins them, with each block's message index."""
    turns: Turns = []
    for i, message in enumerate(messages):
        placed = [(i, block) for block in blocks(message["content"])]
        if message["role"] == "system":
            continue
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(placed)
        else:
            turns.append((message["role"], placed))
    return turns


def _of(kind: str, placed: list[Placed]) -> list[Placed]:
    return [(i, block) for i, block in placed if block["type"] == kind]


def _check_ids(turns: Turns) -> None:
    seen: set[str] = set()
    for i, block in (call for _, placed in turns for call in _of("tool_use", placed)):
        if block["id"] in seen:
            raise Bad(f"messages.{i}: `tool_use` ids must be unique")
        seen.add(block["id"])


def _check_pairing(turns: Turns) -> None:
    calls: list[Placed] = []
    for role, placed in [*turns, ("user", [])]:
        if role == "assistant":
            calls = _of("tool_use", placed)
            continue
        results = _of("tool_result", placed)
        wanted = [block["id"] for _, block in calls]
        given = Counter(block.get("tool_use_id") for _, block in results)
        for i, block in results:
            if block.get("tool_use_id") not in wanted:
                raise Bad(
                    f"messages.{i}: unexpected `tool_use_id` found in `tool_result` blocks:"
                    f" {block.get('tool_use_id')}. Each `tool_result` block must have a corresponding"
                    " `tool_use` block in the previous message."
                )
            if given[block["tool_use_id"]] > 1:
                raise Bad(
                    f"messages.{i}: each tool_use must have a single result. Found multiple `tool_result`"
                    f" blocks with id: {block['tool_use_id']}"
                )
        first = [block.get("tool_use_id") for _, block in placed[: len(results)]]
        if missing := [name for name in wanted if name not in first]:
            raise Bad(_MISSING_RESULT.format(calls[0][0], ", ".join(missing)))
        calls = []


def _check_thinking(body: dict[str, Any], turns: Turns, counting: bool) -> None:
    thinking = body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    if not counting and body["max_tokens"] <= thinking.get("budget_tokens", 0):
        raise Bad("`max_tokens` must be greater than `thinking.budget_tokens`.")
    for role, placed in reversed(turns):
        if role == "user" and not _of("tool_result", placed):
            return
        if role == "assistant" and _of("tool_use", placed) and "thinking" not in placed[0][1]["type"]:
            raise Bad(
                f"messages.{placed[0][0]}.content.0.type: Expected `thinking` or `redacted_thinking`, but"
                f" found `{placed[0][1]['type']}`. When `thinking` is enabled, a final `assistant` message"
                " must start with a thinking block (preceeding the lastmost set of `tool_use` and"
                " `tool_result` blocks)."
            )
