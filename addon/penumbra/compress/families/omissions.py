"""Steps of a family rule that leave lines out, and say how many."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import cast

import msgspec

from penumbra.compress import failure_lines
from penumbra.compress.critical_lines import critical_lines
from penumbra.compress.families.patterns import LINE_LIMIT, Pattern, Span, written
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

    def __call__(self, lines: list[str]) -> list[str]:
        matches = list(self.pattern.matches(lines))
        fitting = cast("dict[int, re.Match[str]]", dict(compress(enumerate(matches), matches)))
        if not self.safe and fitting:
            positions = list(fitting)
            for critical in critical_lines([lines[position] for position in positions]):
                del fitting[positions[critical]]
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

    def _all(self, lines: list[str], matched: list[tuple[int, re.Match[str]]]) -> list[str]:
        gone = {position for position, _ in matched}
        marker = written(self.say, _values(matched))
        out: list[str] = []
        for position, line in enumerate(lines):
            if position == matched[0][0]:
                out.append(marker)
            elif position not in gone:
                out.append(line)
        return out


def _values(matched: Sequence[tuple[int, re.Match[str]]]) -> dict[str, object]:
    """What a marker may say: counts, and the named groups of the first and the last line."""
    values: dict[str, object] = {"n": len(matched)}
    first, last = matched[0][1], matched[-1][1]
    for name in first.re.groupindex:
        values[name] = first.group(name)
        values["first_" + name] = first.group(name)
        values["last_" + name] = last.group(name)
        values["distinct_" + name] = len({match.group(name) for _, match in matched})
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
    counts: Mapping[str, Pattern] = field(default_factory=dict)

    def __call__(self, lines: list[str]) -> list[str]:
        inner = [
            (match, first, end)
            for match, first, end in self._blocks(lines)
            if end - first > 0 and (self.safe or not any(True for _ in critical_lines(lines[first:end])))
        ]
        if self.scattered:
            if sum(end - first for _, first, end in inner) < self.least:
                return lines
        else:
            inner = [block for block in inner if block[2] - block[1] >= self.least]
        out: list[str] = []
        done = 0
        for number, (match, first, end) in enumerate(inner):
            out += lines[done:first]
            if not self.scattered:
                out += self._marked(match, lines[first:end], 1)
            elif number == 0:
                left_out = [line for _, start, stop in inner for line in lines[start:stop]]
                out += self._marked(match, left_out, len(inner))
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

    def _marked(self, match: re.Match[str], left_out: list[str], blocks: int) -> list[str]:
        """The marker, and below it what failed in the block."""
        if not self.safe:
            return [self._marker(match, left_out, blocks)]
        failing = [at for at in failure_lines.failing(left_out) if left_out[at][:1] not in ("+", "-")]
        gone = set(failing)
        others = [line for at, line in enumerate(left_out) if at not in gone] if gone else left_out
        failures = failure_lines.listed([left_out[at] for at in failing]) if failing else []
        return [self._marker(match, others, blocks), *failures]

    def _marker(self, match: re.Match[str], left_out: list[str], blocks: int) -> str:
        values: dict[str, object] = {**match.groupdict(), "n": len(left_out), "blocks": blocks}
        for name, pattern in self.counts.items():
            values[name] = len(pattern.places(left_out))
        return written(self.say, values)


@dataclass(slots=True)
class Member:
    """JSON objects, one a line, become one of their texts; said once, in front of the first."""

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
    """Lines that only surround others are left out, but for the nearest; they are counted once."""

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
        """Positions of the surrounding lines that no other line of their part is near to."""
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
