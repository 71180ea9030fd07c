"""The size of an answer by the known size of the context window."""

from typing import Any

import pytest

from penumbra.apis.base import InjectedCall
from penumbra.apis.usage import context_tokens, flat
from penumbra.conversation import context_windows
from penumbra.conversation.context_windows import Bounds, Window
from penumbra.expand.loop import Ask
from penumbra.retry.portions import TRIES, Portions
from penumbra.retry.refusals import Cause, Refusal
from penumbra.store.conversations import LearnedLimits

ASK = Ask((InjectedCall("call_1", "{}"),), refused=False)
BODY = b"x" * 30_000
TOO_LONG = Refusal(Cause.INPUT, "anthropic-prompt", have=201_000, limit=200_000, over=1_000)


@pytest.mark.parametrize(
    "usage",
    [
        {
            "input_tokens": 5,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 70,
            "cache_creation": {"ephemeral_5m_input_tokens": 20},
            "output_tokens": 5,
        },
        {
            "prompt_tokens": 95,
            "completion_tokens": 5,
            "total_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 64},
        },
        {
            "input_tokens": 95,
            "input_tokens_details": {"cached_tokens": 64},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 4},
            "total_tokens": 100,
        },
        {
            "promptTokenCount": 90,
            "cachedContentTokenCount": 64,
            "toolUsePromptTokenCount": 5,
            "candidatesTokenCount": 2,
            "thoughtsTokenCount": 3,
            "totalTokenCount": 100,
        },
        {"prompt_eval_count": 95, "eval_count": 5, "total_duration": 1 << 40},
        {
            "inputTokens": 25,
            "cacheReadInputTokens": 70,
            "outputTokens": 5,
            "totalTokens": 100,
            "cacheWriteInputTokens": 0,
        },
    ],
)
def test_the_usage_of_a_turn_is_read_for_every_api(usage: dict[str, Any]) -> None:
    assert context_tokens(flat(usage)) == 100


def test_half_of_the_free_window_may_be_used() -> None:
    known = Bounds(tokens=200_000)
    assert known.left({"input_tokens": 190_000}, BODY, elsewhere=False) == 10_000 * 3 // 2
    # Without figures the body tells, if all of the history is in it.
    assert known.left({}, BODY, elsewhere=False) == 190_000 * 3 // 2
    assert known.left({}, BODY, elsewhere=True) is None
    # A turn with more tokens than the limit shows that the limit is another one.
    assert known.left({"input_tokens": 200_001}, BODY, elsewhere=False) is None
    assert Bounds().left({"input_tokens": 5}, BODY, elsewhere=False) is None
    assert Bounds(body_bytes=41_000).left({}, BODY, elsewhere=False) == 5_000
    assert Bounds(body_bytes=30_500).left({}, BODY, elsewhere=False) == 0


def test_learned_limits_precede_known_windows() -> None:
    assert context_windows.bounds(LearnedLimits(), Window(0, 200_000), again=True).tokens == 200_000
    assert context_windows.bounds(LearnedLimits(), Window(128_000, 200_000), again=True).tokens == 128_000
    assert context_windows.bounds(
        LearnedLimits(window=64_000, bytes=5), Window(0, 200_000), again=True
    ) == Bounds(64_000, 5)
    assert context_windows.bounds(LearnedLimits(), Window(), again=True) == Bounds()


def made(known: Bounds, *texts: str) -> Portions:
    one = Portions(known)
    assert one.limit(ASK, {"before"}, {}, BODY, elsewhere=False) is None
    one.gave(list(texts))
    return one


def test_less_and_less_and_then_nothing() -> None:
    one = made(Bounds(), "y" * 40_000)
    limits = []
    unknown = Refusal(Cause.INPUT, "openrouter-names")
    while (limit := one.less(unknown, BODY, elsewhere=False)) is not None:
        limits.append(limit)
        one.gave(["z" * limit])
    assert limits == [20_000, 2_500, 0]
    assert len(limits) == TRIES
    # This response is full, so the call gets no text.
    assert one.limit(ASK, set(), {}, BODY, elsewhere=False) == 0


def test_a_refusal_with_numbers_gives_the_excess() -> None:
    one = made(Bounds(), "y" * 40_000)
    assert one.less(TOO_LONG, BODY, elsewhere=False) == (40_000 - 4_000) // 2
    assert one.bounds.tokens == 200_000
    assert one.limits.window == 200_000
    one = made(Bounds(), "y" * 40_000)
    too_many = Refusal(Cause.BYTES, "bytes", limit=29_000)
    assert one.less(too_many, BODY, elsewhere=False) == (40_000 - 1_000) // 2
    assert one.bounds.body_bytes == 29_000


def test_a_known_limit_and_the_usage_of_the_turn_give_the_free_window() -> None:
    one = made(Bounds(), "y" * 40_000)
    limit = one.less(TOO_LONG, BODY, elsewhere=False) or 0
    one.gave(["z" * limit])
    assert one.limit(ASK, set(), {"input_tokens": 190_000}, BODY, elsewhere=False) == 15_000
    # Without figures nothing is known but that the texts were too much.
    assert one.limit(ASK, set(), {}, BODY, elsewhere=True) == 0


def test_small_texts_are_returned_whole() -> None:
    one = made(Bounds(), "y" * 500)
    assert one.less(TOO_LONG, BODY, elsewhere=False) == 0
    assert one.less(TOO_LONG, BODY, elsewhere=False) is None


def test_other_requests_are_left_alone() -> None:
    binding = Refusal(Cause.BINDING, "anthropic-binding")
    assert made(Bounds(), "y" * 40_000).less(binding, BODY, elsewhere=False) is None
    assert made(Bounds(again=False), "y" * 40_000).less(TOO_LONG, BODY, elsewhere=False) is None
    assert Portions().less(TOO_LONG, BODY, elsewhere=False) is None


def test_with_a_history_at_the_provider_only_the_window_is_learned() -> None:
    one = made(Bounds(), "y" * 40_000)
    one.less(TOO_LONG, BODY, elsewhere=True)
    assert one.limits == LearnedLimits(window=200_000)


async def test_a_limit_is_stored_once_the_provider_accepts_the_request() -> None:
    remembered: list[LearnedLimits] = []

    async def learn(limits: LearnedLimits) -> None:
        remembered.append(limits)

    one = made(Bounds(learn=learn), "y" * 40_000)
    await one.learn()
    assert remembered == []
    one.less(TOO_LONG, BODY, elsewhere=True)
    for _ in range(2):
        await one.learn()
    assert remembered == [LearnedLimits(window=200_000)]
