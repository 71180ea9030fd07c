"""Compiled rules are shared, and compiled anew when a user's rules change."""

from __future__ import annotations

from penumbra import rules
from penumbra.redaction import rule, ruleset
from penumbra.redaction.redactor import Redactor
from support.work_counts import calls

USERS = {
    "secrets/acme.yaml": {
        "label": "acme",
        "rules": [{"id": "acme-key", "regex": "acme_[a-z0-9]{20}", "anchors": ["acme_"]}],
    }
}
SECRET = "acme_q8zk2mvt41lx9rwpz0bt"


def test_engines_share_it() -> None:
    Redactor(b"k")
    assert calls(Redactor, b"another key") < 5_000
    replaced = ruleset.load("[[rules]]\nid = 'x'\nregex = 'acme_[a-z0-9]{20}'\nkeywords = ['acme_']", "mine")
    third = Redactor(b"k", ruleset.merged(rule.read(), replaced))
    assert SECRET not in third.redact(f"see {SECRET}").text


def test_what_a_user_adds_and_takes_away_is_seen() -> None:
    before = Redactor(b"k")
    rules.add(USERS)
    try:
        assert SECRET not in Redactor(b"k").redact(f"see {SECRET}").text
        # An engine keeps what it was made with.
        assert SECRET in before.redact(f"see {SECRET}").text
    finally:
        rules.add({})
    assert SECRET in Redactor(b"k").redact(f"see {SECRET}").text
