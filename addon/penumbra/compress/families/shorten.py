"""This module shortens a command's output by the rules for the command.

The call determines the family of a text, and the text must have the family's shape. Then the steps of the
family run on the lines. Steps that omit lines run only if allowed, and count only if they save enough. The
rules are in rules/commands, and docs/rules.md describes their language.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penumbra.compress import time_budget
from penumbra.compress.calls.classify import Call
from penumbra.compress.critical_lines import CriticalLines
from penumbra.compress.families.family import Family, FamilyResult, family
from penumbra.compress.families.several_outputs import beside_files, by_announcements, by_seams
from penumbra.compress.families.steps import Step
from penumbra.compress.result import Loss
from penumbra.compress.size import size
from penumbra.compress.text import Text

MIN_LOSSY_LINES = 12
MIN_LOSSY_BYTES = 2_500
"""Lossy steps run on a text with at least this number of lines or at least this number of bytes."""
MIN_LOSSY_GAIN = 300
"""Lossy steps must save at least this number of bytes more than the other steps."""
SCRIPT_LIMIT = 4
"""The greatest depth of announced commands, such as `vitest` below `npm test`."""


def apply(text: str, call: Call, *, lossy: bool) -> FamilyResult | None:
    """Shorten a text by the rules of the call's family; None if no rule applies. With `lossy`, steps that
    omit lines may run. The result has no more UTF-8 bytes than the text. Raises `time_budget.Overrun`."""
    output = Text.of(text)
    outputs = partial(_shortened, lossy=lossy, depth=0)
    if call.is_beside_files:
        shortened = by_seams(output.lines, call.parts, outputs) or beside_files(
            output.lines, call.parts, outputs
        )
    elif call.mixed:
        shortened = by_seams(output.lines, call.parts, outputs)
    elif call.family:
        shortened = outputs(
            output, call.family, call.selected, is_alone=len(call.parts) == 1 and not call.cut
        )
    else:
        return None
    return None if shortened is None or size(shortened.text) > output.size else shortened


def _shortened(
    body: Text, name: str, selected: bool, *, lossy: bool, depth: int, is_alone: bool = False
) -> FamilyResult | None:
    """Return the result of a family's steps; None if nothing changes. `is_alone` is true if the text is the
    whole output of one command."""
    by_call = family(name)
    if by_call is None or (selected and not by_call.rule.selected):
        return None
    if by_call.inner is not None and depth < SCRIPT_LIMIT:
        announced = by_announcements(
            body.lines, by_call.inner, partial(_shortened, lossy=lossy, depth=depth + 1)
        )
        if announced is not None:
            return announced
    if not by_call.objection(body):
        shortened = _best(body, by_call, lossy)
        if shortened is not None or not by_call.rule.fallback:
            return shortened
    by_shape = (other for name in by_call.rule.fallback if (other := family(name)) is not None)
    possible = (other for other in by_shape if is_alone or not other.rule.alone)
    fitting = next((other for other in possible if not other.objection(body)), None)
    return None if fitting is None else _best(body, fitting, lossy)


def _best(body: Text, of: Family, lossy: bool) -> FamilyResult | None:
    """Return the result of the steps; None if nothing changes or the text is too small. Lossy steps count
    only if they save enough."""
    if body.size < of.rule.min_bytes:
        return None
    lines = body.lines
    is_long = len(lines) >= MIN_LOSSY_LINES or body.size >= MIN_LOSSY_BYTES
    kept, loss, fewer = _run(lines, of.steps, lossy and is_long)
    shortened = "\n".join(kept)
    if fewer is not kept:
        shortest = "\n".join(fewer)
        if size(shortened) - size(shortest) >= MIN_LOSSY_GAIN:
            shortened, loss = shortest, Loss.LOSSY
    return None if shortened == body else FamilyResult(shortened, loss, of.rule.name)


def _run(lines: list[str], steps: Sequence[Step], lossy: bool) -> tuple[list[str], Loss, list[str]]:
    """Return the lines after the steps that are not lossy, the loss by these steps, and the lines after all
    steps. If lossy steps change nothing, both lists are the same object."""
    kept = fewer = lines
    loss = Loss.NONE
    critical = CriticalLines()
    for entry in steps:
        if len(lines) > time_budget.PIECE:
            time_budget.check()
        if entry.loss is Loss.LOSSY:
            after = entry.apply(fewer, critical) if lossy else fewer
            fewer = fewer if after == fewer else after
            continue
        # While both lists are the same, a step runs only once.
        is_same = fewer is kept
        after = entry.apply(kept, critical)
        if after != kept:
            loss = max(loss, entry.loss)
            kept = after
        fewer = kept if is_same else entry.apply(fewer, critical)
    return kept, loss, fewer
