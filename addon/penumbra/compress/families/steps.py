"""This module makes the steps of a family rule. Each step takes lines and returns lines. docs/rules.md
describes the rules for steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penumbra.compress.critical_lines import CriticalLines
from penumbra.compress.families.omissions import BlockStep, Context, Fold, Member
from penumbra.compress.families.patterns import MakePattern, Pattern, Span
from penumbra.compress.families.rearrangements import Group, Hoist, drop, join, nest, rewrite, same
from penumbra.compress.result import Loss
from penumbra.rule_schemas.command_rules import (
    BlockRule,
    ContextRule,
    DropRule,
    FoldRule,
    GroupRule,
    HoistRule,
    JoinRule,
    MemberRule,
    NestRule,
    RewriteRule,
    SameRule,
    StepRule,
)

Run = Callable[[list[str], CriticalLines], list[str]]


@dataclass(frozen=True, slots=True)
class Step:
    """A `Step` is one step of a family: a function, and the lines on which it runs."""

    loss: Loss
    run: Run
    """The step's function. The function must not change the list of lines."""
    span: Span | None = None
    unless: Pattern | None = None
    """The step does not run if this matches any line of the text."""

    def apply(self, lines: list[str], critical: CriticalLines) -> list[str]:
        """Return the lines after the step. The step runs only on the lines in its span."""
        if self.unless is not None and any(self.unless.matches(lines)):
            return lines
        if self.span is None:
            return self.run(lines, critical)
        out: list[str] = []
        done = 0
        for start, end in self.span.ranges(lines):
            out += lines[done:start]
            out += self.run(lines[start:end], critical)
            done = end
        return out + lines[done:]


_KINDS: dict[type[StepRule], tuple[Loss, Callable[[Any, MakePattern], Run]]] = {
    DropRule: (Loss.NONE, drop),
    RewriteRule: (Loss.NONE, rewrite),
    GroupRule: (Loss.REVERSIBLE, Group.of),
    HoistRule: (Loss.REVERSIBLE, Hoist.of),
    JoinRule: (Loss.REVERSIBLE, join),
    NestRule: (Loss.REVERSIBLE, nest),
    SameRule: (Loss.REVERSIBLE, same),
    FoldRule: (Loss.LOSSY, Fold.of),
    BlockRule: (Loss.LOSSY, BlockStep.of),
    ContextRule: (Loss.LOSSY, Context.of),
    MemberRule: (Loss.LOSSY, Member.of),
}
"""The usual loss of each kind of rule, and the function that makes the step."""


def step(rule: StepRule, pattern: MakePattern = Pattern) -> Step:
    """Return the step of a rule. Raises re.error, re2.error or ValueError for a bad pattern."""
    loss, make = _KINDS[type(rule)]
    return Step(
        loss=loss if rule.loss is None else Loss[rule.loss.upper()],
        run=make(rule, pattern),
        # The step `context` handles its span itself.
        span=None if rule.within is None or isinstance(rule, ContextRule) else Span.of(rule.within, pattern),
        unless=None if rule.unless is None else pattern(rule.unless),
    )
