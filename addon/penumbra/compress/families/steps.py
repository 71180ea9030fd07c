"""The steps of a family rule: each takes lines and gives lines back.

A step is made from its YAML form (rules/commands/README.md says what may stand there) and tells
what is lost by it. All steps walk over the lines once; a line above `LINE_LIMIT` characters is
never matched, so the cost is linear in the text whatever a rule's pattern is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penumbra.compress.families.omissions import Block, Context, Fold, Member
from penumbra.compress.families.patterns import Pattern, Span
from penumbra.compress.families.rearrangements import Group, Hoist, Same, drop, rewrite
from penumbra.compress.result import Loss


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a family."""

    loss: Loss
    run: Callable[[list[str]], list[str]]
    """Gives the lines themselves back, unchanged, where it has nothing to do."""
    span: Span | None = None
    unless: Pattern | None = None
    """A line that keeps the step from running, wherever in the text it stands."""

    def apply(self, lines: list[str]) -> list[str]:
        """The lines after the step; only those inside the span are shown to it."""
        if self.unless is not None and any(self.unless.matches(lines)):
            return lines
        if self.span is None:
            return self.run(lines)
        out: list[str] = []
        done = 0
        for start, end in self.span.ranges(lines):
            out += lines[done:start]
            out += self.run(lines[start:end])
            done = end
        return out + lines[done:]


_LOSSES = {"none": Loss.NONE, "reversible": Loss.REVERSIBLE, "lossy": Loss.LOSSY}
_DEFAULT_LOSS = {
    "drop": Loss.NONE,
    "group": Loss.REVERSIBLE,
    "hoist": Loss.REVERSIBLE,
    "same": Loss.REVERSIBLE,
    "fold": Loss.LOSSY,
    "block": Loss.LOSSY,
    "context": Loss.LOSSY,
    "member": Loss.LOSSY,
}


def step(rule: Mapping[str, Any]) -> Step:
    """A step from its YAML form. Raises KeyError or re.error for a broken rule."""
    makers: dict[str, Callable[[Pattern, Mapping[str, Any]], Callable[[list[str]], list[str]]]]
    makers = {
        "fold": _fold,
        "group": _group,
        "hoist": _hoist,
        "block": _block,
        "same": _same,
        "context": _context,
        "member": _member,
    }
    kind = next((name for name in (*makers, "drop", "rewrite") if name in rule), "")
    pattern = Pattern(rule[kind])
    if kind in makers:
        run = makers[kind](pattern, rule)
    elif kind == "drop":
        run = drop(pattern, bool(rule.get("safe")))
    else:
        run = rewrite(pattern, rule["to"])
    span = _span(rule) if "within" in rule and kind != "context" else None
    loss = _LOSSES[rule["loss"]] if "loss" in rule else _DEFAULT_LOSS[kind]
    return Step(loss, run, span, Pattern(rule["unless"]) if "unless" in rule else None)


def _fold(pattern: Pattern, rule: Mapping[str, Any]) -> Fold:
    return Fold(
        pattern,
        say=rule["say"],
        least=rule.get("min", 3),
        head=rule.get("head", 0),
        tail=rule.get("tail", 0),
        by=rule.get("by", ""),
        safe=rule.get("safe", False),
        blanks=rule.get("blanks", False),
        scattered=rule.get("scattered", False),
    )


def _group(pattern: Pattern, rule: Mapping[str, Any]) -> Group:
    return Group(
        pattern,
        also=re.compile(rule["also"]) if "also" in rule else None,
        through=Pattern(rule["through"]) if "through" in rule else None,
        header=rule.get("header", "{key}"),
        line=rule.get("line", " {rest}"),
        least=rule.get("min", 2),
    )


def _hoist(pattern: Pattern, rule: Mapping[str, Any]) -> Hoist:
    return Hoist(pattern, columns=rule["columns"], fields=rule["fields"], least=rule.get("min", 3))


def _span(rule: Mapping[str, Any]) -> Span:
    within = rule["within"]
    return Span(Pattern(within["from"]), Pattern(within["until"]) if "until" in within else None)


def _context(pattern: Pattern, rule: Mapping[str, Any]) -> Context:
    return Context(
        pattern,
        near=Pattern(rule["near"]),
        keep=rule.get("keep", 1),
        span=_span(rule),
        say=rule["say"],
        least=rule.get("min", 3),
    )


def _member(pattern: Pattern, rule: Mapping[str, Any]) -> Member:
    return Member(pattern, rule["path"].split("."), say=rule["say"], least=rule.get("min", 1))


def _same(pattern: Pattern, rule: Mapping[str, Any]) -> Same:
    return Same(pattern, say=rule["say"], least=rule.get("min", 3))


def _block(pattern: Pattern, rule: Mapping[str, Any]) -> Block:
    return Block(
        pattern,
        until=Pattern(rule.get("until", rule["block"])),
        say=rule["say"],
        least=rule.get("min", 3),
        head=rule.get("head", 1),
        safe=rule.get("safe", False),
        scattered=rule.get("scattered", False),
        counts={name: Pattern(source) for name, source in rule.get("counts", {}).items()},
    )
