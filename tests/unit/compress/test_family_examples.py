"""Every example in rules/commands, and laws that hold for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import re2

from penumbra import rules
from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.match import families
from penumbra.compress.calls.tools import category
from penumbra.compress.families.shorten import apply
from penumbra.compress.result import Loss
from penumbra.compress.size import size

EXAMPLES: list[dict[str, Any]] = [
    example for _, content in rules.load_folder("commands") for example in content.get("examples", ())
]
CHANGED = [example for example in EXAMPLES if example["gives"] is not None]


def call_of(example: dict[str, Any]) -> Call:
    """The call of an example: a tool's name, or a command line."""
    line = example["call"]
    if category(line) in ("grep", "glob", "list"):
        return classify(line, {})
    return classify("Bash", {"command": line})


def name_of(example: dict[str, Any]) -> str:
    return f"{example['family']}: {example['call']}"[:60]


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_example(example: dict[str, Any]) -> None:
    call = call_of(example)
    assert call.family == example["family"]
    result = apply(example["text"], call, lossy=example.get("lossy", False))
    if example["gives"] is None:
        assert result is None
        return
    assert result is not None
    assert result.text == example["gives"]
    assert result.loss == Loss[example["loss"].upper()]
    assert result.family == example.get("as", example["family"])


def test_every_family_has_an_example() -> None:
    assert {example["family"] for example in EXAMPLES} >= {family["name"] for family in families()}


def test_names_are_unique() -> None:
    names = [family["name"] for family in families()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
@pytest.mark.parametrize("lossy", [False, True])
def test_never_grows_and_says_what_is_lost(example: dict[str, Any], lossy: bool) -> None:
    result = apply(example["text"], call_of(example), lossy=lossy)
    if result is None:
        return
    assert size(result.text) < size(example["text"])
    assert lossy or result.loss < Loss.LOSSY
    if result.loss is Loss.LOSSY:
        assert any(line.strip().startswith("[") for line in result.text.split("\n"))


@pytest.mark.parametrize("example", CHANGED, ids=name_of)
def test_line_ends_of_windows(example: dict[str, Any]) -> None:
    """The same lines go and stay whatever ends them."""
    result = apply(example["text"].replace("\n", "\r\n"), call_of(example), lossy=example.get("lossy", False))
    assert result is not None
    assert [line.rstrip() for line in result.text.split("\n")] == [
        line.rstrip() for line in example["gives"].split("\n")
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_another_commands_output_is_left_alone(example: dict[str, Any]) -> None:
    """A text that has not the family's shape: prose, a listing of code."""
    prose = "".join(
        f"Paragraph {number} of a letter that no program wrote, dear reader.\n" for number in range(30)
    )
    result = apply(prose, call_of(example), lossy=True)
    assert result is None


@pytest.mark.parametrize("example", CHANGED, ids=name_of)
def test_nothing_is_left_to_do(example: dict[str, Any]) -> None:
    """What came out once stays as it is."""
    assert apply(example["gives"], call_of(example), lossy=example.get("lossy", False)) is None


HIDES_WHOLE_BLOCKS = {"git-diff", "vitest", "jest", "bun-test", "package-script"}
"""Families that leave out blocks of text that isn't theirs: generated files, output of passing tests."""


@pytest.mark.parametrize(
    "example", [e for e in CHANGED if e["family"] not in HIDES_WHOLE_BLOCKS], ids=name_of
)
def test_errors_anywhere_survive(example: dict[str, Any]) -> None:
    lines = example["text"].split("\n")
    for period in (1, 5):
        text = "".join(
            line + "\n" + (f"error: {number} went wrong\n" if number % period == 0 else "")
            for number, line in enumerate(lines)
        )
        result = apply(text, call_of(example), lossy=True)
        kept = text if result is None else result.text
        wanted = [f"error: {number} went wrong" for number in range(0, len(lines), period)]
        assert [line.strip() for line in kept.split("\n") if "went wrong" in line] == wanted


def patterns(rule: Any) -> list[str]:
    """All patterns in a family's rule."""
    keys = {
        "fold",
        "group",
        "hoist",
        "same",
        "drop",
        "rewrite",
        "block",
        "context",
        "near",
        "until",
        "from",
        "also",
        "through",
        "inner",
        "most",
        "any",
        "none",
        "counts",
        "unless",
    }
    found: list[str] = []
    for key, value in rule.items() if isinstance(rule, dict) else ():
        if key in keys and isinstance(value, str):
            found.append(value)
        elif key in keys and isinstance(value, list):
            found += value
        elif key == "counts":
            found += value.values()
        elif isinstance(value, dict):
            found += patterns(value)
        elif isinstance(value, list):
            found += [pattern for entry in value for pattern in patterns(entry)]
    return found


@pytest.mark.parametrize("rule", families(), ids=lambda rule: rule["name"])
def test_patterns_need_no_backtracking(rule: dict[str, Any]) -> None:
    """No look-around and no back-references: RE2 takes every pattern."""
    found = patterns({key: value for key, value in rule.items() if key not in ("match", "unless")})
    assert found or not rule.get("steps")
    for pattern in found:
        assert re2.compile(pattern) is not None
        assert not pattern.startswith("^")


DIGEST = """
import hashlib, sys
from penumbra import rules
from penumbra.compress.calls.classify import classify
from penumbra.compress.families.shorten import apply
digest = hashlib.sha256()
for _, content in rules.load_folder("commands"):
    for example in content.get("examples", ()):
        digest.update(repr(apply(example["text"], classify("Bash", {"command": example["call"]}), lossy=True)).encode())
print(digest.hexdigest())
"""


def test_the_same_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 64
