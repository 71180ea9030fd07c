"""How often the model asked, and what it cost."""

from __future__ import annotations

from penumbra.apis.usage import added, flat, only, plus
from penumbra.expand.hidden_exchanges import Answered
from penumbra.metrics.totals import ExpansionMetrics, expansion_event

ANSWERED = [Answered("shadow_1", True, 1000, "Bash", "logs"), Answered("shadow_2", False, 60, "", "")]
TOKENS = [{"input_tokens": 100, "output_tokens": 7}]


def test_figures() -> None:
    metrics = ExpansionMetrics()
    assert metrics.lines() == ["Penumbra: the model has not asked for an original yet."]
    metrics.add(b"\x01" * 32, ANSWERED, 2, TOKENS)
    metrics.add(b"\x01" * 32, ANSWERED[:1], 1, TOKENS)
    metrics.add(b"\x02" * 32, ANSWERED[1:], 0, [])
    total, tools, families, heading, first, second = metrics.lines()
    assert total == (
        "expansions  4 asked in 3 responses, 2 found, 2 missed, 2,120 bytes given, 3 extra calls "
        "(input_tokens 200, output_tokens 14)"
    )
    assert tools == "by tool     Bash 2, (unknown) 2"
    assert families == "by family   logs 2, (none) 2"
    assert heading == "the latest conversations:"
    assert first.startswith("01010101    3 asked in 2 responses, 2 found, 1 missed")
    assert second == "02020202    1 asked in 1 responses, 0 found, 1 missed, 60 bytes given, 0 extra calls"


def test_recoveries_are_shown_whether_the_model_has_asked_or_not() -> None:
    metrics = ExpansionMetrics()
    metrics.recovered["too-long at level 1"] += 2
    assert metrics.lines()[0] == "recovered   too-long at level 1 2"
    metrics.add(b"\x01" * 32, ANSWERED, 2, TOKENS)
    assert metrics.lines()[:2] == ["recovered   too-long at level 1 2", f"expansions  {metrics.all.line()}"]


def test_only_the_latest_conversations_are_kept() -> None:
    metrics = ExpansionMetrics()
    for number in range(300):
        metrics.add(number.to_bytes(4, "big"), ANSWERED, 1, [])
    assert len(metrics.conversations) == 200
    assert metrics.all.responses == 300


def test_the_event_says_nothing_of_the_contents() -> None:
    event = expansion_event(
        flow_id="f", conversation=b"\x01" * 32, answered=ANSWERED, calls=1, tokens=TOKENS, sound=True
    )
    assert event["asked"][0] == {
        "ref": "shadow_1",
        "found": True,
        "bytes": 1000,
        "tool": "Bash",
        "family": "logs",
    }
    assert (event["conversation"], event["extra_calls"], event["extra_tokens"]) == ("01010101", 1, TOKENS)


def test_token_figures() -> None:
    usage = {"output_tokens": 3, "details": {"a": 1, "b": "x"}, "flag": True, "none": None}
    assert flat(usage) == {"output_tokens": 3, "details.a": 1}
    assert flat(None) == {}
    assert plus({"a": 1}, {"a": 2, "b": 3}) == {"a": 3, "b": 3}
    assert only({"out": 1, "out.x": 2, "in": 3}, ("out",)) == {"out": 1, "out.x": 2}
    assert added(usage, {"output_tokens": 2, "details.a": 4, "new": 1}) == {
        "output_tokens": 5,
        "details": {"a": 5, "b": "x"},
        "flag": True,
        "none": None,
    }
