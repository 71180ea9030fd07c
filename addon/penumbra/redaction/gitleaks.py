"""Rules of a user's `gitleaks.toml`, beside ours or instead of them.

Supported: id, regex, keywords, entropy, secretGroup, allowlists of values (regexes with
regexTarget secret, match or line; stopwords; condition), at the top and in rules. A rule that only
names paths, and a pattern that is not linear, are left out; `warnings` says so.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import re2

from penumbra.redaction import RuleError
from penumbra.redaction.rule import Allow, Rule, compile_pattern
from penumbra.redaction.span import Rank
from penumbra.rule_schemas.schema import reason

_LABEL = re.compile(r"[^a-z0-9]+")
_LONGEST_LABEL = 40


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file held."""

    rules: tuple[Rule, ...]
    use_default: bool
    """The file extends the default rules: ours stay."""
    disabled: frozenset[str] = field(default_factory=frozenset)
    """Ids of rules that the file switches off."""
    warnings: tuple[str, ...] = ()
    """One line for each thing that was left out."""


def load(text: str, name: str = "gitleaks.toml") -> Loaded:
    """The rules of a file's text. Raises RuleError if it is no TOML or has no usable form."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{name}: {error}") from None
    extend = content.get("extend", {})
    entries = content.get("rules", [])
    if not isinstance(entries, list) or not isinstance(extend, dict):
        raise RuleError(f"{name}: rules must be a list, extend a table")
    warnings: list[str] = []
    shared = _allows(content, name, warnings)
    rules = [rule for entry in entries if (rule := _rule(entry, name, shared, warnings))]
    disabled = frozenset(map(str, extend.get("disabledRules", ())))
    return Loaded(tuple(rules), bool(extend.get("useDefault", False)), disabled, tuple(warnings))


def _rule(entry: Mapping[str, Any], name: str, shared: tuple[Allow, ...], warnings: list[str]) -> Rule | None:
    identifier = str(entry.get("id", ""))
    if not identifier:
        raise RuleError(f"{name}: a rule without id")
    regex = entry.get("regex")
    if not isinstance(regex, str) or not regex:
        warnings.append(f"{name}: rule {identifier}: no regex, left out")
        return None
    try:
        pattern = compile_pattern(regex)
    except re2.error as error:
        warnings.append(f"{name}: rule {identifier}: {reason(error)}, left out")
        return None
    group = int(entry.get("secretGroup", 0))
    if group > pattern.groups:
        raise RuleError(f"{name}: rule {identifier}: no group {group}")
    return Rule(
        id=identifier,
        label=_LABEL.sub("-", identifier.lower()).strip("-")[:_LONGEST_LABEL] or "secret",
        regex=regex,
        anchors=tuple(str(keyword).lower().encode() for keyword in entry.get("keywords", ()) if keyword),
        whole=True,
        rank=Rank.TOKEN,
        group=group,
        first_group=not group,
        boundary=False,
        filler=True,
        entropy=float(entry.get("entropy", 0.0)),
        allows=shared + _allows(entry, f"{name}: rule {identifier}", warnings),
    )


def _allows(entry: Mapping[str, Any], name: str, warnings: list[str]) -> tuple[Allow, ...]:
    lists = [*entry.get("allowlists", ()), *([entry["allowlist"]] if "allowlist" in entry else [])]
    allows = []
    for each in lists:
        if each.get("targetRules"):
            warnings.append(f"{name}: allowlist for single rules, left out")
            continue
        patterns = []
        for regex in each.get("regexes", ()):
            try:
                patterns.append(compile_pattern(str(regex)))
            except re2.error as error:
                warnings.append(f"{name}: allowlist: {reason(error)}, left out")
        stopwords = tuple(str(word).lower() for word in each.get("stopwords", ()))
        every = str(each.get("condition", "OR")).upper() in ("AND", "&&")
        if every and (each.get("paths") or each.get("commits")):
            continue  # Without a path or commit the condition is never met.
        if patterns or stopwords:
            allows.append(Allow(tuple(patterns), stopwords, str(each.get("regexTarget", "secret")), every))
    return tuple(allows)


def merged(ours: Sequence[Rule], loaded: Loaded, *, instead: bool = False) -> list[Rule]:
    """The rules in force: the file's, and ours unless it comes instead of them.

    A file's rule replaces ours of the same id; ids that the file disables are dropped.
    """
    replaced = {rule.id for rule in loaded.rules} | loaded.disabled
    kept = [] if instead else [rule for rule in ours if rule.id not in replaced]
    return [*kept, *(rule for rule in loaded.rules if rule.id not in loaded.disabled)]
