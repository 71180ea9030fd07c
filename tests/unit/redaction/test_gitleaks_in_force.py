"""The rules in force when a user brings a gitleaks.toml, and the messages for a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from penumbra.redaction import RuleError, ruleset
from penumbra.redaction.redactor import Redactor
from support.gitleaks_file import FILE, TEXT, TICKET


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("only", [False, True])
def test_rules_in_force(only: bool, config: Path) -> None:
    loaded = ruleset.user_rules(str(config), only=only)
    rules = ruleset.rules(loaded, only=only)
    ids = [rule.id for rule in rules]
    assert "acme-ticket" in ids
    assert ("github-token" in ids) is not only
    assert TICKET not in Redactor(b"k", rules).redact(TEXT).text


def test_without_a_file_there_are_ours_only() -> None:
    assert ruleset.user_rules("", only=False) is None
    assert [rule.id for rule in ruleset.rules(None, only=False)].count("acme-ticket") == 0


@pytest.mark.parametrize(
    ("content", "only", "message"),
    [
        ("a = ", False, "penumbra_gitleaks_config: "),
        ("[[rules]]\nid = 'x'\nregex = 'x'\nentropy = 'high'", False, "a value of the wrong type"),
        ("[extend]\ndisabledRules = 3", False, "a value of the wrong type"),
        ("title = 'nothing'", True, "no usable rule, and ours are switched off"),
        (b"\xff\xfe", False, "not UTF-8 text"),
    ],
)
def test_bad_files(content: str | bytes, only: bool, message: str, config: Path) -> None:
    config.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RuleError) as caught:
        ruleset.user_rules(str(config), only=only)
    assert message in str(caught.value)
    assert str(config) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="No such file"):
        ruleset.user_rules(str(tmp_path / "none.toml"), only=False)
    with pytest.raises(RuleError, match="only with penumbra_gitleaks_config"):
        ruleset.user_rules("", only=True)
