"""This module takes hints from the arguments of a call, for the search for secrets in its result."""

from __future__ import annotations

import shlex
from typing import Any

from penumbra.compress.calls.tools import tool_rules

_MOST = 4_000
"""The length in characters of the longest hint."""


def hint(arguments: Any) -> str:
    """Return the beginning of a call's command, path or freeform input; empty if there is none."""
    if isinstance(arguments, str):
        return arguments[:_MOST]
    if not isinstance(arguments, dict):
        return ""
    if isinstance(arguments.get("action"), dict):
        arguments = arguments["action"]
    keys = tool_rules().arguments
    for key in (*keys.command, *keys.path):
        value = arguments.get(key)
        if isinstance(value, list):
            value = _joined([part for part in value if isinstance(part, str)])
        if isinstance(value, str) and value:
            return value[:_MOST]
    return ""


def _joined(words: list[str]) -> str:
    """Return command lines as lines of one text, or an argument vector as one line."""
    if any("\n" in word or " " in word.strip() for word in words[:1]):
        return "\n".join(words)
    return shlex.join(words)
