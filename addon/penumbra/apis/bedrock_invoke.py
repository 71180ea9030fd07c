"""Amazon Bedrock's InvokeModel with Anthropic's models: their own requests, Bedrock's own errors."""

from __future__ import annotations

from penumbra.apis.anthropic import AnthropicFormat
from penumbra.apis.bedrock import error, may_drop
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson

_TOKENS = {
    "x-amzn-bedrock-input-token-count": "input_tokens",
    "x-amzn-bedrock-output-token-count": "output_tokens",
}


class InvokeFormat(AnthropicFormat):
    """Bodies of `/invoke` and `/invoke-with-response-stream`."""

    def error(self, status: int, message: str) -> bytes:
        return error(status, message)

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        return super().drop_unbound(request, first, offered or may_drop(request, request.root))


def token_headers(body: bytes) -> dict[str, str]:
    """The headers in which Bedrock repeats the figures of a response that is one document."""
    try:
        document = Document(body)
    except NotJson:
        return {}
    usage = document.members(document.members(document.root).get("usage"))
    return {name: document.source(usage[key]).decode() for name, key in _TOKENS.items() if key in usage}
