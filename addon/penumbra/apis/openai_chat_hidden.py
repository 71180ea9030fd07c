"""OpenAI Chat Completions: the API as a whole."""

from __future__ import annotations

from penumbra.apis import openai_chat_response
from penumbra.apis.base import Response
from penumbra.apis.openai_chat import ChatRequests


class ChatAnswers(ChatRequests):
    """See ResponseFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return openai_chat_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return openai_chat_response.body(injected_tool)
