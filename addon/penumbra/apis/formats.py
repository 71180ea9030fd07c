"""The APIs, by the name of their format: what reads the requests of each, and what its responses."""

from __future__ import annotations

from importlib.util import find_spec

from penumbra.apis.anthropic import AnthropicFormat, AnthropicResponses
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.bedrock import ConverseFormat, InvokeFormat
from penumbra.apis.gemini import GeminiFormat, GeminiResponses
from penumbra.apis.ollama import OllamaFormat, OllamaResponses
from penumbra.apis.openai_chat import ChatFormat, ChatResponses
from penumbra.apis.openai_responses import ResponsesFormat, ResponsesResponses
from penumbra.apis.responses_socket import SocketFormat, SocketResponses


def _bedrock() -> dict[str, ApiFormat]:
    """Streams of Bedrock are read by botocore: it is there with the extra `bedrock`."""
    if find_spec("botocore") is None:
        return {"bedrock": ConverseFormat(), "bedrock_invoke": InvokeFormat()}
    from penumbra.apis.bedrock_response import ConverseResponses, InvokeResponses

    return {
        "bedrock": ConverseFormat(ConverseResponses()),
        "bedrock_invoke": InvokeFormat(InvokeResponses()),
    }


REQUESTS: dict[str, ApiFormat] = {
    "anthropic": AnthropicFormat(AnthropicResponses()),
    **_bedrock(),
    "gemini": GeminiFormat(GeminiResponses()),
    "ollama": OllamaFormat(OllamaResponses()),
    "openai_chat": ChatFormat(ChatResponses()),
    "openai_responses": ResponsesFormat(ResponsesResponses()),
}
"""All whose requests can be read."""
FORMATS: dict[str, ApiFormat] = {
    **{name: api for name, api in REQUESTS.items() if api.reads_responses},
    "openai_responses_socket": SocketFormat(SocketResponses()),
}
"""Formats whose responses can be read, too."""
