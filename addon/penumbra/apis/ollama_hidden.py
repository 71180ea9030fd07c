"""Ollama's own chat API as a whole."""

from __future__ import annotations

from penumbra.apis import ollama_response
from penumbra.apis.base import Response
from penumbra.apis.ollama import OllamaRequests


class OllamaAnswers(OllamaRequests):
    """See ResponseFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return ollama_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return ollama_response.body(injected_tool)
