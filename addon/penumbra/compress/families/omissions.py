"""This module has the steps of a family rule that omit lines or parts of lines."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import cast

import msgspec

from penumbra.compress import failure_lines
from penumbra.compress.critical_lines import CriticalLines
from penumbra.compress.families.patterns import (
    LINE_LIMIT,
    MakePattern,
    Pattern,
    Span,
    check_names,
    ended_of,
    unended,
    written,
)
from penumbra.linear import utf8
from penumbra.rule_schemas.command_rules import BlockRule, ContextRule, FoldRule, MemberRule

_Match = tuple[int, re.Match[str]]
"""The position of a line, and a match in this line."""


def _replaced(lines: list[str], gone: Container[int], marks: Mapping[int, Sequence[str]]) -> list[str]:
    """Return the lines without those at the positions `gone`. Each mark stands before the line at its
    position. Without marks, return all lines."""
    if not marks:
        return lines
    out: list[str] = []
    for position, line in enumerate(lines):
        out += marks.get(position, ())
        if position not in gone:
            out.append(line)
    return out


@dataclass(slots=True)
class Fold:
    """A step that writes one line with a count in place of the middle of each run of matching lines."""

    rule: FoldRule
    pattern: Pattern
    ended: Pattern | None

    @classmethod
    def of(cls, rule: FoldRule, pattern: MakePattern) -> Fold:
        lines = pattern(rule.fold).needs(*filter(None, [rule.by]))
        lines.check("say", rule.say, "n", prefixes=("first_", "last_", "distinct_", "each_"))
        return cls(rule, lines, ended_of(rule, lines, pattern))

    def __call__(self, lines: list[str], critical: CriticalLines) -> list[str]:
        matches = list(self.pattern.matches(lines))
        fitting = cast("dict[int, re.Match[str]]", dict(compress(enumerate(matches), matches)))
        for position in unended(lines, fitting, self.ended):
            del fitting[position]
        if not self.rule.safe:
            for position in critical.among(lines, fitting):
                del fitting[position]
        if self.rule.nested and fitting:
            fitting = _whole_trees(lines, fitting)
        gone: set[int] = set()
        marks: dict[int, list[str]] = {}
        for run in self._runs(lines, fitting) if len(fitting) >= self.rule.least else ():
            left_out = run if self.rule.scattered else run[self.rule.head : max(0, len(run) - self.rule.tail)]
            if len(left_out) >= max(1, self.rule.least):
                first, last = left_out[0][0], left_out[-1][0]
                marks[first] = [written(self.rule.say, _values(left_out))]
                gone.update([at for at, _ in left_out] if self.rule.scattered else range(first, last + 1))
        return _replaced(lines, gone, marks)

    def _runs(self, lines: list[str], fitting: Mapping[int, re.Match[str]]) -> Iterable[Sequence[_Match]]:
        """Return the runs of matching lines whose group `by` has the same value. The rule says what may be
        between the lines of a run: with `blanks` empty lines, with `scattered` any lines."""
        by, blanks = self.rule.by, self.rule.blanks
        scattered: dict[str, list[_Match]] = {}
        runs: list[list[_Match]] = []
        for position, match in fitting.items():
            key = match.group(by) if by else ""
            if self.rule.scattered:
                scattered.setdefault(key, []).append((position, match))
                continue
            last, before = runs[-1][-1] if runs else (-2, None)
            between = range(last + 1, position)
            is_same = before is not None and key == (before.group(by) if by else "")
            if is_same and (not between or (blanks and not any(lines[at].strip() for at in between))):
                runs[-1].append((position, match))
            else:
                runs.append([(position, match)])
        return scattered.values() if self.rule.scattered else runs


def _whole_trees(lines: list[str], fitting: Mapping[int, re.Match[str]]) -> dict[int, re.Match[str]]:
    """Return those matching lines of a tree below which all lines match."""
    whole: dict[int, re.Match[str]] = {}
    below: list[tuple[int, bool]] = []
    for position, indent in reversed(_tree(lines, fitting)):
        is_whole = position in fitting
        while below and below[-1][0] > indent:
            is_whole = below.pop()[1] and is_whole
        below.append((indent, is_whole))
        if is_whole:
            whole[position] = fitting[position]
    return {position: match for position, match in fitting.items() if position in whole}


def _tree(lines: list[str], fitting: Container[int]) -> list[tuple[int, int]]:
    """Return the position and the indent of each line of a tree, in order. Empty lines and lines of other
    programs are left out. Lines that don't match are another program's if the tree's lines directly above and
    below them are more indented, and the lower one is at most one level deeper than the upper one."""
    indents = [(at, len(line) - len(text)) for at, line in enumerate(lines) if (text := line.lstrip())]
    level = min((indent for _, indent in indents if indent > 0), default=0)
    tree: list[tuple[int, int]] = []
    printed: list[tuple[int, int]] = []
    for at, indent in indents:
        above = tree[-1][1] if tree else 0
        if at not in fitting and indent < above:
            printed.append((at, indent))
            continue
        if printed and not printed[-1][1] + level < indent <= above + level:
            tree += printed
        printed = []
        tree.append((at, indent))
    return tree + printed


def _values(matched: Sequence[tuple[int, re.Match[str]]]) -> dict[str, object]:
    """Return the values for a mark: the number of lines, and the named groups' texts."""
    values: dict[str, object] = {"n": len(matched)}
    first, last = matched[0][1], matched[-1][1]
    for name in first.re.groupindex:
        values[name] = first.group(name)
        values["first_" + name] = first.group(name)
        values["last_" + name] = last.group(name)
        different = dict.fromkeys(match.group(name) for _, match in matched)
        values["distinct_" + name] = len(different)
        values["each_" + name] = ", ".join(filter(None, different))
    return values


