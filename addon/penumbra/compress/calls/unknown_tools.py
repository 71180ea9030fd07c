"""What a tool of an unknown name does, by its arguments.

Agents name their tools as they like, but call a path, a range of lines, an old text, a pattern much the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penumbra import rules
from penumbra.compress.calls.tools import tool_rules
from penumbra.linear import Linear
from penumbra.rule_schemas.tool_rules import Category, UnknownToolRule

_LOOKED_AT = 1_000
"""Characters of an argument, and of a name, that are looked at."""
_NOTHING: tuple[Any, ...] = (None, "", [], {}, False)
"""What is given where nothing is."""


def category(name: str, arguments: Any) -> Category:
    """The category of a tool by its arguments; `"other"` if they don't tell.

    `arguments`: a mapping, the text that a freeform tool gets, or nothing.
    """
    if isinstance(arguments, str):
        return next((kind for kind, holds in _freeform() if _is_in(holds, arguments)), "other")
    if not isinstance(arguments, Mapping) or not arguments:
        return "other"
    given = {_plain(key): value for key, value in arguments.items() if value not in _NOTHING}
    return next((rule.category for rule in _rules() if rule.fits(name, given)), "other")


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule, its kinds of arguments told by their names."""

    category: Category
    given: tuple[tuple[tuple[str, ...], Linear | None], ...]
    allowed: frozenset[str]
    """All arguments that may be given; empty: any may."""
    unless: Linear | None

    def fits(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a call of a tool of this name is such a one; `arguments` by their plain names."""
        if self.allowed and not self.allowed.issuperset(arguments):
            return False
        for keys, holds in self.given:
            value = next((arguments[key] for key in keys if key in arguments), None)
            if value is None or (holds and not _is_in(holds, _text(value))):
                return False
        return self.unless is None or not _is_in(self.unless, name)


def _plain(key: str) -> str:
    """A name as all spell it: `file_path`, `filePath`, `FilePath`."""
    return key.replace("_", "").replace("-", "").casefold()


def _text(value: Any) -> str:
    """An argument as text; of several the first."""
    return str(value[0] if isinstance(value, list) else value)


def _is_in(pattern: Linear, text: str) -> bool:
    return pattern.search(text[:_LOOKED_AT].encode("utf-8", "replace")) is not None


@rules.cached
def _rules() -> tuple[_Rule, ...]:
    return tuple(map(_read, tool_rules().unknown.rules))


@rules.cached
def _freeform() -> tuple[tuple[Category, Linear], ...]:
    return tuple((kind, Linear(holds.encode())) for kind, holds in tool_rules().unknown.freeform.items())


def _read(rule: UnknownToolRule) -> _Rule:
    kinds = {kind: tuple(map(_plain, keys)) for kind, keys in tool_rules().unknown.kinds.items()}
    given = tuple(
        (kinds[kind], Linear(holds.encode()) if holds else None) for kind, holds in rule.given.items()
    )
    named = (*rule.given, *rule.only) if rule.only else ()
    return _Rule(
        rule.category,
        given,
        frozenset(key for kind in named for key in kinds[kind]),
        Linear(rule.unless.encode()) if rule.unless else None,
    )
