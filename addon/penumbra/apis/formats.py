"""The APIs whose answers can hide an injected tool, by the name of their format."""

from __future__ import annotations

from importlib.util import find_spec

from penumbra.apis.anthropic_hidden import AnthropicAnswers
from penumbra.apis.base import ResponseFormat
from penumbra.apis.gemini_hidden import GeminiAnswers
from penumbra.apis.ollama_hidden import OllamaAnswers
from penumbra.apis.openai_chat_hidden import ChatAnswers
from penumbra.apis.openai_responses_hidden import ResponsesAnswers
from penumbra.apis.responses_socket import SocketAnswers


def _of_bedrock() -> dict[str, ResponseFormat]:
    """Bedrock's, whose streams are read by botocore: it is there with the extra `bedrock`."""
    if find_spec("botocore") is None:
        return {}
    from penumbra.apis.bedrock_hidden import ConverseAnswers, InvokeAnswers

    return {"bedrock": ConverseAnswers(), "bedrock_invoke": InvokeAnswers()}


FORMATS: dict[str, ResponseFormat] = {
    "anthropic": AnthropicAnswers(),
    "gemini": GeminiAnswers(),
    "ollama": OllamaAnswers(),
    "openai_chat": ChatAnswers(),
    "openai_responses": ResponsesAnswers(),
    "openai_responses_socket": SocketAnswers(),
    **_of_bedrock(),
}
