"""The APIs, by the name of their format: what reads the requests of each, and what its responses."""

from __future__ import annotations

from importlib.util import find_spec

from penumbra.apis import (
    anthropic_response,
    gemini_response,
    ollama_response,
    openai_chat_response,
    openai_responses_response,
)
from penumbra.apis.anthropic import AnthropicFormat
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.bedrock import ConverseFormat
from penumbra.apis.bedrock_invoke import InvokeFormat
from penumbra.apis.gemini import GeminiFormat
from penumbra.apis.ollama import OllamaFormat
from penumbra.apis.openai_chat import ChatFormat
from penumbra.apis.openai_responses import ResponsesFormat
from penumbra.apis.responses_socket import SocketFormat


def _bedrock() -> dict[str, ApiFormat]:
    """Streams of Bedrock are read by botocore: it is there with the extra `bedrock`."""
    if find_spec("botocore") is None:
        return {"bedrock": ConverseFormat(), "bedrock_invoke": InvokeFormat()}
    from penumbra.apis import bedrock_invoke_response, bedrock_response

    return {
        "bedrock": ConverseFormat(bedrock_response),
        "bedrock_invoke": InvokeFormat(bedrock_invoke_response),
    }


REQUESTS: dict[str, ApiFormat] = {
    "anthropic": AnthropicFormat(anthropic_response),
    **_bedrock(),
    "gemini": GeminiFormat(gemini_response),
    "ollama": OllamaFormat(ollama_response),
    "openai_chat": ChatFormat(openai_chat_response),
    "openai_responses": ResponsesFormat(openai_responses_response),
}
"""All whose requests can be read."""
FORMATS: dict[str, ApiFormat] = {
    **{name: api for name, api in REQUESTS.items() if api.reads_responses},
    "openai_responses_socket": SocketFormat(openai_responses_response),
}
"""Those whose responses can be read, too."""
