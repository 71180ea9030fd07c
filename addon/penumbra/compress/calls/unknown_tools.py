"""This module finds the category of a tool with an unknown name, by its arguments, its name and its
result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penumbra import rules
from penumbra.compress import token_estimate
from penumbra.compress.calls import log_files
from penumbra.compress.calls.tools import tool_rules
from penumbra.compress.critical_lines import Severity
from penumbra.compress.failure_lines import FailureLines
from penumbra.linear import Linear, utf8
from penumbra.rule_schemas.tool_rules import Category, UnknownToolRule

_LOOKED_AT = 1_000
"""At most this number of characters at the beginning of an argument is examined."""
_LONGEST_NAME = 200
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def category(name: str, arguments: Mapping[str, Any]) -> Category:
    """Return the category of a tool by its arguments and its name; `"other"` without arguments or if no rule
    fits."""
    texts = {_plain(key): text for key, value in arguments.items() if (text := _text(value)) is not None}
    if not texts:
        return "other"
    words = _words(name) if len(name) <= _LONGEST_NAME else ""
    return next((rule.category for rule in _rules() if rule.fits(words, texts)), "other")


_MOST_TOKENS = 6_000
"""A text with more estimated tokens is no file if it states a failure."""
_COUNTED = 8
"""At least this number of consecutive line numbers shows a file."""
_NUMBER = re.compile(r"[ \t]{0,8}L?([0-9]{1,7})(?:→|\t|:|[ ]?\||\.(?: |$))")
"""The number that a tool may write before a line."""
_HEADING = 4
"""A tool may name a file in this number of lines above the text of the file."""


def shows_file(name: str, text: str, path: str) -> bool:
    """Return whether the result of an unknown tool is probably the file at `path`, which an argument names. A
    file has numbered lines, or is no JSON and no log and does not name itself. A long text that states a
    failure is the output of a program. A tool whose name has a word for another action shows no file."""
    if _is_in(_actions(), _words(name[:_LONGEST_NAME])):
        return False
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    numbers = [int(match[1]) for match in map(_NUMBER.match, filled) if match is not None]
    if len(numbers) >= _COUNTED and numbers[-1] - numbers[0] == len(numbers) - 1:
        return 10 * len(numbers) >= 9 * len(filled)
    named = path.replace("\\", "/").rpartition("/")[2]
    if text.lstrip()[:1] in ("{", "[") or named in "\n".join(lines[_HEADING:]) or log_files.is_log("", text):
        return False
    return token_estimate.estimate(text) <= _MOST_TOKENS or not FailureLines.of(
        utf8(text), is_stated=True
    ).without(b"", Severity.COMPLAINT)


@rules.cached
def _actions() -> Linear:
    return Linear((tool_rules().unknown.actions or "$^").encode())


@dataclass(frozen=True, slots=True)
class _Rule:
    """A `_Rule` is one rule, ready for use."""

    category: Category
    given: tuple[tuple[tuple[str, ...], Linear | None], ...]
    allowed: frozenset[str]
    """The only arguments that the call may have; empty if any arguments are allowed."""
    named: Linear | None
    unless: Linear | None

    def fits(self, words: str, texts: Mapping[str, str]) -> bool:
        """True if the rule fits a call. `words` are the words of the tool's name. `texts` has the texts of
        the arguments by their plain names."""
        if self.allowed and not self.allowed.issuperset(texts):
            return False
        for keys, holds in self.given:
            value = next((texts[key] for key in keys if key in texts), None)
            if value is None or (holds and not _is_in(holds, value)):
                return False
        return (self.named is None or _is_in(self.named, words)) and not (
            self.unless and _is_in(self.unless, words)
        )


def _plain(key: str) -> str:
    """Return one spelling for `file_path`, `filePath` and `FilePath`."""
    return key.replace("_", "").replace("-", "").casefold()


def _text(value: Any) -> str | None:
    """Return an argument's text, or the text of a list's first item. Return None for an empty argument, and
    `""` for a value without text."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        return value[:_LOOKED_AT] or None
    # The content of any other value does not matter.
    return None if value is None or value is False or value in ([], {}) else ""


@lru_cache(maxsize=512)
def _words(name: str) -> str:
    """Return the lower-case words of a tool's name. The name of an MCP tool is without its server."""
    return _HUMPS.sub(" ", name.rsplit("__", 1)[-1]).casefold()


def _is_in(pattern: Linear, text: str) -> bool:
    return pattern.search(text.encode("utf-8", "replace")) is not None


@rules.cached
def _rules() -> tuple[_Rule, ...]:
    return tuple(map(_read, tool_rules().unknown.rules))


def _read(rule: UnknownToolRule) -> _Rule:
    kinds = {kind: tuple(map(_plain, keys)) for kind, keys in tool_rules().unknown.kinds.items()}
    asked = (*rule.given, *rule.only) if rule.only else ()
    return _Rule(
        rule.category,
        tuple((kinds[kind], _pattern(holds)) for kind, holds in rule.given.items()),
        frozenset(key for kind in asked for key in kinds[kind]),
        _pattern(rule.named),
        _pattern(rule.unless),
    )


def _pattern(holds: str) -> Linear | None:
    return Linear(holds.encode()) if holds else None
