"""Every rule's own examples. `¦` splits tokens so that no file holds a whole one; `⟦ ⟧` marks
what has to go."""

from __future__ import annotations

import re

import pytest

from penumbra import rules
from penumbra.redaction import LIBRARY_KEY, RuleError, rule
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from penumbra.rule_schemas.base import convert
from penumbra.rule_schemas.secrets import SecretFile, SecretRule

RULES = rule.read()
REDACTOR = Redactor(LIBRARY_KEY)
MARKED = re.compile("⟦(.*?)⟧", re.DOTALL)


WRITTEN = [
    rule for file in rules.load_folder("secrets") for rule in convert(SecretFile, file.content, "").rules
]


def cases(kind: str) -> list[tuple[str, str]]:
    return [(rule.id, text) for rule in WRITTEN for text in getattr(rule.examples, kind)]


@pytest.mark.parametrize(("identifier", "example"), cases("match"))
def test_example_matches(identifier: str, example: str) -> None:
    example = example.replace("¦", "")
    text = example.replace("⟦", "").replace("⟧", "")
    result = REDACTOR.redact(text)
    assert PATTERN.sub("⟦⟧", result.text) == MARKED.sub("⟦⟧", example)
    assert sum(result.counts.values()) == len(MARKED.findall(example))


@pytest.mark.parametrize(("identifier", "example"), cases("match"))
def test_example_matches_by_its_rule_alone(identifier: str, example: str) -> None:
    alone = Redactor(LIBRARY_KEY, [each for each in RULES if each.id == identifier])
    text = example.replace("¦", "").replace("⟦", "").replace("⟧", "")
    assert alone.redact(text).counts.get(identifier, 0) >= 1


@pytest.mark.parametrize(("identifier", "example"), cases("no_match"))
def test_counter_example_stays(identifier: str, example: str) -> None:
    text = example.replace("¦", "")
    assert REDACTOR.redact(text).text == text


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.id)
def test_rule_has_examples_of_both_kinds(written: SecretRule) -> None:
    assert written.examples.match
    assert written.examples.no_match


def test_ids_are_unique() -> None:
    assert len({rule.id for rule in WRITTEN}) == len(WRITTEN) == len(RULES)


def test_labels_fit_into_placeholders() -> None:
    assert [each.label for each in RULES if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", each.label)] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"rules": [{"id": "x", "label": "x", "regex": "a(b", "anchors": ["abc"]}]},
            "f.yaml: x: regex: missing ): a(b",
        ),
        (
            {"rules": [{"id": "x", "regex": "abc", "anchors": ["ab"]}]},
            "f.yaml: x: anchors[0]: got 'ab', allowed: a text of 3 characters at least",
        ),
        (
            {"rules": [{"id": "x", "regex": "abc", "anchors": ["abc"], "colour": 1}]},
            "f.yaml: x: colour: unknown key, allowed: id, regex, anchors, label, ",
        ),
        (
            {"rules": [{"id": "x", "regex": "abc", "anchors": ["abc"], "value": "red"}]},
            "f.yaml: x: value: got 'red', allowed: password or opaque or certain or given or basic",
        ),
        (
            {"rules": [{"id": "x", "anchors": ["abc"]}]},
            "f.yaml: x: regex: missing, allowed: a pattern of RE2",
        ),
        (["x"], "f.yaml: rules: got a list, allowed: a mapping with a list rules"),
    ],
)
def test_wrong_rule_is_refused_in_one_line(content: object, message: str) -> None:
    with pytest.raises(RuleError, match=re.escape(message)) as caught:
        list(rule.parse("f.yaml", content))
    assert "\n" not in str(caught.value)
