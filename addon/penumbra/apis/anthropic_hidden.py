"""Anthropic Messages: the API as a whole."""

from __future__ import annotations

from penumbra.apis import anthropic_response
from penumbra.apis.anthropic import AnthropicRequests
from penumbra.apis.base import Response


class AnthropicAnswers(AnthropicRequests):
    """See ResponseFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return anthropic_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return anthropic_response.body(injected_tool)
