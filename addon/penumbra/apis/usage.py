"""Token figures of an answer that was made of several turns."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

_MOST, _LONGEST, _LEVELS = 100, 100, 4
"""Figures, characters of a name, and objects in one another: far more than any provider tells."""


def flat(usage: Any, levels: int = _LEVELS) -> dict[str, int]:
    """The whole numbers of a provider's usage object; nested ones as `outer.inner`."""
    found: dict[str, int] = {}
    for key, value in islice(usage.items(), _MOST) if isinstance(usage, dict) and levels else ():
        if len(key) > _LONGEST or not key.isprintable():
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            found[key] = value
        elif isinstance(value, dict):
            found |= {f"{key}.{inner}": number for inner, number in flat(value, levels - 1).items()}
    return dict(islice(found.items(), _MOST))


_HELD = frozenset(
    (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
        "prompt_tokens",
        "completion_tokens",
        "promptTokenCount",
        "toolUsePromptTokenCount",
        "candidatesTokenCount",
        "thoughtsTokenCount",
        "prompt_eval_count",
        "eval_count",
        "inputTokens",
        "cacheReadInputTokens",
        "cacheWriteInputTokens",
        "outputTokens",
    )
)
"""Figures of every API that count each token of a turn once: what went in, and what came out."""


def held(figures: Mapping[str, int]) -> int:
    """Tokens that a context holds once a turn with these figures (flat) stands in it; 0: not known."""
    return sum(number for name, number in figures.items() if name in _HELD)


def only(figures: Mapping[str, int], prefixes: tuple[str, ...]) -> dict[str, int]:
    """The figures whose names begin with one of the prefixes."""
    return {name: number for name, number in figures.items() if name.startswith(prefixes)}


def plus(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Sums by name."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def added(
    usage: Mapping[str, Any], extra: Mapping[str, int], outer: str = "", levels: int = _LEVELS
) -> dict[str, Any]:
    """A usage object with `extra` (flat names) added to the numbers that it has; no new ones appear."""
    result: dict[str, Any] = {}
    for key, value in usage.items():
        name = outer + key
        if isinstance(value, dict) and levels:
            result[key] = added(value, extra, f"{name}.", levels - 1)
        elif isinstance(value, int) and not isinstance(value, bool):
            result[key] = value + extra.get(name, 0)
        else:
            result[key] = value
    return result
