"""This module applies a user's `gitleaks.toml`. Its rules are added to Penumbra's own, or replace them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import re2

from penumbra.redaction import RuleError, rule
from penumbra.redaction.names import NAMES
from penumbra.redaction.rule import Allow, Allowed, Rule, compile_pattern, read
from penumbra.redaction.span import Rank
from penumbra.rule_schemas.schema import reason

# These keys of `gitleaks.toml` are supported: id, regex, keywords, entropy, secretGroup, and allowlists.
# Allowlists may be at the top or in rules. An allowlist may have regexes (with regexTarget secret, match or
# line), stopwords and a condition. Rules without a regex, or with a pattern that RE2 cannot compile, are left
# out. `warnings` names each of these rules in one line.
_LABEL = re.compile(r"[^a-z0-9]+")
_LONGEST_LABEL = 40


@dataclass(frozen=True, slots=True)
class Loaded:
    """A `Loaded` is the content of a `gitleaks.toml`."""

    rules: tuple[Rule, ...]
    disabled: frozenset[str] = field(default_factory=frozenset)
    """The ids of rules that the file switches off."""
    warnings: tuple[str, ...] = ()
    """One line for each part of the file that was left out."""


def load(text: str, name: str = "gitleaks.toml") -> Loaded:
    """Return the content of a text. Raises RuleError if it is not TOML or has the wrong structure."""
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
    return Loaded(tuple(rules), disabled, tuple(warnings))


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
            continue  # A condition on paths or commits is never met, because a tool result has none.
        if patterns or stopwords:
            allows.append(Allow(tuple(patterns), stopwords, str(each.get("regexTarget", "secret")), every))
    return tuple(allows)


def merged(ours: Sequence[Rule], loaded: Loaded, *, instead: bool = False) -> list[Rule]:
    """Return the rules of the file and, unless `instead` is true, Penumbra's own rules. A rule of the file
    replaces a rule in `ours` that has the same id. Disabled rules are left out."""
    replaced = {rule.id for rule in loaded.rules} | loaded.disabled
    kept = [] if instead else [rule for rule in ours if rule.id not in replaced]
    return [*kept, *(rule for rule in loaded.rules if rule.id not in loaded.disabled)]


_FINDERS = (
    "cookie dotted-token encoded-secret kubernetes-secret login-list lone-credential prefixed-token"
    " printed-credential printed-secret private-key user-list"
)
"""The ids of the finders that need no name such as `password`."""
_BY_NAME = ("column", "member", "name", "record")
"""The ids of all other finders begin with one of these words. A label follows, as in `name-password`."""


def user_rules(path: str, *, only: bool) -> Loaded | None:
    """Return the content of the user's file, or None if `path` is empty. With `only`, the user's rules
    replace Penumbra's rules. Raises RuleError. The message has one line with the name of the option."""
    if not path:
        if only:
            raise RuleError("penumbra_gitleaks_only: got True, allowed: only with penumbra_gitleaks_config")
        return None
    try:
        loaded = load(Path(path).expanduser().read_text(encoding="utf-8"), path)
    except OSError as error:
        raise RuleError(f"penumbra_gitleaks_config: got {path!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RuleError(f"penumbra_gitleaks_config: got {path!r}: not UTF-8 text") from None
    except RuleError as error:
        raise RuleError(f"penumbra_gitleaks_config: {error}".replace("\n", " ")) from None
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise RuleError(f"penumbra_gitleaks_config: {path}: a value of the wrong type") from None
    if only and not loaded.rules:
        raise RuleError(f"penumbra_gitleaks_config: {path}: no usable rule, and ours are switched off")
    return loaded


def rules(loaded: Loaded | None, *, only: bool) -> tuple[Rule, ...]:
    """Return all rules in force. `loaded` is the result of `user_rules`. Raises RuleError."""
    ours = rule.read()
    return tuple(merged(ours, loaded, instead=only)) if loaded is not None else ours


def allowed(entries: Iterable[str], in_force: Iterable[Rule]) -> Allowed:
    """Return the exceptions of `penumbra_secrets_allow`. Raises RuleError for an invalid entry, and for a
    `rule:` entry that matches no rule."""
    entries = tuple(entries)
    made = Allowed.of(entries)
    if not made.rules:
        return made
    known = sorted({rule.id for rule in in_force} | _ids_of_finders())
    for named in made.rules:
        if not any(made.names(named, identifier) for identifier in known):
            near = get_close_matches(named, known, 1)
            hint = f", did you mean rule:{near[0]}?" if near else ""
            raise RuleError(
                f"penumbra_secrets_allow: got 'rule:{named}', allowed: the id of a rule, as "
                f"`penumbra secrets try` names it, globs allowed{hint}"
            )
    return made


def in_words(kind: str) -> str:
    """Return the readable form of a rule's id, such as `password (login at address)`."""
    found_by, _, rest = kind.partition("-")
    words = (rest if rest and found_by in _BY_NAME else kind).replace("-", " ")
    noun = next((rule.label for rule in read() if rule.id == kind), "").replace("-", " ")
    return f"{noun} ({words})" if noun and noun.split()[-1] not in words.split() else words


def _ids_of_finders() -> set[str]:
    labels = NAMES.labels()
    return {*_FINDERS.split(), *(f"{place}-{label}" for place in _BY_NAME for label in labels)}
