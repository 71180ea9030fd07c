"""A user's gitleaks.toml, the resulting rules, and the messages for a bad file."""

from pathlib import Path

import pytest

from penumbra.redaction import RuleError, rule, ruleset
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from support.gitleaks_file import FILE as TICKETS
from support.gitleaks_file import TEXT, TICKET

FILE = r"""
title = "ours"
[extend]
useDefault = true
disabledRules = ["github-token"]
[allowlist]
stopwords = ["sample"]
[[rules]]
id = "Acme_Key"
regex = '''(?i)acme[_-]?key\s*=\s*([a-z0-9]{12})\b'''
secretGroup = 1
entropy = 3.0
keywords = ["ACME"]
[[rules]]
id = "acme-ticket"
regex = '''TKT-[0-9]{6}'''
  [[rules.allowlists]]
  regexTarget = "line"
  regexes = ['''^public:''']
[[rules]]
id = "only-a-path"
path = '''secrets/.*'''
[[rules]]
id = "not-linear"
regex = '''(a)\1'''
"""


@pytest.fixture(scope="module")
def loaded() -> ruleset.Loaded:
    return ruleset.load(FILE)


@pytest.fixture(scope="module")
def redactor(loaded: ruleset.Loaded) -> Redactor:
    return Redactor(b"k", ruleset.merged(rule.read(), loaded))


def shape(redactor: Redactor, text: str) -> str:
    return PATTERN.sub("@", redactor.redact(text).text)


def test_rules_of_a_gitleaks_file_are_read(loaded: ruleset.Loaded) -> None:
    assert [each.id for each in loaded.rules] == ["Acme_Key", "acme-ticket"]
    assert [each.label for each in loaded.rules] == ["acme-key", "acme-ticket"]
    assert loaded.disabled == {"github-token"}
    assert len(loaded.warnings) == 2
    assert all("\n" not in line for line in loaded.warnings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Acme_Key = q8zk2mvt41lx;", "Acme_Key = @;"),
        ("acme_key = aaaaaaaaaaaa", "acme_key = aaaaaaaaaaaa"),
        ("acme_key = q8zksample1x", "acme_key = q8zksample1x"),
        ("see TKT-123456 now", "see @ now"),
        ("x\npublic: TKT-123456\nTKT-654321", "x\npublic: TKT-123456\n@"),
    ],
)
def test_rules_of_the_file(redactor: Redactor, text: str, expected: str) -> None:
    only = Redactor(b"k", ruleset.merged([], ruleset.load(FILE)))
    assert shape(only, text) == shape(redactor, text) == expected


def test_rules_of_a_file_are_added_or_replace_the_own_ones(loaded: ruleset.Loaded) -> None:
    ours = rule.read()
    beside = {each.id for each in ruleset.merged(ours, loaded)}
    assert {each.id for each in ours} - beside == {"github-token"}
    assert [each.id for each in ruleset.merged(ours, loaded, instead=True)] == ["Acme_Key", "acme-ticket"]


@pytest.mark.parametrize(
    "text",
    ["a = ", "[[rules]]\nregex = 'x'", "[[rules]]\nid = 'x'\nregex = 'x'\nsecretGroup = 2", "rules = 3"],
)
def test_unusable_file_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(RuleError) as caught:
        ruleset.load(text, "mine.toml")
    assert str(caught.value).startswith("mine.toml: ")
    assert "\n" not in str(caught.value)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(TICKETS)
    return path


@pytest.mark.parametrize("only", [False, True])
def test_rules_in_force(only: bool, config: Path) -> None:
    loaded = ruleset.user_rules(str(config), only=only)
    rules = ruleset.rules(loaded, only=only)
    ids = [rule.id for rule in rules]
    assert "acme-ticket" in ids
    assert ("github-token" in ids) is not only
    assert TICKET not in Redactor(b"k", rules).redact(TEXT).text


def test_without_a_file_only_the_own_rules_are_used() -> None:
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
