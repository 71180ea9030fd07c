"""Every example in rules/commands, and laws that hold for all of them."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from penumbra import rules
from penumbra.compress.calls.family_rules import families
from penumbra.compress.families.examples import call_of, examples, problems
from penumbra.compress.families.shorten import apply
from penumbra.compress.result import Loss
from penumbra.compress.size import size
from penumbra.rule_schemas.command_rules import CommandExample, FamilyRule
from penumbra.rule_schemas.schema import broken_patterns, patterns

EXAMPLES = list(examples())
RULES = [rule for file in rules.load_folder("commands") for rule in file.content["families"]]
CHANGED = [example for example in EXAMPLES if example.gives is not None]


def name_of(example: CommandExample) -> str:
    return f"{example.family}: {example.call}"[:60]


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_example(example: CommandExample) -> None:
    assert list(problems(example)) == []


def test_an_example_that_does_not_hold_is_noticed() -> None:
    good = next(example for example in CHANGED if example.lossy)
    wrong = {
        "family: ": msgspec.structs.replace(good, family="table"),
        "gives: the text was shortened": msgspec.structs.replace(good, gives=None),
        "gives: line 1: ": msgspec.structs.replace(good, gives="x"),
        "gives: the text was left alone": msgspec.structs.replace(good, text="x"),
        "loss: ": msgspec.structs.replace(good, loss="none" if good.loss != "none" else "lossy"),
        "as: ": msgspec.structs.replace(good, shortened_by="table"),
    }
    for beginning, example in wrong.items():
        assert [problem[: len(beginning)] for problem in problems(example)] == [beginning]


def test_every_family_has_an_example() -> None:
    assert {example.family for example in EXAMPLES} >= set(families())


def test_names_are_unique() -> None:
    assert sorted(rule["name"] for rule in RULES) == sorted(families())


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
@pytest.mark.parametrize("lossy", [False, True])
def test_never_grows_and_says_what_is_lost(example: CommandExample, lossy: bool) -> None:
    result = apply(example.text, call_of(example.call), lossy=lossy)
    if result is None:
        return
    assert size(result.text) < size(example.text)
    assert lossy or result.loss < Loss.LOSSY
    if result.loss is Loss.LOSSY:
        assert any(line.strip().startswith("[") for line in result.text.split("\n"))


STEPS = [(rule["name"], step) for rule in RULES for step in rule.get("steps", ())]
MARKERS = [(name, step) for name, step in STEPS if "say" in step]


@pytest.mark.parametrize("step", [one for one in MARKERS if one[1].get("scattered")], ids=str)
def test_a_marker_that_counts_other_places_says_so(step: tuple[str, dict[str, Any]]) -> None:
    """What is read below a heading is read as a part of it."""
    _, rule = step
    is_of_one = bool(rule.get("by")) and f"{{{rule['by']}}}" in rule["say"]
    assert is_of_one or "here and below" in rule["say"]
    # The first block's own head would stand above the count of all blocks.
    assert "block" not in rule or rule.get("head") == 0


@pytest.mark.parametrize("step", MARKERS, ids=str)
def test_a_count_that_may_be_one_has_both_nouns(step: tuple[str, dict[str, Any]]) -> None:
    _, rule = step
    may_be_one = "member" in rule or rule.get("min", 3) == 1 or (rule.get("safe") and "block" in rule)
    counts = ["n", "blocks"] if may_be_one else ["blocks"]
    assert not re.search(rf"\{{(?:{'|'.join(counts)})\}} \w+s\b", rule["say"])


@pytest.mark.parametrize("example", CHANGED, ids=name_of)
def test_line_ends_of_windows(example: CommandExample) -> None:
    """The same lines go and stay whatever ends them."""
    result = apply(example.text.replace("\n", "\r\n"), call_of(example.call), lossy=example.lossy)
    assert result is not None
    assert [line.rstrip() for line in result.text.split("\n")] == [
        line.rstrip() for line in example.gives.split("\n")
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_another_commands_output_is_left_alone(example: CommandExample) -> None:
    """A text that has not the family's shape: prose, a listing of code."""
    prose = "".join(
        f"Paragraph {number} of a letter that no program wrote, dear reader.\n" for number in range(30)
    )
    result = apply(prose, call_of(example.call), lossy=True)
    assert result is None


@pytest.mark.parametrize("example", CHANGED, ids=name_of)
def test_nothing_is_left_to_do(example: CommandExample) -> None:
    """What came out once stays as it is."""
    assert apply(example.gives, call_of(example.call), lossy=example.lossy) is None


@pytest.mark.parametrize(
    "example", [e for e in CHANGED if not families()[e.family].rule.hides_blocks], ids=name_of
)
def test_errors_anywhere_survive(example: CommandExample) -> None:
    lines = example.text.split("\n")
    for period in (1, 5):
        text = "".join(
            line + "\n" + (f"error: {number} went wrong\n" if number % period == 0 else "")
            for number, line in enumerate(lines)
        )
        result = apply(text, call_of(example.call), lossy=True)
        kept = text if result is None else result.text
        wanted = [f"error: {number} went wrong" for number in range(0, len(lines), period)]
        assert [line.strip() for line in kept.split("\n") if "went wrong" in line] == wanted


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_patterns_need_no_backtracking(rule: dict[str, Any]) -> None:
    """No look-around and no back-references: RE2 takes every pattern."""
    found = [pattern for _, pattern in patterns(FamilyRule, rule)]
    assert found or not rule.get("steps")
    assert list(broken_patterns(FamilyRule, rule)) == []
    assert [pattern for pattern in found if pattern.startswith("^")] == []
