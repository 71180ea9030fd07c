"""Prompts that a later one is compared with: as many as their hashes have room together."""

from __future__ import annotations

from cachetools import LRUCache

from penumbra.metrics.cache_miss import Prompt

_MOST_HASHES = 300_000
"""Of all together, some 20 MB: a client says how many messages a request has."""
_BESIDE = 8
"""What a prompt weighs beside its messages, in hashes."""
Key = tuple[str | int | bytes, ...]


class Prompts:
    """Those that were not asked for the longest make room. One that has no room by itself is left out."""

    def __init__(self) -> None:
        self._prompts: LRUCache[Key, Prompt] = LRUCache(_MOST_HASHES, _weight)

    def get(self, *key: str | int | bytes) -> Prompt | None:
        """One of them, if it is still there."""
        return self._prompts.get(key)

    def take(self, *key: str | int | bytes) -> Prompt | None:
        """The same, for the last time."""
        return self._prompts.pop(key, None)

    def put(self, prompt: Prompt, *key: str | int | bytes) -> None:
        """In the place of the one that had the key."""
        self._prompts.pop(key, None)
        if _weight(prompt) <= _MOST_HASHES:
            self._prompts[key] = prompt


def _weight(prompt: Prompt) -> int:
    compared = 2 * len(prompt.compared.written) if prompt.compared is not None else 0
    return len(prompt.messages) + compared + _BESIDE
