"""OpenAI Chat Completions: the API as a whole."""

from __future__ import annotations

from penumbra.apis.openai_chat import ChatRequests
from penumbra.apis.openai_chat_response import ChatBody, ChatStream


class ChatAnswers(ChatRequests):
    """See ResponseFormat."""

    def stream(self, injected_tool: str, before: str = "") -> ChatStream:
        return ChatStream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> ChatBody:
        return ChatBody(injected_tool)
