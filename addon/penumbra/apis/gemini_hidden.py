"""Google Gemini: the API as a whole."""

from __future__ import annotations

from penumbra.apis import gemini_response
from penumbra.apis.base import Response
from penumbra.apis.gemini import GeminiRequests


class GeminiAnswers(GeminiRequests):
    """See ResponseFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return gemini_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return gemini_response.body(injected_tool)
