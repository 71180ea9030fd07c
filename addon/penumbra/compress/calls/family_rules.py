"""This module reads the rules in rules/commands. The package `compress.families` applies them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from penumbra import rules
from penumbra.rule_schemas.command_rules import FamilyRule, GroupRule, HoistRule
from penumbra.rule_schemas.schema import entries

_log = logging.getLogger(__name__)


class NamedFamily(NamedTuple):
    """A `NamedFamily` is a family rule with its origin."""

    rule: FamilyRule
    is_users: bool


@rules.cached
def families() -> Mapping[str, NamedFamily]:
    """Return all family rules by name, in file order, the user's rules before Penumbra's. A rule that the
    schema does not allow is logged in one line and left out."""
    by_name: dict[str, NamedFamily] = {}
    for file in rules.load_folder("commands"):
        listed, problems = entries(FamilyRule, file.content, "families", "name", file.name)
        for problem in problems:
            _log.warning("Penumbra leaves a rule out: %s", problem)
        for rule in listed:
            by_name.setdefault(rule.name, NamedFamily(rule, file.is_users))
    return by_name


def prints(family: str) -> str:
    """Return the kind of output: `run`, `names`, `texts` or `states`; empty for an unknown family."""
    named = families().get(family)
    return "" if named is None else named.rule.prints


@rules.cached
def grouping() -> frozenset[str]:
    """Return the families with a step that writes a heading for several lines."""
    return frozenset(
        name
        for name, (rule, _) in families().items()
        if any(isinstance(step.rule, GroupRule | HoistRule) for step in rule.steps)
    )
