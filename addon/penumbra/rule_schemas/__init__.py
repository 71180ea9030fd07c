"""This package has the schemas of rule files. Files that users can extend have a type, and so do files that
are converted to a type when they are read. All other files are checked only by tests."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from penumbra.rule_schemas.schema import RuleError, Strict

_PLACES = {
    "logs.yaml": ("shell_rules", "LogRules"),
    "providers.yaml": ("providers", "Providers"),
    "shell.yaml": ("shell_rules", "ShellRules"),
    "tools.yaml": ("tool_rules", "ToolRules"),
    "commands/": ("command_rules", "CommandFile"),
    "secrets/": ("secret_rules", "SecretFile"),
}
"""Module in this package and class, by the name of a file or folder."""


@cache
def schema_of(name: str) -> type[Strict]:
    """Return the type of a file. `name` is relative to the rules folder. Raises RuleError for an unknown
    name."""
    folder, slash, _ = name.rpartition("/")
    place = _PLACES.get(name) or _PLACES.get(folder + slash)
    if place is None:
        raise RuleError(f"{name}: no file of this name is read, allowed: {', '.join(_PLACES)}")
    kind: type[Strict] = getattr(import_module(f"{__name__}.{place[0]}"), place[1])
    return kind


def has_schema(name: str) -> bool:
    """Return whether a file has a type. `name` is relative to the rules folder."""
    folder, slash, _ = name.rpartition("/")
    return name in _PLACES or folder + slash in _PLACES


def names() -> tuple[str, ...]:
    """Return all names that `schema_of` knows. Names of folders end in a slash."""
    return tuple(_PLACES)


__all__ = ["RuleError", "has_schema", "names", "schema_of"]