_Block = tuple[re.Match[str], int, int]
"""The match of a block's first line, the position of the first line that may go, and the block's end."""


@dataclass(slots=True)
class BlockStep:
    """A step that shows the beginning of a block of lines, and counts the other lines."""

    rule: BlockRule
    start: Pattern
    until: Pattern
    counts: Mapping[str, Pattern]
    places: Mapping[str, Pattern]
    tells: Pattern | None

    @classmethod
    def of(cls, rule: BlockRule, pattern: MakePattern) -> BlockStep:
        start = pattern(rule.block)
        places = {name: pattern(source).needs(name) for name, source in rule.places.items()}
        ends = [end + name for name in places for end in ("first_", "last_")]
        start.check("say", rule.say, "n", "blocks", *rule.counts, *ends)
        return cls(
            rule,
            start,
            until=start if rule.until is None else pattern(rule.until),
            counts={name: pattern(source) for name, source in rule.counts.items()},
            places=places,
            tells=None if rule.tells is None else pattern(rule.tells),
        )

    def __call__(self, lines: list[str], critical: CriticalLines) -> list[str]:
        blocks = [
            (match, first, end)
            for match, first, end in self._blocks(lines)
            if end - first > 0 and (self.rule.safe or not critical.among(lines, range(first, end)))
        ]
        if self.rule.scattered:
            return self._in_one(lines, blocks, critical)
        marks = {first: self._marked(match, lines[first:end], critical) for match, first, end in blocks}
        gone = {at for _, first, end in blocks if marks[first] for at in range(first, end)}
        return _replaced(lines, gone, {at: mark for at, mark in marks.items() if mark})

    def _blocks(self, lines: list[str]) -> Iterator[_Block]:
        starts = [
            (position, match) for position, match in enumerate(self.start.matches(lines)) if match is not None
        ]
        ends = iter(self.until.places(lines) if starts else ())
        end = 0
        for position, match in starts:
            if position < end:
                continue
            end = next((place for place in ends if place > position), len(lines))
            yield match, min(position + self.rule.head, end), end

    def _places(self, left_out: list[str]) -> dict[str, object] | None:
        """Return the first and the last place that the lines name, as values for a mark; None if there is
        none."""
        values: dict[str, object] = {}
        for name, pattern in self.places.items():
            found = [match.group(name) for match in pattern.matches(left_out) if match is not None]
            if not found:
                return None
            values |= {"first_" + name: found[0], "last_" + name: found[-1]}
        return values

    def _marked(self, match: re.Match[str], left_out: list[str], critical: CriticalLines) -> list[str]:
        """Return the mark for a block, followed by the failures in the block; empty if the block stays. A
        block of failures alone needs no mark, because each kind of failure has its own count."""
        if len(left_out) < self.rule.least or (places := self._places(left_out)) is None:
            return []
        shown, others = self._shown(left_out, critical)
        if len(left_out) - len(shown) < self.rule.least:
            return []
        marks = [self._mark(match, [left_out[at] for at in others], 1, places)] if others else []
        return [*marks, *shown.values()]

    def _in_one(self, lines: list[str], blocks: Sequence[_Block], critical: CriticalLines) -> list[str]:
        """Return the lines with one mark for all blocks, in place of the first block. A block's failures stay
        below its first line. A block of failures alone stays unchanged."""
        inside = [at for _, first, end in blocks for at in range(first, end)]
        if len(inside) < max(1, self.rule.least):
            return lines
        failures, left = self._shown([lines[at] for at in inside], critical)
        shown = {inside[at]: line for at, line in failures.items()}
        others = {inside[at] for at in left}
        cut: list[_Block] = []
        for block in blocks:
            places = range(*block[1:])
            if any(at in shown for at in places):
                shown.setdefault(block[1], lines[block[1]])
                others.discard(block[1])
            if any(at not in shown and lines[at].strip() for at in places):
                cut.append(block)
            else:
                shown |= {at: lines[at] for at in places if at not in shown}
                others.difference_update(places)
        if len(inside) - len(shown) < self.rule.least:
            return lines
        marks = {at: [line] for at, line in shown.items()}
        if others:
            match, first, _ = cut[0]
            counted = [lines[at] for block in cut for at in range(*block[1:])]
            marks[first] = [self._mark(match, counted, len(cut), {"n": len(others)}), *marks.get(first, ())]
        return _replaced(lines, set(inside), marks)

    def _shown(self, left_out: list[str], known: CriticalLines) -> tuple[dict[int, str], list[int]]:
        """Return the lines to show, by position: the first failure of each kind, and the frames below it.
        Also return the positions of all other lines, apart from failures."""
        critical = known.among(left_out, range(len(left_out)) if self.rule.safe else ())
        failing = self._failing(left_out, critical)
        first = failure_lines.first_of_kinds([left_out[at] for at in failing])
        shown = {failing[at]: line for at, line in first.items()}
        critical.difference_update(failing)
        for at in list(shown):
            below = at + 2 if at + 2 in critical and not left_out[at + 1].strip() else at + 1
            while below in critical and self.start.match(left_out[below]) is None:
                shown[below] = left_out[below]
                below += 1
        counted = shown.keys() | failing
        return dict(sorted(shown.items())), [at for at in range(len(left_out)) if at not in counted]

    def _failing(self, left_out: list[str], critical: set[int]) -> list[int]:
        """Return the positions of a block's lines that report a failure or, with `warnings`, a warning; empty
        if the rule is not `safe`."""
        if not self.rule.safe:
            return []
        failing = {
            at for at in failure_lines.failing(left_out, critical) if left_out[at][:1] not in ("+", "-")
        }
        if self.rule.warnings:
            failing.update(failure_lines.warning(left_out))
        if self.tells is not None:
            below = [at + 1 for at in self.tells.places(left_out[:-1])]
            failing.update(at for at in below if left_out[at].strip())
        # The first line of a block names the block, and is no failure in it.
        return sorted(at for at in failing if self.start.match(left_out[at]) is None)

    def _mark(
        self, match: re.Match[str], counted: list[str], blocks: int, values: Mapping[str, object]
    ) -> str:
        counts = {name: len(pattern.places(counted)) for name, pattern in self.counts.items()}
        return written(
            self.rule.say, {**match.groupdict(), "n": len(counted), "blocks": blocks, **values, **counts}
        )


