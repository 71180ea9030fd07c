"""This module makes the steps of a family rule. Each step takes lines and returns lines. docs/rules.md
describes the rules for steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

from penumbra.compress.critical_lines import CriticalLines
from penumbra.compress.families.omissions import Block, Context, Fold, Member
from penumbra.compress.families.patterns import MakePattern, Pattern, Span
from penumbra.compress.families.rearrangements import Group, Hoist, Same, drop, join, nest, rewrite
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
    Within,
)

Run = Callable[[list[str], CriticalLines], list[str]]


@dataclass(frozen=True, slots=True)
class Step:
    """A `Step` is one step of a family: a function, and the lines on which it runs."""

    loss: Loss
    run: Run
    """The function of the step, which must not change the list that it takes."""
    span: Span | None = None
    unless: Pattern | None = None
    """A pattern for lines. If any line of the text matches, the step does not run."""

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


_DEFAULT_LOSS: dict[type[StepRule], Loss] = {
    DropRule: Loss.NONE,
    GroupRule: Loss.REVERSIBLE,
    HoistRule: Loss.REVERSIBLE,
    JoinRule: Loss.REVERSIBLE,
    NestRule: Loss.REVERSIBLE,
    SameRule: Loss.REVERSIBLE,
    FoldRule: Loss.LOSSY,
    BlockRule: Loss.LOSSY,
    ContextRule: Loss.LOSSY,
    MemberRule: Loss.LOSSY,
}


def step(rule: StepRule, pattern: MakePattern = Pattern) -> Step:
    """Return the step of a rule. Raises re.error, re2.error or ValueError for a bad pattern."""
    return Step(
        loss=_DEFAULT_LOSS[type(rule)] if rule.loss is None else Loss[rule.loss.upper()],
        run=_run(rule, pattern),
        # The step `context` handles its span itself.
        span=None if rule.within is None or isinstance(rule, ContextRule) else _span(rule.within, pattern),
        unless=None if rule.unless is None else pattern(rule.unless),
    )


def _span(within: Within, pattern: MakePattern) -> Span:
    return Span(pattern(within.begin), None if within.until is None else pattern(within.until))


def _only(key: str, template: str, *names: str) -> str:
    """Return `template`. Raises ValueError if the template has names other than `names`."""
    return Pattern("").check(key, template, *names)


def _ended(rule: DropRule | FoldRule, lines: Pattern, pattern: MakePattern) -> Pattern | None:
    """Return the pattern of the lines that end a task. Raises ValueError if a pattern has no group `of`."""
    if rule.ended is None:
        return None
    lines.needs("of")
    return pattern(rule.ended).needs("of")


@singledispatch
def _run(rule: StepRule, pattern: MakePattern) -> Run:
    raise TypeError(type(rule).__name__)


@_run.register
def _(rule: DropRule, pattern: MakePattern) -> Run:
    lines = pattern(rule.drop)
    return drop(lines, rule.safe, _ended(rule, lines, pattern))


@_run.register
def _(rule: RewriteRule, pattern: MakePattern) -> Run:
    lines = pattern(rule.rewrite)
    return rewrite(lines, lines.check("to", rule.to))


@_run.register
def _(rule: FoldRule, pattern: MakePattern) -> Run:
    lines = pattern(rule.fold).needs(*([rule.by] if rule.by else []))
    return Fold(
        lines,
        say=lines.check("say", rule.say, "n", prefixes=("first_", "last_", "distinct_", "each_")),
        least=rule.least,
        head=rule.head,
        tail=rule.tail,
        by=rule.by,
        safe=rule.safe,
        blanks=rule.blanks,
        scattered=rule.scattered,
        nested=rule.nested,
        ended=_ended(rule, lines, pattern),
    )


@_run.register
def _(rule: GroupRule, pattern: MakePattern) -> Run:
    _only("header", rule.header, "key")
    _only("line", rule.line, "rest")
    also = None if rule.also is None else pattern(rule.also).needs("rest")
    through = None if rule.through is None else pattern(rule.through)
    return Group(rule, pattern(rule.group).needs("key", "rest"), also, through)


@_run.register
def _(rule: HoistRule, pattern: MakePattern) -> Run:
    return Hoist(rule, pattern(rule.hoist).needs(*rule.columns, *rule.fields))


@_run.register
def _(rule: JoinRule, pattern: MakePattern) -> Run:
    return join(pattern(rule.join), rule.width)


@_run.register
def _(rule: NestRule, pattern: MakePattern) -> Run:
    return nest(pattern(rule.nest).needs("path"))


@_run.register
def _(rule: SameRule, pattern: MakePattern) -> Run:
    _only("say", rule.say, "line", "n")
    return Same(rule, pattern(rule.same))


@_run.register
def _(rule: ContextRule, pattern: MakePattern) -> Run:
    return Context(
        pattern(rule.context),
        near=pattern(rule.near),
        keep=rule.keep,
        span=_span(rule.within, pattern),
        say=_only("say", rule.say, "n"),
        least=rule.least,
    )


@_run.register
def _(rule: MemberRule, pattern: MakePattern) -> Run:
    return Member(
        pattern(rule.member), rule.path.split("."), say=_only("say", rule.say, "n"), least=rule.least
    )


@_run.register
def _(rule: BlockRule, pattern: MakePattern) -> Run:
    lines = pattern(rule.block)
    places = {name: pattern(source).needs(name) for name, source in rule.places.items()}
    ends = [end + name for name in places for end in ("first_", "last_")]
    return Block(
        lines,
        until=pattern(rule.block if rule.until is None else rule.until),
        say=lines.check("say", rule.say, "n", "blocks", *rule.counts, *ends),
        least=rule.least,
        head=rule.head,
        safe=rule.safe,
        scattered=rule.scattered,
        warnings=rule.warnings,
        places=places,
        counts={name: pattern(source) for name, source in rule.counts.items()},
        tells=None if rule.tells is None else pattern(rule.tells),
    )
