"""What rule files may hold: one type for each of them."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from penumbra.rule_schemas.base import RuleError, Strict

_PLACES = {
    "advisories.yaml": ("tables", "Advisories"),
    "compaction.yaml": ("tables", "Compaction"),
    "credentials.yaml": ("tables", "Credentials"),
    "dollars.yaml": ("tables", "Dollars"),
    "files.yaml": ("tables", "Files"),
    "history.yaml": ("tables", "History"),
    "logs.yaml": ("shell", "LogRules"),
    "prices.yaml": ("tables", "Prices"),
    "printed_secrets.yaml": ("secrets", "PrintedSecrets"),
    "providers.yaml": ("providers", "Providers"),
    "refusals.yaml": ("tables", "Refusals"),
    "results.yaml": ("providers", "Results"),
    "sessions.yaml": ("tables", "Sessions"),
    "shell.yaml": ("shell", "ShellRules"),
    "strategies.yaml": ("tables", "Strategies"),
    "thinking.yaml": ("tables", "Thinking"),
    "tools.yaml": ("tools", "Tools"),
    "user_results.yaml": ("providers", "UserResults"),
    "windows.yaml": ("tables", "Windows"),
    "secrets/words/hints.yaml": ("secrets", "Hints"),
    "secrets/words/names.yaml": ("secrets", "Names"),
    "secrets/words/prefixes.yaml": ("secrets", "Prefixes"),
    "secrets/words/records.yaml": ("secrets", "Records"),
    "secrets/words/values.yaml": ("secrets", "Values"),
    "commands/": ("commands", "CommandFile"),
    "secrets/": ("secrets", "SecretFile"),
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
