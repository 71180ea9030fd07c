"""A test that decides whether a search is necessary misses nothing that the search finds."""

import base64
import random
from dataclasses import replace

import pytest
import re2

from penumbra import rules
from penumbra.redaction import rule
from penumbra.redaction.decoders import DECODERS, Sign, signs
from penumbra.redaction.finders.assignments import FLAGS, TAG_ENDS
from penumbra.redaction.finders.tokens import TAIL, Anchor, at_anchor
from penumbra.redaction.redactor import Redactor
from penumbra.redaction.rule import Rule
from penumbra.redaction.view import DISGUISE, JOINTS
from penumbra.rule_schemas.schema import convert
from penumbra.rule_schemas.secret_rules import SecretFile
from penumbra.user_rules import plain
from support import secret_contexts as contexts


def test_the_test_of_an_anchor_misses_no_secret() -> None:
    """The test of an anchor accepts all secrets of its rules, even a secret that a line break divides."""
    by_id = {each.id: each for each in rule.read()}
    seen = 0
    for file in rules.load_folder("secrets"):
        for written in convert(SecretFile, file.content, "").rules:
            each = by_id[written.id]
            if not each.anchors or each.before or each.whole:
                continue
            alone, several = Anchor.of((each,)), Anchor.of((by_id["github-token"], each))
            for data in (
                text for example in written.examples.match for text in _texts(plain(example).encode())
            ):
                for at in filter(lambda at: at >= 0, map(data.lower().find, each.anchors)):
                    if at_anchor(each, data, at, wraps=True) is not None:
                        seen += 1
                        for one in (alone, several):
                            assert one.may_begin(data, at)[0], (each.id, data)
    assert seen > 500


def _texts(example: bytes) -> tuple[bytes, ...]:
    half = len(example) * 2 // 3
    return example, example[:half] + b"\n" + example[half:] + b"\n"


def test_a_short_token_hides_no_longer_token_around_it() -> None:
    long, short = (Rule(name, "token", regex, (b"tok-",), boundary=False) for name, regex in _TOK.items())
    anchor = Anchor.of((long, short))
    token = b"tok-" + b"a" * 50 + b"-tok-12345678" + b"a" * 300
    data = (b"tok- " * 1_000)[: 4_096 + anchor.reach - 100] + token
    assert anchor.may_begin(data, data.index(token))[0]
    assert token not in Redactor(b"k", [long, short]).redact(data.decode()).text.encode()


_TOK = {"long": "tok-[a-z0-9-]{300,400}", "short": "tok-[0-9]{8}"}


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
    """Each rule of an anchor is tried at an anchor within a word."""
    token = "gh" + "p_lqcPuQybgKxtzX17jVL0GAPxirppHx92KGBZ"
    assert redactor.redact(f"x{token}q").counts
    assert redactor.redact(f"https://hooks.example.net/{token}").counts == {"github-token": 1}


RANDOM = contexts.values(5)["base62"]
EARLY = [each for each in rule.read() if each.shows_early]


class Whole(Rule):
    """A rule that always reads values to their end."""

    shows_early = False  # type: ignore[assignment]


def whole(rule: Rule) -> Rule:
    return Whole(**{name: getattr(rule, name) for name in rule.__dataclass_fields__})


@pytest.mark.parametrize(
    "value",
    [
        "bearer=" * 900,
        RANDOM * 200,
        "a" * 40 + "." * 5_000,
        RANDOM[:20] + "." * 5_000,
        "word" * 200 + RANDOM * 100,
        RANDOM + "word" * 1_000,
        "abc#" + RANDOM * 100,
        "x" * 300 + "&quot;" + RANDOM,
    ],
)
def test_the_head_of_a_value_is_judged_as_the_whole_value(value: str) -> None:
    bearer = next(rule for rule in EARLY if rule.id == "bearer")
    for head in ("bearer ", "Bearer: ", "bearer=="):
        data = f"{head}{value} end\n".encode()
        assert at_anchor(bearer, data, 0, False) == at_anchor(whole(bearer), data, 0, False)


def test_a_value_whose_head_has_no_bound_is_read_whole() -> None:
    (rule, *_) = EARLY
    assert not replace(rule, regex=f"a*{rule.regex}").shows_early
    assert not replace(rule, value="password").shows_early
    assert not replace(rule, regex=f"{rule.regex}b").shows_early
