"""What kind of tool a name stands for, whichever agent uses it and whichever API carries it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from penumbra import rules
from penumbra.short_texts import remembered

CATEGORIES = frozenset(
    {"read", "edit", "write", "bash", "glob", "list", "grep", "web", "subagent", "plan", "other"}
)


@cache
def table() -> Mapping[str, Any]:
    """The content of rules/tools.yaml."""
    loaded: dict[str, Any] = rules.load("tools.yaml")
    return loaded


@cache
def _names() -> tuple[dict[str, str], dict[str, str]]:
    """Tool name -> category, as spelled and case-folded."""
    exact: dict[str, str] = {}
    for categories in table()["agents"].values():
        for category_name, tools in categories.items():
            exact.update((tool, category_name) for tool in tools)
    folded: dict[str, str] = {}
    for name, category_name in exact.items():
        folded.setdefault(name.casefold(), category_name)
    return exact, folded


@remembered(4_096)
def category(name: str) -> str:
    """The category of a tool, `name` as the agent spells it; `"other"` if nothing is known."""
    exact, folded = _names()
    found = exact.get(name) or folded.get(name.casefold())
    if found:
        return found
    lowered = name.casefold()
    if lowered.startswith(tuple(table()["mcp_prefixes"])):
        for rule in table()["mcp"]:
            if fnmatchcase(lowered, rule["glob"]):
                return str(rule["category"])
    return "other"


@remembered(4_096)
def skips(name: str, skip_tools: frozenset[str]) -> bool:
    """True if the operator excluded this tool.

    An entry is a category in any case (`read`, `Edit`), the exact name of a tool as the agent
    spells it, or a glob over such names (`mcp__github__*`).
    """
    kind = category(name)
    return any(_entry_matches(entry, name, kind) for entry in skip_tools)


def _entry_matches(entry: str, name: str, kind: str) -> bool:
    word = entry.strip().casefold()
    word = table()["synonyms"].get(word, word)
    if word in CATEGORIES and word == kind:
        return True
    return bool(name) and fnmatchcase(name, entry.strip())


def verb(name: str, arguments: Mapping[str, Any]) -> str | None:
    """The category of a call to a tool that does several things, or None if it is no such tool."""
    rule = _verbs().get(name)
    value = arguments.get(rule["argument"]) if rule is not None else None
    found = rule["values"].get(value) if rule is not None and isinstance(value, str) else None
    return None if found is None else str(found)


@cache
def _verbs() -> dict[str, Mapping[str, Any]]:
    """By name of the tool; the first rule of each holds."""
    return {tool: rule for rule in reversed(table()["verbs"]) for tool in rule["tools"]}


def first_of(arguments: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The first value among `keys` that is a non-empty string or list; None if there is none."""
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, str | list) and value:
            return value
    return None
