"""Conversations as each API writes them. Another API is an entry in `APIS`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Turn = tuple[Any, ...]
"""A turn is `("user", text)`, `("call", id, command)` or `("call", id, tool, arguments)`, `("result", id, text)` or
`("result", id, text, tool)`, or `("said", text)`."""


def printed(
    *results: Any,
    words: str = "hi",
    tool: str = "Bash",
    ids: str = "toolu_{:022}",
    arguments: Callable[[int], Any] = lambda number: {"command": f"run {number}"},
) -> list[Turn]:
    """Return a prompt, and for each result the call of a tool and the result."""
    turns: list[Turn] = [("user", words)]
    for number, result in enumerate(results):
        turns.append(("call", ids.format(number), tool, arguments(number)))
        turns.append(("result", ids.format(number), result, tool))
    return turns


def _call(rest: list[Any]) -> tuple[str, str, Any]:
    """Return the id, tool and arguments of a call."""
    return (rest[0], rest[1], rest[2]) if len(rest) > 2 else (rest[0], "Bash", {"command": rest[1]})


def _tool(rest: list[Any]) -> str:
    return rest[2] if len(rest) > 2 else "Bash"


def _anthropic(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        call_id, name, arguments = _call(rest)
        block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        return {"role": "assistant", "content": [block]}
    if kind == "result":
        block = {"type": "tool_result", "tool_use_id": rest[0], "content": rest[1]}
        return {"role": "user", "content": [block]}
    return {"role": "user" if kind == "user" else "assistant", "content": rest[0]}


def _chat(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        call_id, name, arguments = _call(rest)
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": call_id, "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if kind == "result":
        return {"role": "tool", "tool_call_id": rest[0], "content": rest[1]}
    return {"role": "user" if kind == "user" else "assistant", "content": rest[0]}


def _ollama(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        _, name, arguments = _call(rest)
        calls = [{"function": {"name": name, "arguments": arguments}}]
        return {"role": "assistant", "content": "", "tool_calls": calls}
    return _chat(turn) if kind != "result" else {"role": "tool", "tool_name": _tool(rest), "content": rest[1]}


def _responses(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        call_id, name, arguments = _call(rest)
        return {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)}
    if kind == "result":
        return {"type": "function_call_output", "call_id": rest[0], "output": rest[1]}
    if kind == "user":
        return {"role": "user", "content": [{"type": "input_text", "text": rest[0]}]}
    text = [{"type": "output_text", "text": rest[0]}]
    return {"type": "message", "role": "assistant", "content": text}


def _gemini(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        _, name, arguments = _call(rest)
        part: dict[str, Any] = {"functionCall": {"name": name, "args": arguments}}
        return {"role": "model", "parts": [part]}
    if kind == "result":
        part = {"functionResponse": {"name": _tool(rest), "response": {"output": rest[1]}}}
        return {"role": "user", "parts": [part]}
    return {"role": "user" if kind == "user" else "model", "parts": [{"text": rest[0]}]}


def _converse(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        call_id, name, arguments = _call(rest)
        return {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}],
        }
    if kind == "result":
        result = {"toolUseId": rest[0], "content": [{"text": rest[1]}]}
        return {"role": "user", "content": [{"toolResult": result}]}
    return {"role": "user" if kind == "user" else "assistant", "content": [{"text": rest[0]}]}


def schema(key: str) -> dict[str, Any]:
    return {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}


TOOLS = (("Bash", "command"), ("Read", "file_path"))
"""Tools, each with the name of its one argument."""
Tools = Sequence[tuple[str, str]]


def _functions(tools: Tools) -> list[dict[str, Any]]:
    return [{"name": name, "parameters": schema(key)} for name, key in tools]


def _of_anthropic(tools: Tools) -> dict[str, Any]:
    return {"tools": [{"name": name, "input_schema": schema(key)} for name, key in tools]}


def _of_chat(tools: Tools) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": one} for one in _functions(tools)]}


def _of_responses(tools: Tools) -> dict[str, Any]:
    return {"tools": [{"type": "function", "strict": False, **one} for one in _functions(tools)]}


def _of_converse(tools: Tools) -> dict[str, Any]:
    specs = ({"name": name, "description": name, "inputSchema": {"json": schema(key)}} for name, key in tools)
    return {"toolConfig": {"tools": [{"toolSpec": spec} for spec in specs]}}


@dataclass(frozen=True)
class Api:
    """An `Api` says how the requests of one API are written."""

    id: str
    host: str
    path: str
    member: str
    """The member of a request that holds its conversation."""
    write: Callable[[Turn], dict[str, Any]]
    declares: Callable[[Tools], dict[str, Any]]
    """The members of a request that declare tools."""
    fields: Mapping[str, Any]
    """The other members of a request."""
    header: str = "authorization"
    """The header that holds the credential."""

    @property
    def rest(self) -> dict[str, Any]:
        """The members of a request beside its conversation."""
        return {**self.fields, **self.declares(TOOLS)}

    def written(self, turns: Sequence[Turn]) -> list[dict[str, Any]]:
        """Return the conversation as the API spells it."""
        return [self.write(one) for one in turns]

    def body(self, turns: Sequence[Turn], **more: Any) -> bytes:
        """Return a request that declares tools; `more` are further members."""
        return json.dumps({**self.rest, self.member: self.written(turns), **more}).encode()

    def credential(self, key: str) -> dict[str, str]:
        return {self.header: f"Bearer {key}" if self.header == "authorization" else key}


APIS = (
    Api(
        "anthropic-messages", "api.anthropic.com:443", "/v1/messages", "messages",
        _anthropic, _of_anthropic, {"model": "m", "max_tokens": 999}, "x-api-key",
    ),
    Api(
        "openai-chat", "api.openai.com:443", "/v1/chat/completions", "messages",
        _chat, _of_chat, {"model": "m"},
    ),
    Api(
        "openai-responses", "api.openai.com:443", "/v1/responses", "input",
        _responses, _of_responses, {"model": "m", "store": False},
    ),
    Api(
        "gemini", "generativelanguage.googleapis.com:443", "/v1beta/models/m:generateContent", "contents",
        _gemini, lambda tools: {"tools": [{"functionDeclarations": _functions(tools)}]}, {}, "x-goog-api-key",
    ),
    Api("ollama-chat", "ollama.com:443", "/api/chat", "messages", _ollama, _of_chat, {"model": "m"}),
    Api(
        "bedrock-converse", "bedrock-runtime.us-east-1.amazonaws.com:443", "/model/m/converse", "messages",
        _converse, _of_converse, {},
    ),
)  # fmt: skip
BY_ID = {api.id: api for api in APIS}


def messages(*results: Any, **more: Any) -> dict[str, Any]:
    """Return a request of Anthropic's Messages API that declares no tools and holds these results."""
    written = BY_ID["anthropic-messages"].written(printed(*results))
    return {"model": "m", "max_tokens": 9, "messages": written, **more}


def chat(*results: Any, **more: Any) -> dict[str, Any]:
    """Return a request of Chat Completions that declares no tools and holds these results."""
    written = BY_ID["openai-chat"].written(printed(*results, ids="call_{:020}"))
    return {"model": "m", "messages": written, **more}
