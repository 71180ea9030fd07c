"""What one pass says of a text is what the searches behind it find."""

from __future__ import annotations

import pytest

from penumbra.redaction.finders.assignments import FLAGS
from penumbra.redaction.finders.encoded import RUN
from penumbra.redaction.finders.prefixed import TAIL
from penumbra.redaction.redactor import Redactor
from penumbra.redaction.signs import Sign, signs
from penumbra.redaction.view import DISGUISE, JOINTS

TEXTS = {
    "nothing of all this": set(),
    "pass%77ord": {Sign.DISGUISE},
    "'a' + 'b'": {Sign.JOINT},
    "a b\n" + "QUJD" * 20: {Sign.ENCODED},
    "ab_" + "q8Zk2mVt41" * 3: {Sign.PREFIXED},
    "--PassWord Tr0ub4dor": {Sign.FLAG},
    "x" * 300_000 + " --token \u001b[0mabcd" + "é" * 9: {Sign.DISGUISE, Sign.ENCODED},
}


@pytest.mark.parametrize("text", TEXTS)
def test_signs_are_what_the_searches_find(text: str) -> None:
    data = text.encode()
    searched = {
        Sign.DISGUISE: DISGUISE.search(data),
        Sign.JOINT: JOINTS.search(data),
        Sign.ENCODED: RUN.search(data),
        Sign.PREFIXED: TAIL.search(data),
        Sign.FLAG: FLAGS.search(data.lower()),
    }
    assert signs(data) == {sign for sign, found in searched.items() if found} == TEXTS[text]


def test_an_anchor_that_begins_one_secret_may_stand_in_another(redactor: Redactor) -> None:
    """Where a word runs into it, too: those whose anchor it is are asked apart."""
    token = "gh" + "p_lqcPuQybgKxtzX17jVL0GAPxirppHx92KGBZ"
    assert redactor.redact(f"x{token}q").counts
    assert redactor.redact(f"https://hooks.example.net/{token}").counts == {"github-token": 1}
