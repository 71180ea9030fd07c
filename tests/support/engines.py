"""Conversations in every API's words, put through an engine as if they had come over the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penumbra.apis.base import Hidden, MadeCall
from penumbra.apis.formats import FORMATS
from penumbra.apis.recognise import apis
from penumbra.config.settings import Settings
from penumbra.conversation.engine import Engine
from penumbra.conversation.engine_settings import EngineSettings
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.expand.loop import Done
from penumbra.wire.document import Document

Turn = tuple[str, ...]
"""`("user", text)`, `("call", id, command)`, `("result", id, text)` or `("said", text)`."""
CONVERSE_HOST = "bedrock-runtime.us-east-1.amazonaws.com:443"
HIDDEN = "WHAT THE CLIENT DID NOT SEE"


def _anthropic(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        block = {"type": "tool_use", "id": rest[0], "name": "Bash", "input": {"command": rest[1]}}
        return {"role": "assistant", "content": [block]}
    if kind == "result":
        block = {"type": "tool_result", "tool_use_id": rest[0], "content": rest[1]}
        return {"role": "user", "content": [block]}
    return {"role": "user" if kind == "user" else "assistant", "content": rest[0]}


def _chat(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        function = {"name": "Bash", "arguments": json.dumps({"command": rest[1]})}
        calls = [{"id": rest[0], "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if kind == "result":
        return {"role": "tool", "tool_call_id": rest[0], "content": rest[1]}
    return {"role": "user" if kind == "user" else "assistant", "content": rest[0]}


def _ollama(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        calls = [{"function": {"name": "Bash", "arguments": {"command": rest[1]}}}]
        return {"role": "assistant", "content": "", "tool_calls": calls}
    return _chat(turn) if kind != "result" else {"role": "tool", "tool_name": "Bash", "content": rest[1]}


def _responses(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        arguments = json.dumps({"command": rest[1]})
        return {"type": "function_call", "call_id": rest[0], "name": "Bash", "arguments": arguments}
    if kind == "result":
        return {"type": "function_call_output", "call_id": rest[0], "output": rest[1]}
    if kind == "user":
        return {"role": "user", "content": [{"type": "input_text", "text": rest[0]}]}
    text = [{"type": "output_text", "text": rest[0]}]
    return {"type": "message", "role": "assistant", "content": text}


def _gemini(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        part: dict[str, Any] = {"functionCall": {"name": "Bash", "args": {"command": rest[1]}}}
        return {"role": "model", "parts": [part]}
    if kind == "result":
        part = {"functionResponse": {"name": "Bash", "response": {"output": rest[1]}}}
        return {"role": "user", "parts": [part]}
    return {"role": "user" if kind == "user" else "model", "parts": [{"text": rest[0]}]}


def _converse(turn: Turn) -> dict[str, Any]:
    kind, *rest = turn
    if kind == "call":
        use = {"toolUseId": rest[0], "name": "Bash", "input": {"command": rest[1]}}
        return {"role": "assistant", "content": [{"toolUse": use}]}
    if kind == "result":
        result = {"toolUseId": rest[0], "content": [{"text": rest[1]}]}
        return {"role": "user", "content": [{"toolResult": result}]}
    return {"role": "user" if kind == "user" else "assistant", "content": [{"text": rest[0]}]}


_FUNCTION = {"name": "Bash", "parameters": {"type": "object", "properties": {}}}


@dataclass(frozen=True)
class Api:
    """One API: how its requests are written."""

    id: str
    path: str
    member: str
    write: Any
    rest: Mapping[str, Any]
    header: str = "authorization"
    host: str = "api.example.com:443"

    def body(self, turns: Sequence[Turn], **more: Any) -> bytes:
        return json.dumps({**self.rest, self.member: [self.write(one) for one in turns], **more}).encode()

    def credential(self, key: str) -> dict[str, str]:
        return {self.header: f"Bearer {key}" if self.header == "authorization" else key}


APIS = (
    Api(
        "anthropic-messages", "/v1/messages", "messages", _anthropic,
        {"model": "m", "max_tokens": 9, "tools": [{"name": "Bash", "input_schema": {}}]}, "x-api-key",
    ),
    Api(
        "openai-chat", "/v1/chat/completions", "messages", _chat,
        {"model": "m", "tools": [{"type": "function", "function": _FUNCTION}]},
    ),
    Api(
        "openai-responses", "/v1/responses", "input", _responses,
        {"model": "m", "store": False, "tools": [{"type": "function", **_FUNCTION}]},
    ),
    Api(
        "gemini", "/v1beta/models/m:generateContent", "contents", _gemini,
        {"tools": [{"functionDeclarations": [_FUNCTION]}]}, "x-goog-api-key",
    ),
    Api(
        "ollama-chat", "/api/chat", "messages", _ollama,
        {"model": "m", "tools": [{"type": "function", "function": _FUNCTION}]},
    ),
    Api(
        "bedrock-converse", "/model/m/converse", "messages", _converse,
        {"toolConfig": {"tools": [{"toolSpec": {"name": "Bash", "inputSchema": {"json": {}}}}]}},
        host=CONVERSE_HOST,
    ),
)  # fmt: skip


class Callers:
    """Requests through one engine."""

    def __init__(self, **settings: Any) -> None:
        # Conversations of tests are smaller than any agent's.
        chosen = {"database": "memory", "max_output_bytes": 4_000, "expand_from": 0, **settings}
        self.settings = Settings(**chosen)
        self.engine = Engine(EngineSettings.of(self.settings))

    def close(self) -> None:
        self.engine.close()

    def restart(self) -> None:
        """Another process over the same database."""
        self.engine.close()
        self.engine = Engine(EngineSettings.of(self.settings))

    def send(
        self, api: Api, body: bytes, headers: Mapping[str, str], *, socket: bool = False, **more: Any
    ) -> Accepted:
        """What a request becomes."""
        known = next(one for one in apis() if one.id == api.id)
        incoming = Incoming(known, body, dict(headers), {}, "10.0.0.1", api.host, api.path, socket=socket)
        found = asyncio.run(self.engine.process(replace(incoming, **more), self.settings))
        assert isinstance(found, Accepted)
        return found

    def answer(self, accepted: Accepted, api: Api, turn: Turn, shows: bool = False, **more: Any) -> None:
        """The provider answers with this turn, behind an exchange that the client does not see."""
        assert accepted.prepared is not None
        wire = FORMATS[accepted.request.api.format]
        visible = wire.visible(Document(api.body([turn])))[-1]
        before = (json.dumps(api.write(("said", HIDDEN))).encode(),)
        last = json.dumps(api.write(turn)).encode()
        made = (MadeCall(turn[1], "Bash", json.dumps({"command": turn[2]})),) if turn[0] == "call" else ()
        done = Done(
            b"",
            visible.calls,
            visible.text,
            None if shows else Hidden(before, last),
            tokens=visible.tokens,
            made=made,
        )
        asyncio.run(self.engine.expansions.remember(accepted.prepared, replace(done, **more)))

    def stored(self, accepted: Accepted, ref: str) -> str | None:
        """What the store gives to a request for a reference, whatever the request carries."""
        assert accepted.prepared is not None

        async def nothing(ref: str) -> None:
            return None

        found = asyncio.run(self.engine.expansions._original(accepted.prepared, nothing, ref))
        return None if found is None else found.text


def shown(accepted: Accepted) -> Iterator[str]:
    """The references in a request."""
    return (entry.facts.ref for entry in accepted.rewritten.shown if entry.facts.ref)


def database(path: Path) -> str:
    return str(path / "state" / "penumbra.sqlite")
