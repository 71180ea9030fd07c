"""Texts that can't be searched for secrets are refused, masked or passed."""

from __future__ import annotations

import logging

import pytest

from penumbra.compress.result import Redacted
from penumbra.redaction import RedactionError
from penumbra.redaction.redact_calls import forgiving
from support.planted import GITHUB


def broken(text: str, hint: str) -> Redacted:
    raise RedactionError("redaction failed: KeyError")


def test_refuse_is_what_there_was() -> None:
    assert forgiving(broken, "refuse") is broken


def test_mask_counts_bytes_and_is_idempotent(caplog: pytest.LogCaptureFixture) -> None:
    redact = forgiving(broken, "mask")
    with caplog.at_level(logging.WARNING):
        first = redact("zü\ud800" + GITHUB, "")
    assert first.text == f"[REDACTED:unscanned:{6 + len(GITHUB)} bytes]"
    assert first.counts == {"unscanned": 1}
    assert redact(first.text, "") == Redacted(first.text)
    assert len(caplog.records) == 1
    assert GITHUB not in caplog.text


def test_pass_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert forgiving(broken, "pass")(GITHUB, "") == Redacted(GITHUB)
    assert [record.getMessage() for record in caplog.records] == [
        "Penumbra passes on a text that was not searched for secrets: redaction failed: KeyError"
    ]


def test_what_can_be_searched_is_redacted() -> None:
    redact = forgiving(lambda text, hint: Redacted(text + hint, {"x": 2}), "mask")
    assert redact("a", "b") == Redacted("ab", {"x": 2})
