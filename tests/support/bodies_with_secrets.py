"""A request of every API with secrets in texts and arguments outside of its tool results."""

from __future__ import annotations

import json
from typing import Any

from support.planted import GITHUB, PASSWORD

SAYS = f"use {GITHUB} please"
HERE = "use @ please"
INPUT = {
    "env": {"DB_PASSWORD": PASSWORD},
    "command": f"curl -H 'Authorization: Bearer {GITHUB}' x",
    "n": 1.10,
}
INPUT_HERE = {"env": {"DB_PASSWORD": "@"}, "command": "curl -H 'Authorization: Bearer @' x", "n": 1.10}
TEXT_INPUT = json.dumps(INPUT, indent=1)
KEPT = GITHUB
"""A secret in places where it must stay: ids, names, schemas, reasoning, signatures and images."""


def bodies(says: str, arguments: Any, text: str) -> dict[str, Any]:
    """Return a request of every format, by the API's id."""
    schema = {"type": "object", "description": KEPT}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": KEPT}}
    part = {"type": "text", "text": says, "cache_control": {"type": "ephemeral"}}
    tool = {"type": "tool_use", "id": KEPT, "name": KEPT, "input": arguments}
    thinking = {"type": "thinking", "thinking": KEPT, "signature": KEPT}
    function = {"name": KEPT, "arguments": text}
    call = {"id": KEPT, "type": "function", "function": function}
    return {
        "anthropic-messages": {
            "model": "m",
            "max_tokens": 9,
            "system": [part],
            "tools": [{"name": KEPT, "description": KEPT, "input_schema": schema}],
            "messages": [
                {"role": "user", "content": says},
                {"role": "assistant", "content": [thinking, {"type": "text", "text": says}, tool]},
                {"role": "user", "content": [image, {"type": "text", "text": says}]},
            ],
        },
        "openai-chat": {
            "model": "m",
            "tools": [{"type": "function", "function": {"name": KEPT, "parameters": schema}}],
            "messages": [
                {"role": "system", "content": says},
                {"role": "user", "content": [{"type": "text", "text": says}]},
                {"role": "assistant", "content": says, "tool_calls": [call], "reasoning_content": KEPT},
            ],
        },
        "openai-responses": {
            "model": "m",
            "instructions": says,
            "input": [
                {"role": "user", "content": says},
                {"type": "reasoning", "id": KEPT, "summary": [], "encrypted_content": KEPT},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": says}]},
                {"type": "function_call", "call_id": KEPT, "name": KEPT, "arguments": text},
                {"type": "shell_call", "call_id": KEPT, "action": arguments},
            ],
        },
        "gemini": {
            "systemInstruction": {"parts": [{"text": says}]},
            "contents": [
                {"role": "user", "parts": [{"text": says}, {"inlineData": {"mimeType": "x", "data": KEPT}}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": KEPT, "thought": True},
                        {"functionCall": {"name": KEPT, "args": arguments}, "thoughtSignature": KEPT},
                    ],
                },
            ],
        },
        "ollama-chat": {
            "model": "m",
            "messages": [
                {"role": "system", "content": says},
                {"role": "user", "content": says, "images": [KEPT]},
                {
                    "role": "assistant",
                    "content": says,
                    "thinking": KEPT,
                    "tool_calls": [{"function": {"name": KEPT, "arguments": arguments}}],
                },
            ],
        },
        "bedrock-converse": {
            "system": [{"text": says}],
            "messages": [
                {"role": "user", "content": [{"text": says}]},
                {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": KEPT, "signature": KEPT}}},
                        {"toolUse": {"toolUseId": KEPT, "name": KEPT, "input": arguments}},
                    ],
                },
            ],
        },
    }


BODIES = bodies(SAYS, INPUT, TEXT_INPUT)


BODIES_HERE = bodies(HERE, INPUT_HERE, json.dumps(INPUT_HERE, indent=1))
