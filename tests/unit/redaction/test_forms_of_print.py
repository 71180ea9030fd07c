"""Secrets in the forms in which tools print bytes."""

from __future__ import annotations

import pytest

from penumbra.redaction.redactor import Redactor
from support.secret_kinds import KINDS, is_left, text_with
from support.tool_forms import FORMS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMS)
def test_secret_goes_and_nothing_else_does_a_second_time(redactor: Redactor, name: str, kind: str) -> None:
    text, secret = text_with(kind)
    form = FORMS[name]
    redacted = redactor.redact(form.show(text)).text
    left = form.read(redacted).replace("\n", "")
    assert redacted != form.show(text)
    assert not is_left(secret.replace("\n", ""), left)
    assert redactor.redact(redacted).text == redacted


@pytest.mark.parametrize("name", FORMS)
def test_text_without_a_secret_stays(redactor: Redactor, name: str) -> None:
    shown = FORMS[name].show("# settings of the shop\nregion: eu-central-1\nretries: 3\npage size: 200\n")
    assert redactor.redact(shown).text == shown


DISGUISES = {
    "escape of JSON": r"\u0054r1cky-W0rd92",
    "entity": "Tr1cky-W&#48;rd92",
    "no width": "Tr1cky\u200b-W0rd92",
    "colour": "Tr1cky-\x1b[1mW0rd92\x1b[0m",
    "word diff": "{+Tr1cky-W0rd92+}",
}


@pytest.mark.parametrize("disguised", DISGUISES.values(), ids=DISGUISES)
@pytest.mark.parametrize("filler", ["x = 1\n", "x+1,"], ids=["lines", "one line"])
def test_disguise_goes_however_far_the_next_one_is(redactor: Redactor, disguised: str, filler: str) -> None:
    line = f"\nDB_PASSWORD={disguised}\n"
    long = filler * 8_000
    redacted = redactor.redact(long + line + long + line + long).text
    assert "rd92" not in redacted
    assert redacted.count("[REDACTED:") == 2
    assert len(redacted) > 3 * len(long)
