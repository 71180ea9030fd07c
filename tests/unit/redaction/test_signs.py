"""The signs that one pass finds are those that separate searches find."""

from __future__ import annotations

import base64
import random

import pytest
import re2

from penumbra.redaction.decoders import DECODERS, Sign, signs
from penumbra.redaction.finders.assignments import FLAGS, TAG_ENDS
from penumbra.redaction.finders.tokens import TAIL
from penumbra.redaction.redactor import Redactor
from penumbra.redaction.view import DISGUISE, JOINTS

TEXTS = {
    "nothing of all this": set(),
    "pass%77ord": {Sign.DISGUISE},
    "'a' + 'b'": {Sign.JOINT},
    "a b\n" + "QUJD" * 20: {Sign.ENCODED},
    "--PassWord Tr0ub4dor": {Sign.FLAG},
    "<b>nothing</b>": {Sign.TAG},
    "acme_" + "a1B2" * 7: {Sign.TAIL},
    '{"a": "<b>nothing<\\/b>"}': {Sign.TAG},
    "x" * 300_000 + " --token \u001b[0mabcd" + "é" * 9: {Sign.DISGUISE},
}


@pytest.mark.parametrize("text", TEXTS)
def test_signs_are_what_the_searches_find(text: str) -> None:
    data = text.encode()
    searched = {
        Sign.DISGUISE: DISGUISE.search(data),
        Sign.JOINT: JOINTS.search(data),
        Sign.ENCODED: re2.search(DECODERS[Sign.ENCODED].pattern, data),
        Sign.FLAG: FLAGS.search(data.lower()),
        Sign.TAG: re2.search(TAG_ENDS, data),
        Sign.TAIL: TAIL.search(data),
    }
    assert signs(data) == {sign for sign, found in searched.items() if found} == TEXTS[text]


def test_no_text_in_base64_is_without_its_sign() -> None:
    drawn = random.Random(3)
    for _ in range(2_000):
        text = bytes(drawn.choices(b"\t\n\r" + bytes(range(32, 127)), k=drawn.randint(33, 60)))
        data = drawn.choice((b"", b" ", b"\\n")) + base64.b64encode(text)
        if list(DECODERS[Sign.ENCODED].views(data)):
            assert Sign.ENCODED in signs(data), data


def test_an_anchor_that_begins_one_secret_may_stand_in_another(redactor: Redactor) -> None:
    """An anchor within a word is asked by each of its rules."""
    token = "gh" + "p_lqcPuQybgKxtzX17jVL0GAPxirppHx92KGBZ"
    assert redactor.redact(f"x{token}q").counts
    assert redactor.redact(f"https://hooks.example.net/{token}").counts == {"github-token": 1}
