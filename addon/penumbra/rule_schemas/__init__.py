"""What rule files may hold: one type for each of them."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from penumbra.rule_schemas.schema import RuleError, Strict

_PLACES = {
    "advisories.yaml": ("own_tables", "Advisories"),
    "compaction.yaml": ("own_tables", "Compaction"),
    "credentials.yaml": ("own_tables", "Credentials"),
    "dollars.yaml": ("own_tables", "Dollars"),
    "files.yaml": ("own_tables", "Files"),
    "history.yaml": ("own_tables", "History"),
    "inline_tools.yaml": ("own_tables", "InlineTools"),
    "logs.yaml": ("shell_rules", "LogRules"),
    "prices.yaml": ("own_tables", "Prices"),
    "printed_secrets.yaml": ("secret_rules", "PrintedSecrets"),
    "providers.yaml": ("providers", "Providers"),
    "refusals.yaml": ("own_tables", "Refusals"),
    "results.yaml": ("providers", "Results"),
    "sessions.yaml": ("own_tables", "Sessions"),
    "shell.yaml": ("shell_rules", "ShellRules"),
    "strategies.yaml": ("own_tables", "Strategies"),
    "thinking.yaml": ("own_tables", "Thinking"),
    "tools.yaml": ("tool_rules", "Tools"),
    "unused_tools.yaml": ("own_tables", "UnusedTools"),
    "user_results.yaml": ("providers", "UserResults"),
    "windows.yaml": ("own_tables", "Windows"),
    "secrets/words/hints.yaml": ("secret_rules", "Hints"),
    "secrets/words/names.yaml": ("secret_rules", "Names"),
    "secrets/words/prefixes.yaml": ("secret_rules", "Prefixes"),
    "secrets/words/records.yaml": ("secret_rules", "Records"),
    "secrets/words/values.yaml": ("secret_rules", "Values"),
    "commands/": ("command_rules", "CommandFile"),
    "secrets/": ("secret_rules", "SecretFile"),
}
"""Name of a file, or of a folder of files -> module of this package and class."""


@cache
def schema_of(name: str) -> type[Strict]:
    """The type of a file, `name` relative to the rules folder. Raises RuleError if there is no such file."""
    folder, slash, _ = name.rpartition("/")
    place = _PLACES.get(name) or _PLACES.get(folder + slash)
    if place is None:
        raise RuleError(f"{name}: no file of this name is read, allowed: {', '.join(_PLACES)}")
    kind: type[Strict] = getattr(import_module(f"{__name__}.{place[0]}"), place[1])
    return kind


def names() -> tuple[str, ...]:
    """All names that `schema_of` knows; those of folders end in a slash."""
    return tuple(_PLACES)


__all__ = ["RuleError", "names", "schema_of"]