@dataclass(slots=True)
class Member:
    """A step that replaces each matching line of JSON by a string from the JSON. A mark stands above the
    first string."""

    rule: MemberRule
    pattern: Pattern

    @classmethod
    def of(cls, rule: MemberRule, pattern: MakePattern) -> Member:
        check_names("say", rule.say, "n")
        return cls(rule, pattern(rule.member))

    def __call__(self, lines: list[str], critical: CriticalLines) -> list[str]:
        texts = {
            position: text.strip("\n").split("\n")
            for position, line in enumerate(lines)
            if self.pattern.match(line[:LINE_LIMIT]) and (text := self._text(line))
        }
        if len(texts) < self.rule.least:
            return lines
        for first in [*texts][:1]:
            texts[first].insert(0, written(self.rule.say, {"n": len(texts)}))
        return _replaced(lines, texts, texts)

    def _text(self, line: str) -> str:
        try:
            value = msgspec.json.decode(utf8(line))
        except (msgspec.DecodeError, RecursionError):
            return ""
        for key in self.rule.path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, str) else ""


@dataclass(slots=True)
class Context:
    """A step that omits context lines, except near a line of interest. One mark counts the omitted lines."""

    rule: ContextRule
    pattern: Pattern
    near: Pattern
    span: Span

    @classmethod
    def of(cls, rule: ContextRule, pattern: MakePattern) -> Context:
        check_names("say", rule.say, "n")
        return cls(rule, pattern(rule.context), pattern(rule.near), Span.of(rule.within, pattern))

    def __call__(self, lines: list[str], critical: CriticalLines) -> list[str]:
        gone = self._far(lines, self.span.ranges(lines), critical)
        if len(gone) < max(1, self.rule.least):
            return lines
        return _replaced(lines, gone, {min(gone): [written(self.rule.say, {"n": len(gone)})]})

    def _far(self, lines: list[str], ranges: Sequence[tuple[int, int]], critical: CriticalLines) -> set[int]:
        """Return the positions of the context lines that are not critical and not near a line of interest."""
        inside = [position for start, end in ranges for position in range(start, end)]
        texts = [lines[position] for position in inside]
        far = {inside[place] for place in self.pattern.places(texts)}
        far -= critical.among(lines, far)
        parts = iter(ranges)
        start = end = 0
        for position in map(inside.__getitem__, self.near.places(texts)):
            while position >= end:
                start, end = next(parts)
            near = range(max(start, position - self.rule.keep), min(end, position + self.rule.keep + 1))
            far.difference_update(near)
        return far
