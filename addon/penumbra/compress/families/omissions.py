"""Steps of a family rule that leave lines out, and say how many."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import cast

import msgspec

from penumbra.compress import failure_lines
from penumbra.compress.critical_lines import critical_lines
from penumbra.compress.families.patterns import LINE_LIMIT, Pattern, Span, unended, written
from penumbra.compress.size import encode


@dataclass(slots=True)
class Fold:
    """Runs of lines that match become one line that counts them."""

    pattern: Pattern
    say: str
    least: int
    head: int
    tail: int
    by: str
    safe: bool
    blanks: bool
    scattered: bool
    nested: bool
    ended: Pattern | None = None

    def __call__(self, lines: list[str]) -> list[str]:
        matches = list(self.pattern.matches(lines))
        fitting = cast("dict[int, re.Match[str]]", dict(compress(enumerate(matches), matches)))
        for position in unended(lines, fitting, self.ended):
            del fitting[position]
        if not self.safe and fitting:
            positions = list(fitting)
            for critical in critical_lines([lines[position] for position in positions]):
                del fitting[positions[critical]]
        if self.nested and fitting:
            fitting = _whole_trees(lines, fitting)
        if len(fitting) < self.least:
            return lines
        if self.scattered:
            return self._all(lines, list(fitting.items()))
        out: list[str] = []
        done = end = 0
        for position in fitting:
            if position < end:
                continue
            if self.least > 1 and not self.blanks and position + 1 not in fitting:
                continue
            matched, end = self._run(lines, position, fitting)
            if len(matched) - self.head - self.tail >= self.least:
                out += lines[done:position]
                out += self._folded(lines, position, end, matched)
                done = end
        return out + lines[done:] if done else lines

    def _run(
        self, lines: list[str], start: int, fitting: Mapping[int, re.Match[str]]
    ) -> tuple[list[tuple[int, re.Match[str]]], int]:
        """The matching lines of the run that begins at `start`, and where it ends."""
        first = fitting[start]
        matched = [(start, first)]
        position = end = start + 1
        while position < len(lines):
            match = fitting.get(position)
            if match is not None and (not self.by or match.group(self.by) == first.group(self.by)):
                matched.append((position, match))
                position += 1
                end = position
            elif self.blanks and not lines[position].strip():
                position += 1
            else:
                break
        return matched, end

    def _folded(
        self, lines: list[str], start: int, end: int, matched: list[tuple[int, re.Match[str]]]
    ) -> list[str]:
        left_out = matched[self.head : len(matched) - self.tail]
        first, last = left_out[0][0], left_out[-1][0]
        return [*lines[start:first], written(self.say, _values(left_out)), *lines[last + 1 : end]]

    def _all(self, lines: list[str], matched: Iterable[tuple[int, re.Match[str]]]) -> list[str]:
        runs: dict[str, list[tuple[int, re.Match[str]]]] = {}
        for position, match in matched:
            runs.setdefault(match.group(self.by) if self.by else "", []).append((position, match))
        folded = [run for run in runs.values() if len(run) >= self.least]
        gone = {position for run in folded for position, _ in run}
        markers = {run[0][0]: written(self.say, _values(run)) for run in folded}
        return [
            markers.get(position, line)
            for position, line in enumerate(lines)
            if position in markers or position not in gone
        ]


def _whole_trees(lines: list[str], fitting: Mapping[int, re.Match[str]]) -> dict[int, re.Match[str]]:
    """The fitting lines below which no other line stands, indented deeper."""
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
    """(position, indent) of the lines of a tree, in order: no blank ones, and none that was printed in the
    middle of it. The nested line is indented less than its neighbours, which are a level apart at most."""
    told = [(at, len(line) - len(text)) for at, line in enumerate(lines) if (text := line.lstrip())]
    level = min((indent for _, indent in told if indent > 0), default=0)
    tree: list[tuple[int, int]] = []
    printed: list[tuple[int, int]] = []
    for at, indent in told:
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
    """Values for a marker: counts, and the named groups of the first and the last line."""
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


@dataclass(slots=True)
class Block:
    """A block of lines, from one that matches to one that ends it, becomes its head and a count."""

    start: Pattern
    until: Pattern
    say: str
    least: int
    head: int
    safe: bool
    scattered: bool
    warnings: bool
    counts: Mapping[str, Pattern] = field(default_factory=dict)
    places: Mapping[str, Pattern] = field(default_factory=dict)
    tells: Pattern | None = None

    def __call__(self, lines: list[str]) -> list[str]:
        inner = [
            (match, first, end)
            for match, first, end in self._blocks(lines)
            if end - first > 0 and (self.safe or not any(True for _ in critical_lines(lines[first:end])))
        ]
        if self.scattered:
            return self._all(lines, inner)
        out: list[str] = []
        done = 0
        for match, first, end in inner:
            if marked := self._marked(match, lines[first:end]):
                out += [*lines[done:first], *marked]
                done = end
        return out + lines[done:]

    def _blocks(self, lines: list[str]) -> Iterator[tuple[re.Match[str], int, int]]:
        """(start, first line to leave out, line that ends it) of every block."""
        starts = [
            (position, match) for position, match in enumerate(self.start.matches(lines)) if match is not None
        ]
        ends = iter(self.until.places(lines) if starts else ())
        end = 0
        for position, match in starts:
            if position < end:
                continue
            end = next((place for place in ends if place > position), len(lines))
            yield match, min(position + self.head, end), end

    def _places(self, left_out: list[str]) -> dict[str, object] | None:
        """Values for a marker about the places of the block's lines in their file; None without places."""
        values: dict[str, object] = {}
        for name, pattern in self.places.items():
            found = [match.group(name) for match in pattern.matches(left_out) if match is not None]
            if not found:
                return None
            values |= {"first_" + name: found[0], "last_" + name: found[-1]}
        return values

    def _marked(self, match: re.Match[str], left_out: list[str]) -> list[str]:
        """The marker, with the block's severe lines below it; nothing if the block stays. A block with
        nothing but severe lines has no marker: each kind has its own count."""
        if len(left_out) < self.least or (places := self._places(left_out)) is None:
            return []
        shown, others = self._shown(left_out)
        if len(left_out) - len(shown) < self.least:
            return []
        marker = (
            [self._marker(match, len(others), [left_out[at] for at in others], 1, places)] if others else []
        )
        return [*marker, *shown.values()]

    def _all(self, lines: list[str], blocks: Sequence[tuple[re.Match[str], int, int]]) -> list[str]:
        """The lines with one marker for all blocks, where the first one stood. The severe lines of a block
        stay where they were, below the block's first line; a block of only severe lines stays."""
        inside = [at for _, first, end in blocks for at in range(first, end)]
        if len(inside) < max(1, self.least):
            return lines
        told, left = self._shown([lines[at] for at in inside])
        shown = {inside[at]: line for at, line in told.items()}
        others = {inside[at] for at in left}
        cut: list[tuple[re.Match[str], int, int]] = []
        for block in blocks:
            _, first, end = block
            if any(at in shown for at in range(first, end)):
                shown.setdefault(first, lines[first])
                others.discard(first)
            if any(at not in shown and lines[at].strip() for at in range(first, end)):
                cut.append(block)
            else:
                shown |= {at: lines[at] for at in range(first, end) if at not in shown}
                others.difference_update(range(first, end))
        if len(inside) - len(shown) < self.least:
            return lines
        out: list[str] = []
        gone = set(inside)
        for at, line in enumerate(lines):
            if others and at == cut[0][1]:
                of_blocks = [lines[at] for _, first, end in cut for at in range(first, end)]
                out.append(self._marker(cut[0][0], len(others), of_blocks, len(cut), {}))
            if at not in gone:
                out.append(line)
            elif at in shown:
                out.append(shown[at])
        return out

    def _shown(self, left_out: list[str]) -> tuple[dict[int, str], list[int]]:
        """The severe lines among those that go, by position: the first of each kind, with the frames below
        it; and the positions of those that neither stand there nor are counted there."""
        told = self._told(left_out)
        first = failure_lines.first_of_kinds([left_out[at] for at in told])
        shown = {told[at]: line for at, line in first.items()}
        heard = set(told)
        critical = set(critical_lines(left_out)) - heard if shown else set()
        for at in list(shown):
            below = at + 2 if at + 2 in critical and not left_out[at + 1].strip() else at + 1
            while below in critical and self.start.match(left_out[below]) is None:
                shown[below] = left_out[below]
                below += 1
        others = [at for at in range(len(left_out)) if at not in heard and at not in shown]
        return dict(sorted(shown.items())), others

    def _told(self, left_out: list[str]) -> list[int]:
        """Positions of the lines that report a failure, or warn, where such blocks may go."""
        if not self.safe:
            return []
        told = {at for at in failure_lines.failing(left_out) if left_out[at][:1] not in ("+", "-")}
        if self.warnings:
            told.update(failure_lines.warning(left_out))
        if self.tells is not None:
            last = len(left_out) - 1
            told.update(
                at + 1 for at in self.tells.places(left_out) if at < last and left_out[at + 1].strip()
            )
        # The beginning of a block names it: it stands before the block's severe lines.
        return sorted(at for at in told if self.start.match(left_out[at]) is None)

    def _marker(
        self, match: re.Match[str], n: int, counted: list[str], blocks: int, places: Mapping[str, object]
    ) -> str:
        values: dict[str, object] = {**match.groupdict(), **places, "n": n, "blocks": blocks}
        for name, pattern in self.counts.items():
            values[name] = len(pattern.places(counted))
        return written(self.say, values)


