"""Values of thousands of bytes after each of many anchors are judged by their beginnings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penumbra.redaction.finders.tokens import at_anchor
from penumbra.redaction.rule import Rule, read
from support import secret_contexts as contexts

RANDOM = contexts.values(5)["base62"]
EARLY = [rule for rule in read() if rule.shows_early]


class Whole(Rule):
    """A rule whose values are always read to their end."""

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
def test_a_glimpse_says_what_all_of_it_says(value: str) -> None:
    bearer = next(rule for rule in EARLY if rule.id == "bearer")
    for head in ("bearer ", "Bearer: ", "bearer=="):
        data = f"{head}{value} end\n".encode()
        assert at_anchor(bearer, data, 0, False) == at_anchor(whole(bearer), data, 0, False)


def test_a_value_whose_head_has_no_bound_is_read_whole() -> None:
    (rule, *_) = EARLY
    assert not replace(rule, regex=f"a*{rule.regex}").shows_early
    assert not replace(rule, value="password").shows_early
    assert not replace(rule, regex=f"{rule.regex}b").shows_early
