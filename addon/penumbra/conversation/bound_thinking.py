"""Whether a model's thinking is bound to what stands before it: `rules/thinking.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from penumbra import rules


@cache
def table() -> Mapping[str, Any]:
    """The content of rules/thinking.yaml."""
    loaded: dict[str, Any] = rules.load("thinking.yaml")
    return loaded


def binds(format_name: str, model: str) -> bool:
    """Whether thinking would be refused whose prefix has changed. `model` as the request names it."""
    if format_name not in table()["formats"]:
        return False
    return not any(fnmatchcase(model.lower(), glob) for glob in table()["unbound"])
