"""Requests and texts in YAML, with holes for the values of a test."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def load(beside: str | Path) -> Any:
    """Return the YAML of a file. The path may have another suffix, as that of a module beside the file."""
    # The loader in C is ten times as fast.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(Path(beside).with_suffix(".yaml").read_text(encoding="utf-8"), loader)


def filled(value: Any, holes: Mapping[str, Any]) -> Any:
    """Return a value in which each hole has its value. A hole within a text takes a text."""
    if isinstance(value, dict):
        return {filled(name, holes): filled(inner, holes) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, holes) for inner in value]
    if not isinstance(value, str) or value in holes:
        return holes[value] if isinstance(value, str) else value
    for hole, inner in holes.items():
        value = value.replace(hole, inner) if isinstance(inner, str) else value
    return value
