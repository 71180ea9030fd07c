"""OpenAI Responses: the API as a whole."""

from __future__ import annotations

from penumbra.apis.openai_responses import ResponsesRequests
from penumbra.apis.openai_responses_response import ResponsesBody, ResponsesStream


class ResponsesAnswers(ResponsesRequests):
    """See ResponseFormat."""

    def stream(self, injected_tool: str, before: str = "") -> ResponsesStream:
        return ResponsesStream(injected_tool, before)

    def body(self, injected_tool: str, before: str = "") -> ResponsesBody:
        return ResponsesBody(injected_tool, before)
