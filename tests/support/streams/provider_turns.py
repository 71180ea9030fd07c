"""Turns as the test provider of every API writes them, in a stream and in a document."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from penumbra.apis.base import Turn
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from support.upstream import script
from support.upstream.anthropic import Anthropic
from support.upstream.api import Api, Received
from support.upstream.bedrock import Bedrock
from support.upstream.gemini import Gemini
from support.upstream.ollama import Ollama
from support.upstream.openai_chat import OpenAIChat
from support.upstream.openai_responses import OpenAIResponses
from support.upstream.server import write_end, write_piece

PHANTOM = "expand_context"
_BODY = {"model": "m", "messages": [], "input": [], "contents": [], "stream_options": {"include_usage": True}}
PROVIDERS: dict[str, tuple[str, Callable[[], Api], str, str]] = {
    "anthropic": ("anthropic", Anthropic, "/v1/messages", ""),
    "bedrock": ("bedrock", Bedrock, "/model/m/converse", "-stream"),
    "bedrock_invoke": ("bedrock_invoke", Bedrock, "/model/m/invoke", "-with-response-stream"),
    "gemini": ("gemini", Gemini, "/v1beta/models/m:streamGenerateContent", "?alt=sse"),
    "gemini, an array": ("gemini", Gemini, "/v1beta/models/m:streamGenerateContent", ""),
    "ollama": ("ollama", Ollama, "/api/chat", ""),
    "openai_chat": ("openai_chat", OpenAIChat, "/v1/chat/completions", ""),
    "openai_responses": ("openai_responses", OpenAIResponses, "/v1/responses", ""),
}


class Case:
    """A provider that sends streams, or documents."""

    def __init__(self, name: str, is_stream: bool) -> None:
        self.name = f"{name}, {'stream' if is_stream else 'document'}"
        self.format, self._make, path, streamed = PROVIDERS[name]
        self.is_stream = is_stream
        self._received = Received(0, "1.1", "POST", path + streamed * is_stream, [], b"")
        self._api = self._make()

    def begin(self) -> Case:
        """Return the case with a provider that has written no turn."""
        self._api = self._make()
        return self

    def written(self, turn: script.Turn, *, error: bool = False) -> bytes:
        """Return a turn as the provider writes it. With `error`, an error event replaces the second half."""
        made = self._api.render(self._received, {**_BODY, "stream": self.is_stream}, turn)
        if not self.is_stream:
            return json.dumps(made.document, ensure_ascii=False, indent=1).encode()
        events = [*made.events[: len(made.events) // 2], made.error_event] if error else made.events
        pieces = [write_piece(made.framing, number, event) for number, event in enumerate(events)]
        return b"".join(pieces) + write_end(made.framing)

    def reader(self, hidden: str = PHANTOM) -> Response:
        api = FORMATS[self.format]
        return api.stream(hidden) if self.is_stream else api.body(hidden)

    def read(self, data: bytes) -> Turn:
        """Return the turn that the client gets."""
        response = self.reader("")
        response.feed(data)
        return response.end_turn()


STREAMS = [Case(name, True) for name in PROVIDERS]
CASES = [*STREAMS, *(Case(name, False) for name in PROVIDERS if "array" not in name)]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_stream = pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
