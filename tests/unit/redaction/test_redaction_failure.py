"""Texts that can't be searched for secrets, or not in time, are refused, masked or passed."""

import logging

import pytest

from penumbra.compress.result import Redacted
from penumbra.redaction import RedactionError, TooLarge
from penumbra.redaction.redact_calls import bounded, forgiving
from penumbra.redaction.redactor import Redactor
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


def test_a_text_that_can_be_searched_is_redacted() -> None:
    redact = forgiving(lambda text, hint: Redacted(text + hint, {"x": 2}), "mask")
    assert redact("a", "b") == Redacted("ab", {"x": 2})


TEXTS = {
    "table": "name,email,password\n" + "\n".join(f"u{n},u{n}@x.org,{n * 7919:x}Xy!{n:o}" for n in range(300)),
    "assignments": "\n".join(f"password_{n} = '{n * 7919:x}Zq!{n:o}'" for n in range(300)),
    "names without values": "password = x, " * 2_000,
    "tokens": "ghp_" + "\nghp_" * 2_000,
}


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(b"k" * 32)


@pytest.mark.parametrize("name", TEXTS)
def test_a_search_under_way_ends(name: str, redactor: Redactor) -> None:
    with pytest.raises(TooLarge, match="the search takes more than"):
        bounded(redactor.redact, 1e-9)(TEXTS[name], "")
    assert bounded(redactor.redact)(TEXTS[name], "") == redactor.redact(TEXTS[name])


def test_a_mask_says_how_much_was_not_searched(redactor: Redactor) -> None:
    text = TEXTS["table"]
    masked = forgiving(bounded(redactor.redact, 1e-9), "mask")(text, "")
    assert masked == Redacted(f"[REDACTED:unscanned:{len(text)} bytes]", {"unscanned": 1})
