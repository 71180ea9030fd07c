"""The price model: the prices of each provider, and the rewrites that pay."""

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.apis import recognise
from penumbra.conversation.cache_price import Change, Prices, decide, prices, remaining_turns, table
from support.examples import examples

ANTHROPIC = Prices(read=0.1, write=1.25, minimum=1024, step=1, life=300, cold=600)


@pytest.mark.parametrize("example", table()["examples"], ids=lambda example: example["model"])
def test_prices_of_the_rule_file(example):
    found = prices(example["format"], example["model"], example["body"].encode())
    assert (found.read, found.write, found.cold) == (example["read"], example["write"], example["cold"])
    assert found.minimum == example.get("minimum", found.minimum)


def test_a_longer_life_is_seen_in_any_spelling():
    assert (
        prices("anthropic", "claude-x", b'{"cache_control": {"type": "ephemeral", "ttl": "1h"}}').write == 2.0
    )
    assert prices("anthropic", "claude-x", b'{"ttl": "5m"}').write == 1.25


def test_every_format_that_is_recognised_has_prices():
    for api in recognise.apis():
        assert prices(api.format, "", b"{}").write >= 1.0


FAR, NEAR, LAST = Change(10_000, 1_000, 50_000), Change(10_000, 1_000, 5_000), Change(10_000, 100, 300)
COLD, BOUND = {"cold": True}, {"cold": True, "bound": True}


@pytest.mark.parametrize(
    ("changes", "turns", "more", "count", "line"),
    [
        ([FAR], 30, {}, 0, "kept 1 results: the last alone pays back in 64 turns at best, 30 are expected"),
        ([NEAR], 30, {}, 1, "rewrote 1 results before 5,000 cached tokens: pays back in 7 turns"),
        ([NEAR], 3, {}, 0, "kept 1 results: "),
        ([LAST], 0, {}, 1, "rewrote 1 results: after them are only 300 cached tokens, it pays at once"),
        ([Change(2_000, 100, 90_000), Change(900, 100, 4_000)], 0, COLD, 2, "rewrote 2 results: the cache is cold"),
        ([LAST], 30, BOUND, 0, "kept 1 results: reasoning after them is bound"),
        ([Change(500, 100, 200_000), Change(8_000, 200, 9_000), Change(6_000, 200, 1_500)], 20, {}, 2, "rewrote 2 "),
    ],
    ids=["far", "near", "few turns", "last", "cold", "bound", "some of them"],
)  # fmt: skip
def test_the_changes_that_pay_are_chosen(
    changes: list[Change], turns: int, more: dict[str, bool], count: int, line: str
) -> None:
    verdict = decide(changes, ANTHROPIC, turns, **{"cold": False, "bound": False, **more})
    assert verdict.count == count
    assert verdict.line.startswith(line)


def test_the_cost_of_a_change() -> None:
    """The cost is 1.25 * (60,000 - 9,000) - 0.1 * 60,000 once, and 0.1 * 9,000 less in each turn."""
    far = decide([FAR], ANTHROPIC, 30, cold=False, bound=False)
    assert (round(far.once), round(far.each)) == (57_750, 900)
    cold = decide([Change(2_000, 100, 90_000), Change(900, 100, 4_000)], ANTHROPIC, 0, cold=True, bound=False)
    assert cold.once == -1.25 * 2_700


def test_expected_turns_grow_with_the_conversation_and_end():
    assert [remaining_turns(made) for made in (0, 1, 10, 1000)] == [0, 0, 5, 30]


def bill(price, contexts):
    """Return the bill for requests, each of which is a list of (name, tokens) parts."""
    total, before = 0.0, []
    for parts in contexts:
        same = 0
        while same < min(len(before), len(parts)) and before[same] == parts[same]:
            same += 1
        kept, sent = sum(size for _, size in parts[:same]), sum(size for _, size in parts)
        cached = kept if kept >= price.minimum else 0
        total += cached * price.read + (sent - cached) * price.write
        before = parts
    return total


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(st.integers(1000, 20_000), st.integers(0, 900)), min_size=1, max_size=5),
    st.integers(0, 30_000),
    st.integers(0, 30),
)
def test_no_decision_is_dearer_over_the_expected_turns(results, rest, turns):
    """If the price model chooses a rewrite, the bill with the rewrite is not higher than without."""
    behind, changes = rest, []
    for before, after in reversed(results):
        changes.insert(0, Change(before, after, behind))
        behind += before
    verdict = decide(changes, ANTHROPIC, turns, cold=False, bound=False)
    start = [("head", 5_000), *((f"r{n}", before) for n, (before, _) in enumerate(results)), ("rest", rest)]
    later = [
        (f"s{n}", after) if n >= len(results) - verdict.count else (f"r{n}", before)
        for n, (before, after) in enumerate(results)
    ]
    changed = [("head", 5_000), *later, ("rest", rest)]
    keep = bill(ANTHROPIC, [start, start, *[start] * turns])
    rewrite = bill(ANTHROPIC, [start, changed, *[changed] * turns])
    assert rewrite <= keep + 1e-6
    if verdict.count:
        assert rewrite - keep == pytest.approx(verdict.once - turns * verdict.each)


def test_a_forecast_is_the_bill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "scripts"))
    forecast = importlib.import_module("bench_cost").Forecast(
        Prices(read=0.5, write=1.0, minimum=1024, step=128, life=1, cold=1)
    )
    assert forecast.add(0, 2_000) == 2_000
    assert forecast.add(2_000, 2_100) == 1_920 * 0.5 + 180
    assert forecast.add(1_000, 2_100) == 2_100
    assert forecast.total == 2_000 + 1_140 + 2_100
