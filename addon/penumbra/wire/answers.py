"""The APIs whose answers can hide a phantom tool, by the name of their format."""

from __future__ import annotations

from importlib.util import find_spec

from penumbra.wire.answer import AnswerFormat
from penumbra.wire.anthropic_hidden import AnthropicAnswers
from penumbra.wire.gemini_hidden import GeminiAnswers
from penumbra.wire.ollama_hidden import OllamaAnswers
from penumbra.wire.openai_chat_hidden import ChatAnswers
from penumbra.wire.openai_responses_hidden import ResponsesAnswers
from penumbra.wire.responses_socket import SocketAnswers


def _of_bedrock() -> dict[str, AnswerFormat]:
    """Bedrock's, whose streams are read by botocore: it is there with the extra `bedrock`."""
    if find_spec("botocore") is None:
        return {}
    from penumbra.wire.bedrock_hidden import ConverseAnswers, InvokeAnswers

    return {"bedrock": ConverseAnswers(), "bedrock_invoke": InvokeAnswers()}


FORMATS: dict[str, AnswerFormat] = {
    "anthropic": AnthropicAnswers(),
    "gemini": GeminiAnswers(),
    "ollama": OllamaAnswers(),
    "openai_chat": ChatAnswers(),
    "openai_responses": ResponsesAnswers(),
    "openai_responses_socket": SocketAnswers(),
    **_of_bedrock(),
}
