"""Amazon Bedrock: Converse and InvokeModel as a whole."""

from __future__ import annotations

from penumbra.apis import bedrock_invoke_response, bedrock_response
from penumbra.apis.base import Response
from penumbra.apis.bedrock import ConverseRequests
from penumbra.apis.bedrock_invoke import InvokeRequests


class InvokeAnswers(InvokeRequests):
    """See ResponseFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return bedrock_invoke_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return bedrock_invoke_response.body(injected_tool)


class ConverseAnswers(ConverseRequests):
    """See ResponseFormat."""

    def stream(self, injected_tool: str, before: str = "") -> Response:
        return bedrock_response.stream(injected_tool)

    def body(self, injected_tool: str, before: str = "") -> Response:
        return bedrock_response.body(injected_tool)
