"""Amazon Bedrock's Converse: one content block of a stream, put together from its pieces."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any

from penumbra.apis.base import MadeCall
from penumbra.apis.bedrock import RUN_BY_PROVIDER
from penumbra.apis.content_blocks import Block, object_or_empty
from penumbra.wire.json_values import encode


@dataclass(slots=True)
class ConverseBlock(Block):
    """A block as far as it has arrived."""

    known: bool = True
    """False: it has something that this module can't put together."""
    _start: dict[str, Any] = field(default_factory=dict)
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _lists: dict[str, list[Any]] = field(default_factory=dict)

    def start(self, value: dict[str, Any]) -> None:
        self._start = value
        self.known = self.known and self._start.keys() <= {"toolUse", "toolResult"}

    def add(self, delta: dict[str, Any]) -> None:
        for kind, value in delta.items():
            if kind == "text" and isinstance(value, str):
                self._texts.setdefault("text", []).append(value)
            elif kind == "toolUse" and isinstance(value, dict):
                self._texts.setdefault("input", []).append(str(value.get("input", "")))
            elif kind == "reasoningContent" and isinstance(value, dict):
                for name, piece in value.items():
                    self._texts.setdefault(f"reasoning {name}", []).append(str(piece))
            elif kind == "citation":
                self._lists.setdefault("citations", []).append(value)
            elif kind == "toolResult" and isinstance(value, list):
                self._lists.setdefault("content", []).extend(value)
            else:
                self.known = False

    def call(self) -> MadeCall | None:
        call = self._call()
        if not call or call.get("type") == RUN_BY_PROVIDER:
            return None
        return MadeCall(str(call.get("toolUseId", "")), str(call.get("name", "")), self._arguments())

    @property
    def text(self) -> str:
        return self._text("text")

    @property
    def signature(self) -> str:
        return self._text("reasoning signature") or self._redacted()

    @property
    def is_reasoning(self) -> bool:
        return any(name.startswith("reasoning") for name in (*self._texts, *self._lists))

    @property
    def may_be_cut(self) -> bool:
        return self.call() is None and not self.is_reasoning

    def json(self) -> bytes:
        if call := self._call():
            return (
                b'{"toolUse":' + encode(call)[:-1] + b',"input":' + object_or_empty(self._arguments()) + b"}}"
            )
        if "toolResult" in self._start:
            return encode(
                {"toolResult": {**self._start["toolResult"], "content": self._lists.get("content", [])}}
            )
        if any(name.startswith("reasoning") for name in self._texts):
            return encode({"reasoningContent": self._reasoning()})
        if not self.text.strip():
            return b""
        if citations := self._lists.get("citations"):
            return encode({"citationsContent": {"content": [{"text": self.text}], "citations": citations}})
        return encode({"text": self.text})

    def _arguments(self) -> str:
        """The JSON text of a call's input, as the model wrote it."""
        return self._text("input") or "{}"

    def _call(self) -> dict[str, Any]:
        call = self._start.get("toolUse")
        return call if isinstance(call, dict) else {}

    def _text(self, name: str) -> str:
        return "".join(self._texts.get(name, ()))

    def _reasoning(self) -> dict[str, Any]:
        if redacted := self._redacted():
            return {"redactedContent": redacted}
        signature = self._text("reasoning signature")
        signed = {"signature": signature} if signature else {}
        return {"reasoningText": {"text": self._text("reasoning text"), **signed}}

    def _redacted(self) -> str:
        pieces = self._texts.get("reasoning redactedContent", [])
        if len(pieces) < 2:
            return "".join(pieces)
        return b64encode(b"".join(map(b64decode, pieces))).decode()
