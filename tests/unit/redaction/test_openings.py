"""An opening matches wherever its pattern does, and is bounded."""

from __future__ import annotations

import random
import re

import pytest
import re2

from penumbra.redaction import rule
from penumbra.redaction.rule import opening

CASES = {
    "ab_[A-Z]{30,}": "ab_[A-Z]{30}",
    "ab_[A-Z]+x": "ab_[A-Z]",
    "ab_[A-Z]*x": "ab_",
    r"ab\b[A-Z]{3}(?:c|d)?e": "ab[A-Z]{3,3}(?:c|d)?e",
    "(?:ab|c*)d": "",
    "(?:ab|cd+)e": "(?:ab|cd)",
    "(?:ab|cd){2,4}e": "(?:ab|cd)",
    "(?:ab|cd)*e": "",
    "a(?:b){0,2}c": "a",
    "(?i)ab|c": "(?i:ab|c)",
    "ab(?i)c": "ab",
    r"a\s[^\s]\S": r"a[ \t\n\f\r][^ \t\n\f\r][^ \t\n\f\r]",
    r"a[\\s]": r"a[\\s]",
    "a[b]{0,40}c[b]{0,40}d[b]{0,40}e": "a[b]{0,40}c[b]{0,40}d[b]{0}",
    "ab[b]{0,400}c": "ab[b]{0}",
    "^ab": "",
    "ab$": "ab",
    "ab(c)": "ab(?:c)",
    "é": "",
}


@pytest.mark.parametrize("regex", CASES)
def test_opening(regex: str) -> None:
    assert opening(regex) == CASES[regex]


@pytest.mark.parametrize("regex", [regex for regex in CASES if CASES[regex]])
def test_what_a_pattern_matches_begins_so(regex: str) -> None:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    whole, begins = re2.compile(regex.encode(), options), re.compile(opening(regex).encode())
    drawn = random.Random(5)
    pieces = (b"ab", b"ab_", b"a", b"b", b"c", b"d", b"e", b"x", b"AB", b"\x0b", b" ", b"\\", b"s", 30 * b"A")
    for _ in range(3_000):
        data = b"".join(drawn.choices(pieces, k=drawn.randint(1, 7)))
        if whole.match(data):
            assert begins.match(data), data


def test_openings_are_bounded() -> None:
    for each in rule.read():
        bare = re.sub(rb"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", b"", each.opening)
        assert not re.search(rb"[*+]|,\}", bare), each.id
        re.compile(each.opening)
