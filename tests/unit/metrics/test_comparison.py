"""Two sides compared: how sure it is, what is left out, and what too few allow to say."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from penumbra.cli import stats
from penumbra.metrics import comparison
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.comparison import LEAST, compare, interval
from penumbra.store.records import HELD_OUT, SHORTENED

DRAW = random.Random(7)


def conversations(arm: str, count: int, scale: float = 1.0, **more: Any) -> dict[bytes, dict[str, Any]]:
    """Heavy-tailed ones."""
    return {
        DRAW.randbytes(8): {
            "arm": arm, "new_results": 3, "requests": 9, "turns": 5, "responses": 5, "dollars": scale * DRAW.lognormvariate(0, 1),
            "uncached": 100, "cached": 1_000 * scale, "output": 50, "waited": 2.5, **more,
        }
        for _ in range(count)
    }  # fmt: skip


def measured(compared: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in compared["measures"] if each["name"] == name)


def test_a_difference_is_seen_and_chance_is_not() -> None:
    both = compare(conversations(SHORTENED, 900, 0.6) | conversations(HELD_OUT, 200))
    assert both["arms"]["conversations"] == (900, 200)
    dollars = measured(both["arms"], "dollars")
    low, high = dollars["interval"]
    assert low < dollars["change"] < high < 0
    assert low < -0.4 < high
    assert measured(both["arms"], "turns")["means"] == [5, 5]
    cached = measured(both["arms"], "of these, from the cache")
    assert cached["medians"] == [600, 1_000]
    assert round(cached["interval"][0], 6) == round(cached["interval"][1], 6) == -0.4
    low, high = measured(both["halves"], "dollars")["interval"]
    assert low < 0 < high
    assert sum(both["halves"]["conversations"]) == 200


def test_the_interval_holds_what_it_says() -> None:
    """Of twenty comparisons of the same, about one shows a difference."""
    wrong = 0
    for _ in range(400):
        first, second = (tuple(DRAW.lognormvariate(0, 1) for _ in range(60)) for _ in range(2))
        low, high = interval(first, second) or (0.0, 0.0)
        wrong += not low <= 0 <= high
    assert 5 <= wrong <= 40


def test_it_is_that_of_welch() -> None:
    # Both means 3, variances 2.5 and 10, Student's quantile at 5.88 degrees is 2.459.
    low, high = interval((1, 2, 3, 4, 5), (-1, 1, 3, 5, 7)) or (0.0, 0.0)
    assert math.log(1 + high) == pytest.approx(2.459 * math.sqrt(12.5 / 5) / 3, rel=0.01)
    assert (1 + low) * (1 + high) == pytest.approx(1)
    assert interval((2.0, 2.0), (4.0, 4.0)) == (-0.5, -0.5)
    assert interval((0.0, 0.0), (4.0, 4.0)) is None


def test_too_few_say_so_instead_of_a_number() -> None:
    some = compare(conversations(SHORTENED, LEAST) | conversations(HELD_OUT, LEAST - 1))
    assert some["arms"]["measures"] == []
    assert "too few for a number" in "\n".join(stats.lines(some))
    more = compare(conversations(SHORTENED, LEAST) | conversations(HELD_OUT, LEAST))
    assert more["arms"]["measures"]
    assert more["halves"]["measures"] == []
    assert "too few held out" in "\n".join(stats.lines(more))


def test_what_is_not_known_is_no_number() -> None:
    unpriced = compare(conversations(SHORTENED, 30, dollars=0) | conversations(HELD_OUT, 30))
    assert measured(unpriced["arms"], "dollars")["means"] is None
    # Nothing is ever asked back of what is whole: there is no ratio to nothing.
    asked = compare(conversations(SHORTENED, 30, asked=2) | conversations(HELD_OUT, 30))
    each = measured(asked["arms"], "originals asked for")
    assert (each["means"], each["change"], each["interval"]) == ([2, 0], None, None)
    text = "\n".join(stats.lines(unpriced))
    assert "not known of enough conversations" in text


def test_conversations_without_a_tool_result_are_left_out() -> None:
    none = compare(conversations(SHORTENED, 30, new_results=0) | conversations("", 30))
    assert none["arms"]["conversations"] == (0, 0)


def test_only_sums_are_kept() -> None:
    amounts = Amounts(requests=2, dollars=0.5, new_before=9)
    amounts.secrets["github"] = 1
    assert comparison.counted_sums(amounts) == {"requests": 2, "dollars": 0.5}
