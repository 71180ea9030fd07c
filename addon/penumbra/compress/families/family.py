"""This module makes command families from rules. A family has the shape of its outputs and steps that shorten
them."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2
from msgspec import Struct

from penumbra import rules
from penumbra.compress.calls.family_rules import families
from penumbra.compress.families.patterns import LinearPattern, MakePattern, Pattern
from penumbra.compress.families.steps import Step, step
from penumbra.compress.result import Loss
from penumbra.compress.text import Text
from penumbra.linear import QUIET, utf8
from penumbra.rule_schemas.command_rules import FamilyRule, StepRule

_log = logging.getLogger(__name__)


class FamilyResult(Struct, frozen=True):
    """A `FamilyResult` is a text that the rules of a family shortened."""

    text: str
    loss: Loss
    family: str


@dataclass(frozen=True, slots=True)
class Family:
    """A `Family` is a rule with its patterns and steps, ready for use."""

    rule: FamilyRule
    steps: tuple[Step, ...]
    inner: Pattern | None
    some: Any
    """A pattern that finds any of the lines in the rule's `shape.any`."""
    none: Any
    most: Pattern | None

    @classmethod
    def of(cls, rule: FamilyRule, pattern: MakePattern) -> Family:
        """Return the family of a rule. Raises ValueError, `re.error` or `re2.error` for a bad pattern."""
        return cls(
            rule,
            steps=tuple(_step(at, any_step.rule, pattern) for at, any_step in enumerate(rule.steps)),
            inner=None if rule.inner is None else pattern(rule.inner).needs("command"),
            some=_lines_pattern(rule.shape.some),
            none=_lines_pattern(rule.shape.none),
            most=None if rule.shape.most is None else pattern(rule.shape.most),
        )

    def objection(self, body: str) -> str:
        """Return the first condition of the shape that a text fails; empty if there is none."""
        text = Text.of(body)
        if self.none is not None and self.none.search(text.data):
            return "a line matches shape.none"
        if self.some is not None and not self.some.search(text.data):
            return "no line matches any of shape.any"
        if self.most is None:
            return ""
        lines = [line for line in text.lines if line.strip()]
        if lines and len(self.most.places(lines)) >= self.rule.shape.share * len(lines):
            return ""
        return "too few lines match shape.most"

    def known_lines(self, lines: Sequence[str]) -> list[int]:
        """Return the positions of the lines that only this family writes, or else of lines that announce a
        command; empty if the rule is not `distinct`."""
        if not self.rule.distinct:
            return []
        if self.some is not None:
            return [at for at, line in enumerate(lines) if self.some.match(utf8(line))]
        return [] if self.inner is None else self.inner.places(lines)


def _step(number: int, rule: StepRule, pattern: MakePattern) -> Step:
    try:
        return step(rule, pattern)
    except (re.error, re2.error, ValueError) as error:
        raise ValueError(f"steps[{number}]: {error}") from None


@rules.until_changed
@cache
def family(name: str) -> Family | None:
    """Return the family with this name; None if there is no such family. A bad rule is logged in one line."""
    named = families().get(name)
    if named is None:
        return None
    try:
        return Family.of(named.rule, LinearPattern if named.is_users else Pattern)
    except (re.error, re2.error, ValueError) as error:
        _log.warning("Penumbra leaves a rule out: command family %s: %s", name, error)
        return None


def _lines_pattern(sources: Sequence[str]) -> Any:
    """Return one linear-time pattern that finds any of these lines in a text; None without sources."""
    if not sources:
        return None
    ended = (source[:-1] + r"\r?$" if source.endswith("$") else source for source in sources)
    return re2.compile(("(?m)^(?:" + "|".join(f"(?:{source})" for source in ended) + ")").encode(), QUIET)
