"""How many tokens a model takes, and how many its clients believe that it takes: `rules/windows.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from penumbra import rules
from penumbra.apis.recognise import model_in
from penumbra.short_texts import remembered


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens of a prompt; 0: not known."""

    tokens: int = 0
    believed: int = 0
    """What clients steer by."""


@cache
def table() -> Mapping[str, Any]:
    """The content of rules/windows.yaml."""
    loaded: dict[str, Any] = rules.load("windows.yaml")
    return loaded


def of(model: str, headers: Mapping[str, str], path: str = "") -> Window:
    """What is known of a model's window. `headers` of the request, with names in lower case; `path`: its
    path, for APIs that name the model there."""
    name = (model or model_in(path)).lower()
    if (entry := _entry(name)) is None:
        return Window()
    if "header" in entry and entry["contains"] in headers.get(entry["header"], ""):
        return Window(entry["larger"], entry["larger"])
    tokens = entry.get("window", 0)
    return Window(tokens, entry.get("believed", tokens))


@remembered(256)
def _entry(name: str) -> Mapping[str, Any] | None:
    return next((entry for entry in table()["models"] if fnmatchcase(name, entry["glob"])), None)
