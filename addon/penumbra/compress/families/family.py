"""A command family, made of its rule: the shape of its texts, and the steps that shorten them."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from penumbra import rules
from penumbra.compress.calls.family_rules import families
from penumbra.compress.families.patterns import LinearPattern, MakePattern, Pattern
from penumbra.compress.families.steps import Step, step
from penumbra.compress.result import Loss
from penumbra.compress.size import encode
from penumbra.compress.text import Text
from penumbra.rule_schemas.command_rules import FamilyRule, ShapeRule, StepRule

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """A text that its family shortened."""

    text: str
    loss: Loss
    family: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Conditions for a text to belong to a family."""

    some: Any
    most: Pattern | None
    share: float
    none: Any

    @classmethod
    def of(cls, rule: ShapeRule, pattern: MakePattern) -> Shape:
        """From its rule."""
        return cls(
            some=_lines_pattern(rule.some),
            most=None if rule.most is None else pattern(rule.most),
            share=rule.share,
            none=_lines_pattern(rule.none),
        )

    def confirms(self, body: str) -> bool:
        """True if the text may be of the family."""
        return not self.objection(body)

    def objection(self, body: str) -> str:
        """The first condition that a text fails; empty if there is none."""
        data = Text.of(body).data
        if self.none is not None and self.none.search(data):
            return "a line matches shape.none"
        if self.some is not None and not self.some.search(data):
            return "no line matches any of shape.any"
        if self.most is None:
            return ""
        lines = [line for line in Text.of(body).lines if line.strip()]
        if lines and len(self.most.places(lines)) >= self.share * len(lines):
            return ""
        return "too few lines match shape.most"


@dataclass(frozen=True, slots=True)
class Family:
    """One family."""

    name: str
    shape: Shape
    steps: tuple[Step, ...]
    selected: bool
    min_bytes: int
    inner: Pattern | None
    distinct: bool
    fallback: tuple[str, ...]

    @classmethod
    def of(cls, rule: FamilyRule, pattern: MakePattern) -> Family:
        """From its rule. Raises ValueError for a pattern that can't be used."""
        return cls(
            name=rule.name,
            shape=Shape.of(rule.shape, pattern),
            steps=tuple(_step(at, any_step.rule, pattern) for at, any_step in enumerate(rule.steps)),
            selected=rule.selected,
            min_bytes=rule.min_bytes,
            inner=None if rule.inner is None else pattern(rule.inner).needs("command"),
            distinct=rule.distinct,
            fallback=rule.fallback,
        )

    def known_lines(self, lines: Sequence[str]) -> list[int]:
        """Return the positions of the lines that only this family writes, or that announce a command."""
        if not self.distinct:
            return []
        if self.shape.some is not None:
            return [at for at, line in enumerate(lines) if self.shape.some.match(encode(line))]
        return [] if self.inner is None else self.inner.places(lines)


def _step(number: int, rule: StepRule, pattern: MakePattern) -> Step:
    try:
        return step(rule, pattern)
    except (re.error, re2.error, ValueError) as error:
        raise ValueError(f"steps[{number}]: {error}") from None


@rules.until_changed
@cache
def family(name: str) -> Family | None:
    """The family of this name; None if there is none, or if its rule can't be used (one line in the log)."""
    named = families().get(name)
    if named is None:
        return None
    try:
        return Family.of(named.rule, LinearPattern if named.is_users else Pattern)
    except (re.error, re2.error, ValueError) as error:
        _log.warning("Penumbra leaves a rule out: command family %s: %s", name, error)
        return None


def _lines_pattern(sources: Sequence[str]) -> Any:
    """One linear-time pattern that finds any of these lines in a text; None if there are none."""
    if not sources:
        return None
    ended = (source[:-1] + r"\r?$" if source.endswith("$") else source for source in sources)
    return re2.compile(("(?m)^(?:" + "|".join(f"(?:{source})" for source in ended) + ")").encode())
