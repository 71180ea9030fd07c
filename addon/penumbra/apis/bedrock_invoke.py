"""Amazon Bedrock's InvokeModel with Anthropic's models: their own requests, Bedrock's own errors."""

from __future__ import annotations

from penumbra.apis.anthropic import read, spoken
from penumbra.apis.bedrock import error
from penumbra.wire.document import Document, NotJson

__all__ = ["error", "read", "spoken", "token_headers"]

_TOKENS = {
    "x-amzn-bedrock-input-token-count": "input_tokens",
    "x-amzn-bedrock-output-token-count": "output_tokens",
}


def token_headers(body: bytes) -> dict[str, str]:
    """The headers in which Bedrock repeats the figures of an answer that is one document."""
    try:
        document = Document(body)
    except NotJson:
        return {}
    usage = document.members(document.members(document.root).get("usage"))
    return {name: document.source(usage[key]).decode() for name, key in _TOKENS.items() if key in usage}
