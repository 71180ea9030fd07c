"""Prompts that later ones are compared with have a bound together."""

from __future__ import annotations

from penumbra.apis.prompt_head import PromptHead
from penumbra.metrics.cache_miss import Prompt, Prompts

HASHES = (b"0123456789abcdef",) * 100_000


def prompt(messages: int) -> Prompt:
    return Prompt(1.0, "m", PromptHead(), HASHES[:messages], 1_024, 300.0)


def test_the_oldest_make_room_for_the_new() -> None:
    prompts = Prompts()
    for number in range(9):
        prompts.put(prompt(90_000), number)
        assert prompts.get(number) is not None
    assert [number for number in range(9) if prompts.get(number)] == [6, 7, 8]
    prompts.put(prompt(10), 8)
    prompts.put(prompt(100_000), 9)
    assert prompts.get(6) is not None
    assert prompts.take(6) is not None
    assert prompts.take(6) is None


def test_one_that_is_too_large_leaves_the_others() -> None:
    prompts = Prompts()
    prompts.put(prompt(10), "small")
    large = Prompt(1.0, "m", PromptHead(), HASHES * 4, 1_024, 300.0)
    prompts.put(large, "large")
    assert prompts.get("small") is not None
    assert prompts.get("large") is None