@dataclass(slots=True)
class Member:
    """JSON objects, one a line, are replaced by one of their texts; a single marker precedes the first."""

    pattern: Pattern
    path: Sequence[str]
    say: str
    least: int

    def __call__(self, lines: list[str]) -> list[str]:
        texts = {
            position: text
            for position, line in enumerate(lines)
            if self.pattern.match(line[:LINE_LIMIT]) and (text := self._text(line))
        }
        if len(texts) < self.least:
            return lines
        out: list[str] = []
        for position, line in enumerate(lines):
            if position == next(iter(texts)):
                out.append(written(self.say, {"n": len(texts)}))
            out += texts[position].strip("\n").split("\n") if position in texts else [line]
        return out

    def _text(self, line: str) -> str:
        try:
            value = msgspec.json.decode(encode(line))
        except (msgspec.DecodeError, RecursionError):
            return ""
        for key in self.path:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, str) else ""


@dataclass(slots=True)
class Context:
    """Lines that only surround others are left out, except the nearest; one marker counts them."""

    pattern: Pattern
    near: Pattern
    keep: int
    span: Span
    say: str
    least: int

    def __call__(self, lines: list[str]) -> list[str]:
        gone = self._far(lines, self.span.ranges(lines))
        if len(gone) < self.least:
            return lines
        first = min(gone)
        said = written(self.say, {"n": len(gone)})
        return [
            said if position == first else line
            for position, line in enumerate(lines)
            if position == first or position not in gone
        ]

    def _far(self, lines: list[str], ranges: Sequence[tuple[int, int]]) -> set[int]:
        """Positions of the surrounding lines that are not near to any other line of their part."""
        inside = [position for start, end in ranges for position in range(start, end)]
        texts = [lines[position] for position in inside]
        places = self.pattern.places(texts)
        far = {inside[place] for place in places}
        far.difference_update(inside[places[at]] for at in critical_lines([texts[place] for place in places]))
        parts = iter(ranges)
        start = end = 0
        for position in map(inside.__getitem__, self.near.places(texts)):
            while position >= end:
                start, end = next(parts)
            near = range(max(start, position - self.keep), min(end, position + self.keep + 1))
            far.difference_update(near)
        return far
