"""OpenAI Responses: requests.

The input is a string or a list of items. Results of the client's tools are items of their own; what
the provider's tools returned, reasoning, compaction and everything encrypted is never touched. With
`previous_response_id` the history is at the provider and only new items travel.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from penumbra.apis.parts import Conversation, ResultText, ToolCall, joined_text, text_values
from penumbra.wire.document import Document, encode

CALLS = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
"""Items of calls that the client answers: the tool's name where the item has none, and its arguments."""
_RESULTS = {
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
}
# What the client writes besides messages and results.
_FROM_CLIENT = {
    "additional_tools",
    "compaction_trigger",
    "configuration_update",
    "mcp_approval_response",
    "tool_search_output",
}
TEXTS = ("input_text", "output_text", "text")


def read(document: Document) -> Conversation:
    """The conversation of a `/responses` body, or of one of its kin."""
    top = document.members(document.root)
    items = [document.members(item) for item in document.items(top.get("input"))]
    kinds = [kind(document, item) for item in items]
    calls: dict[str, ToolCall] = {}
    results: list[ResultText] = []
    opening: list[str] = []
    answers = [turn for turn, item in enumerate(items) if is_answer(document, kinds[turn], item)]
    first_answer = answers[0] if answers else len(items)
    for turn, (item, name) in enumerate(zip(items, kinds, strict=True)):
        if name in CALLS:
            call = _call(document, item, *CALLS[name])
            calls[call.id] = call
        elif name in _RESULTS:
            results.extend(_results(document, item, calls, turn))
        elif turn < first_answer and document.string(item.get("role")) == "user":
            opening.append(joined_text(document, item.get("content"), TEXTS))
    return Conversation(
        model=document.string(top.get("model")) or "",
        results=tuple(results),
        messages=top.get("input"),
        tools=top.get("tools"),
        last_answer=max((turn for turn in answers if turn < len(items) - 1), default=-1),
        last_thinking=max((turn for turn in answers if "encrypted_content" in items[turn]), default=-1),
        opening=document.string(top.get("input")) or "\n".join(opening),
        calls=calls,
    )


def spoken(document: Document) -> Iterator[Raw]:
    """What was said beside tool results: instructions, messages, and the arguments of calls."""
    top = document.members(document.root)
    yield from text_values(document, top.get("instructions"), TEXTS)
    said = top.get("input")
    if said is not None and document.is_string(said):
        yield said
    for entry in document.items(said):
        item = document.members(entry)
        name = kind(document, item)
        if name == "message":
            yield from text_values(document, item.get("content"), TEXTS)
        elif name in CALLS and (arguments := item.get(CALLS[name][1])) is not None:
            yield arguments


def error(status: int, message: str) -> bytes:
    """An error body as the API writes it."""
    name = "invalid_request_error" if status < 500 else "server_error"
    return encode({"error": {"message": message, "type": name, "param": None, "code": None}})


def kind(document: Document, item: dict[str, Raw]) -> str:
    """The type of an item; messages may leave theirs out."""
    return document.string(item.get("type")) or ("message" if "role" in item else "")


def call_id(document: Document, name: str, item: dict[str, Raw]) -> str:
    """The id by which the client answers a call of this type; empty if it is not the client's to answer."""
    if name in CALLS or name == "computer_call" or _is_client_search(document, name, item):
        return document.string(item.get("call_id")) or document.string(item.get("id")) or ""
    return document.string(item.get("id")) or "" if name == "mcp_approval_request" else ""


def _is_client_search(document: Document, name: str, item: dict[str, Raw]) -> bool:
    return name == "tool_search_call" and document.string(item.get("execution")) == "client"


def is_answer(document: Document, name: str, item: dict[str, Raw]) -> bool:
    """Whether the model or the provider wrote an item of this type."""
    if name == "message":
        return document.string(item.get("role")) == "assistant"
    return bool(name) and name not in _FROM_CLIENT and not name.endswith("_call_output")


def _call(document: Document, item: dict[str, Raw], name: str, arguments: str) -> ToolCall:
    call_id = document.string(item.get("call_id")) or document.string(item.get("id")) or ""
    return ToolCall(call_id, document.string(item.get("name")) or name, item.get(arguments))


def _results(
    document: Document, item: dict[str, Raw], calls: dict[str, ToolCall], turn: int
) -> Iterator[ResultText]:
    call_id = document.string(item.get("call_id")) or document.string(item.get("id")) or ""
    call = calls.get(call_id)
    if call is None and (name := document.string(item.get("name"))):
        call = ToolCall(call_id, name)
    for value in _texts(document, item.get("output")):
        yield ResultText(value, call_id, call, False, turn)


def _texts(document: Document, output: Raw | None) -> Iterator[Raw]:
    yield from text_values(document, output, TEXTS)
    # The shell tool's results: one entry for each of its commands.
    for entry in document.items(output):
        members = document.members(entry)
        if "outcome" in members:
            streams = (members.get("stdout"), members.get("stderr"))
            yield from (stream for stream in streams if stream is not None and document.is_string(stream))
