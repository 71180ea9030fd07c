"""What a provider bills for a turn: its figures, whatever their names, by what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_WITH_CACHED = ("prompt_tokens", "promptTokenCount")
"""Inputs that contain what was read from the cache."""
_CACHED_WITHIN = (
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "prompt_cache_hit_tokens",
    "cachedContentTokenCount",
)
_INPUTS = (*_WITH_CACHED, "input_tokens", "toolUsePromptTokenCount", "prompt_eval_count", "inputTokens")
_CACHED_BESIDE = ("cache_read_input_tokens", "cacheReadInputTokens")
_WRITTEN = ("cache_creation_input_tokens", "cacheWriteInputTokens")
_OUTPUTS = (
    "output_tokens",
    "completion_tokens",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "eval_count",
    "outputTokens",
)


@dataclass(frozen=True, slots=True)
class BilledTokens:
    """Tokens of one turn, each counted once."""

    uncached: int = 0
    cached: int = 0
    """Read from the provider's cache."""
    written: int = 0
    """Read anew, and put into the cache."""
    output: int = 0

    @property
    def prompt(self) -> int:
        """All that went in."""
        return self.uncached + self.cached + self.written

    @classmethod
    def of(cls, usage: Mapping[str, int]) -> BilledTokens | None:
        """Of a turn's figures, flat, by the provider's names; None: they don't say what went in."""
        if not any(name in usage for name in _INPUTS):
            return None
        within = max((usage.get(name, 0) for name in _CACHED_WITHIN), default=0)
        uncached = max(0, sum(usage.get(name, 0) for name in _INPUTS) - within)
        beside = max(usage.get(name, 0) for name in _CACHED_BESIDE)
        written = max(usage.get(name, 0) for name in _WRITTEN)
        return cls(uncached, within or beside, written, sum(usage.get(name, 0) for name in _OUTPUTS))
