"""The report has sums of the history with intervals, and no names."""

from typing import Any

from penumbra.cli.html_report import html, share


def record(conversations: int, **more: Any) -> dict[str, Any]:
    each = {
        "requests": 2,
        "sent_before": 1_000,
        "sent_after": 600,
        "responses": 2,
        "cached": 2_000,
        "dollars": 0.01,
    }
    named = {f"c{n:07x}": {**each, "sent_after": 500 + n * 20, "agent": "claude", "project": "secret-shop"} for n in range(conversations)}  # fmt: skip
    sums = {
        "requests": 2 * conversations,
        "sent_before": 1_000 * conversations,
        "sent_after": 600 * conversations,
    }
    return {
        "all": {**sums, "compared": 120, "new_results": 40, "seconds": 0.5, **more},
        "conversations": named,
    }


def test_the_report_has_figures_and_no_names() -> None:
    made = html({"2026-11-01": record(12), "2026-11-02": record(12, secrets={"github-token": 3})}, "1.0")
    assert "2026-11-01 to 2026-11-02" in made
    assert "0 of 240" in made
    assert "Secrets kept in: 3<" in made
    for name in ("secret-shop", "claude", "github-token", "c0000000"):
        assert name not in made
    assert made.count('class="bar"') == 2


def test_an_empty_history_is_no_error() -> None:
    made = html({}, "1.0")
    assert "no days yet" in made
    assert "not known" in made


def test_an_interval_needs_conversations_and_holds_the_ratio() -> None:
    assert share([]) == "not known"
    assert "too few" in share([(40.0, 100.0)] * 3)
    assert share([(40.0, 100.0)] * 20) == "40.0% (40.0% to 40.0%)"
    low, high = (
        float(each.rstrip("%)"))
        for each in share([(n, 100.0) for n in range(100)]).split("(")[1].split(" to ")
    )
    assert low < 49.5 < high
    assert (low > 43, high < 56) == (True, True)
