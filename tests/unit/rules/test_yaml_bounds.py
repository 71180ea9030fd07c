"""A YAML file of the user's that no parser bears is an error of that file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penumbra import rules, yaml_bounds
from penumbra.config.parsers import SettingsError
from penumbra.config.settings import load
from penumbra.rule_schemas import RuleError


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "- " * 100_000, "{a: " * 100_000, "? " * 100_000])
def test_what_is_nested_too_deep(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text(text)
    with pytest.raises(RuleError, match=r"^x: no YAML: nested deeper than 100$"):
        rules.parse(path, "x")
    with pytest.raises(SettingsError, match="nested deeper than 100"):
        load({}, {}, str(path))


def test_what_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text("#" * (yaml_bounds.MOST_BYTES + 1))
    with pytest.raises(RuleError, match="more than 4,000,000 bytes"):
        rules.parse(path, "x")
    path.write_text("#" * yaml_bounds.MOST_BYTES)
    assert rules.parse(path, "x") is None


def test_what_is_within_the_bounds_is_read(tmp_path: Path) -> None:
    path = tmp_path / "usual.yaml"
    depth = yaml_bounds.DEEPEST - 1
    path.write_text("a: " + "[" * depth + "]" * depth + "\r\nb: '[[[['\n")
    assert rules.parse(path, "x")["b"] == "[[[["
