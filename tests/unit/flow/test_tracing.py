"""A span that can't be sent is logged once, and delays no request."""

from __future__ import annotations

import logging

from penumbra.flow import tracing
from penumbra.metrics.sessions import Rates, TurnRecord

TURN = TurnRecord(1, 1.0, "s", "m", "", "", "h", "openai-chat", "", (), 0, (1, 1), Rates())


def test_tracing_that_cannot_begin_is_logged_once(monkeypatch, caplog):
    def broken():
        raise ValueError("OTEL_SOMETHING: nonsense")

    monkeypatch.setattr(tracing, "tracer_provider", broken)
    is_on = [True]
    spans = tracing.Tracing(lambda: is_on[0])
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            spans.ended(TURN, {})
    assert [record.getMessage() for record in caplog.records] == [
        "penumbra: spans can't be sent: ValueError: OTEL_SOMETHING: nonsense"
    ]
    is_on[0] = False
    spans.ended(TURN, {})
    is_on[0] = True
    spans.ended(TURN, {})
    assert len(caplog.records) == 2
