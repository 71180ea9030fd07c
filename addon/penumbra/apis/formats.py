"""The APIs, by the name of their format: what reads the requests of each, and what its responses."""

from __future__ import annotations

from importlib.util import find_spec

from penumbra.apis.anthropic import AnthropicFormat
from penumbra.apis.anthropic_response import AnthropicResponses
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.bedrock import ConverseFormat
from penumbra.apis.bedrock_invoke import InvokeFormat
from penumbra.apis.gemini import GeminiFormat
from penumbra.apis.gemini_response import GeminiResponses
from penumbra.apis.ollama import OllamaFormat
from penumbra.apis.ollama_response import OllamaResponses
from penumbra.apis.openai_chat import ChatFormat
from penumbra.apis.openai_chat_response import ChatResponses
from penumbra.apis.openai_responses import ResponsesFormat
from penumbra.apis.openai_responses_response import ResponsesResponses
from penumbra.apis.responses_socket import SocketFormat, SocketResponses


def _bedrock() -> dict[str, ApiFormat]:
    """Streams of Bedrock are read by botocore: it is there with the extra `bedrock`."""
    if find_spec("botocore") is None:
        return {"bedrock": ConverseFormat(), "bedrock_invoke": InvokeFormat()}
    from penumbra.apis.bedrock_invoke_response import InvokeResponses
    from penumbra.apis.bedrock_response import ConverseResponses

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
"""Those whose responses can be read, too."""
