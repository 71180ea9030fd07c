"""This module reads rules/tools.yaml (the category of a tool by its name), and normalises paths."""

from __future__ import annotations

import ntpath
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, get_args

from penumbra import rules
from penumbra.rule_schemas.tool_rules import Category, ToolRules, VerbRule
from penumbra.short_texts import remembered

CATEGORIES = frozenset(get_args(Category))
_DRIVE = re.compile(r"(?:(?:[/\\]{2}[?.][/\\])?([A-Za-z]):|(?:/cygdrive)?/([A-Za-z])(?=/))[/\\]")
"""The beginning of an absolute Windows path, as Windows programs or POSIX shells write it."""
_SHARE = re.compile(r"\\{2}(?:[?.]\\UNC\\)?", re.IGNORECASE)


@rules.cached
def tool_rules() -> ToolRules:
    """Return the content of rules/tools.yaml."""
    return rules.load_as("tools.yaml", ToolRules)


@rules.cached
def _names() -> tuple[dict[str, Category], dict[str, Category]]:
    """Return the category of each tool, by its name and by its name in lower case."""
    exact: dict[str, Category] = {}
    for categories in tool_rules().agents.values():
        for category_name, tools in categories.items():
            for tool in tools:
                exact.setdefault(tool, category_name)
    folded: dict[str, Category] = {}
    for name, category_name in exact.items():
        folded.setdefault(name.casefold(), category_name)
    return exact, folded


@rules.until_changed
@remembered(4_096)
def category(name: str) -> Category:
    """Return the category of a tool by its name in the agent's spelling; `"other"` if unknown."""
    exact, folded = _names()
    named = exact.get(name) or folded.get(name.casefold())
    if named:
        return named
    if is_mcp(name):
        lowered = name.casefold()
        return next((rule.category for rule in tool_rules().mcp if fnmatchcase(lowered, rule.glob)), "other")
    return "other"


def is_mcp(name: str) -> bool:
    """True if a tool with this name belongs to an MCP server."""
    return name.casefold().startswith(tool_rules().mcp_prefixes)


@rules.until_changed
@remembered(4_096)
def skips(name: str, skip_tools: frozenset[str]) -> bool:
    """True if the operator excluded this tool. An entry is a category (in upper or lower case), the exact
    name of a tool, or a glob (`mcp__github__*`)."""
    kind = category(name)
    return any(_entry_matches(entry, name, kind) for entry in skip_tools)


def _entry_matches(entry: str, name: str, kind: str) -> bool:
    word = entry.strip().casefold()
    word = tool_rules().synonyms.get(word, word)
    if word in CATEGORIES and word == kind:
        return True
    return bool(name) and fnmatchcase(name, entry.strip())


def verb(name: str, arguments: Mapping[str, Any]) -> Category | None:
    """Return the category of a call to one of a tool's functions; None for other tools and unknown
    functions."""
    rule = _verbs().get(name)
    value = arguments.get(rule.argument) if rule is not None else None
    return rule.values.get(value) if rule is not None and isinstance(value, str) else None


@rules.cached
def _verbs() -> dict[str, VerbRule]:
    """Return the rule for each name of a tool. If a name has several rules, the first counts."""
    return {tool: rule for rule in reversed(tool_rules().verbs) for tool in rule.tools}


def first_of(arguments: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """Return the first value among `keys` that is a non-empty string or list; None without such a value."""
    for key in keys:
        value = arguments.get(key)
        if value and isinstance(value, str | list):
            return value
    return None


_LONGEST_HINT = 4_000
"""The length in characters of the longest hint."""


def hint(arguments: Any) -> str:
    """Return the beginning of a call's command, path or freeform input; empty if there is none."""
    if isinstance(arguments, str):
        return arguments[:_LONGEST_HINT]
    if not isinstance(arguments, dict):
        return ""
    if isinstance(arguments.get("action"), dict):
        arguments = arguments["action"]
    keys = tool_rules().arguments
    for key in (*keys.command, *keys.path):
        value = arguments.get(key)
        if isinstance(value, list):
            value = _joined([part for part in value if isinstance(part, str)])
        if isinstance(value, str) and value:
            return value[:_LONGEST_HINT]
    return ""


def _joined(words: list[str]) -> str:
    """Return command lines as lines of one text, or an argument vector as one line."""
    if any("\n" in word or " " in word.strip() for word in words[:1]):
        return "\n".join(words)
    return shlex.join(words)


def one_spelling(path: str) -> str:
    """Return a path in the form in which paths are compared: with slashes, and without `.` and needless `..`.
    Absolute Windows paths get one form. Upper and lower case stay different, except in the drive."""
    drive = _DRIVE.match(path)
    if drive is not None:
        path = f"{(drive[1] or drive[2]).lower()}:/{path[drive.end() :]}"
    elif share := _SHARE.match(path):
        path = f"//{path[share.end() :]}"
    else:
        return posixpath.normpath(path.replace("\\", "/")) if path else ""
    return ntpath.normpath(path).replace("\\", "/")
