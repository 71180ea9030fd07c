"""Names that clients and upstreams give to things: in logs and figures they are bounded, and one line."""

from __future__ import annotations

import json
from typing import Any

from penumbra.apis.formats import FORMATS
from penumbra.apis.usage import added, flat
from penumbra.expand.expansions import Answered
from penumbra.metrics.asked_originals import ExpansionMetrics
from penumbra.metrics.totals import counted_as
from support.by_hand import tunnelled

ODD = "api.openai.com\x1b]0;title\x07\u2028[00:00:00.000] Penumbra: all is well"


def test_a_host_header_in_the_log(proxy: Any, upstream: Any) -> None:
    """A terminal obeys some signs, and takes others for the end of a line."""
    running = proxy("regular")
    tunnelled(running, "api.openai.com", "api.openai.com", ODD, b'{"messages": x')
    said = [line for line in running.log().split("\n") if "Penumbra" in line and "title" in line]
    assert said
    assert all(line.isprintable() for line in said)


def test_names_of_tools_in_figures() -> None:
    counter = ExpansionMetrics().by_tool
    for number in range(3_000):
        counter[counted_as(counter, f"tool {number}\x1b[2J" + "x" * 10_000)] += 1
    assert sum(counter.values()) == 3_000
    assert len(counter) <= 1_001
    assert all(len(name) < 500 and name.isprintable() for name in counter)


def test_names_of_figures_of_an_upstream() -> None:
    metrics = ExpansionMetrics()
    asked = [Answered("shadow_0", True, 1, "Bash", "")]
    for number in range(300):
        told = flat({f"tokens {number} {inner}": 1 for inner in range(300)} | {"a\x1b[2J": 1, "b" * 5_000: 1})
        metrics.add(b"c" * 32, asked, 1, [told])
    assert len(metrics.all.tokens) <= 300
    assert all(name.isprintable() and len(name) < 200 for name in metrics.all.tokens)


def test_usage_within_usage() -> None:
    """An upstream may nest what it tells deeper than Python likes."""
    deep: Any = 1
    for _ in range(900):
        deep = {"a": deep}
    assert len(flat(deep)) <= 1
    assert added(deep, {}) == deep
    event = b"data: " + json.dumps({"type": "message_start", "message": {"id": "m", "usage": deep}}).encode()
    assert FORMATS["anthropic"].stream("expand_context").feed(event + b"\n\n") == event + b"\n\n"
