"""OpenAI Responses: the API as a whole."""

from __future__ import annotations

from penumbra.apis import openai_responses_response
from penumbra.apis.base import Response
from penumbra.apis.openai_responses import ResponsesRequests


class ResponsesAnswers(ResponsesRequests):
    """See ResponseFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return openai_responses_response.stream(injected_tool, before)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return openai_responses_response.body(injected_tool, before)
