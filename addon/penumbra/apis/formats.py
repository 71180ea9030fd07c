"""This module lists the formats of the APIs by name."""

from __future__ import annotations

from importlib.util import find_spec

from penumbra.apis import anthropic, gemini, ollama, openai_chat, openai_responses, responses_socket
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.bedrock import ConverseFormat, InvokeFormat


def _bedrock() -> dict[str, ApiFormat]:
    """Return Bedrock's formats. Reading their streams needs botocore, which the extra `bedrock` installs."""
    if find_spec("botocore") is None:
        return {"bedrock": ConverseFormat(), "bedrock_invoke": InvokeFormat()}
    from penumbra.apis.bedrock_response import CONVERSE, INVOKE

    return {"bedrock": ConverseFormat(CONVERSE), "bedrock_invoke": InvokeFormat(INVOKE)}


REQUESTS: dict[str, ApiFormat] = {
    "anthropic": anthropic.AnthropicFormat(anthropic.RESPONSES),
    **_bedrock(),
    "gemini": gemini.GeminiFormat(gemini.RESPONSES),
    "ollama": ollama.OllamaFormat(ollama.RESPONSES),
    "openai_chat": openai_chat.ChatFormat(openai_chat.RESPONSES),
    "openai_responses": openai_responses.ResponsesFormat(openai_responses.RESPONSES),
}
"""The formats of HTTP requests, by name."""
FORMATS: dict[str, ApiFormat] = {
    **{name: api for name, api in REQUESTS.items() if api.readers is not None},
    "openai_responses_socket": responses_socket.SocketFormat(responses_socket.RESPONSES),
}
"""The formats with readers of responses, by name. One of these formats is for WebSockets."""
