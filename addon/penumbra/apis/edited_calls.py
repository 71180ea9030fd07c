"""The APIs in whose answers the arguments of calls can be edited, by the name of their format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penumbra.apis.call_arguments import AnthropicEdits, ArgumentEdits, ConverseEdits, Open
from penumbra.apis.openai_call_arguments import ChatEdits, ResponsesEdits
from penumbra.apis.whole_call_arguments import GeminiEdits, OllamaEdits

EDITS: Mapping[str, Callable[[Open], ArgumentEdits]] = {
    "anthropic": AnthropicEdits,
    "bedrock": ConverseEdits,
    "bedrock_invoke": AnthropicEdits,
    "gemini": GeminiEdits,
    "ollama": OllamaEdits,
    "openai_chat": ChatEdits,
    "openai_responses": ResponsesEdits,
}
