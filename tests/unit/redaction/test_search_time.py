"""A request whose search takes too long is not sent; its texts are refused or masked."""

from __future__ import annotations

import pytest

from penumbra.compress.result import Redacted
from penumbra.redaction import TooLarge
from penumbra.redaction.redact_calls import bounded, forgiving
from penumbra.redaction.redactor import Redactor

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
