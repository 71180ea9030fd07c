"""The steps of a family rule: each takes lines and gives lines back.

A step is made from its YAML form (rules/commands/README.md says what may stand there) and tells
what is lost by it. All steps walk over the lines once; a line above `LINE_LIMIT` characters is
never matched, so the cost is linear in the text whatever a rule's pattern is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penumbra.text.critical import is_critical
from penumbra.text.result import Loss

LINE_LIMIT = 2_000
"""Characters; longer lines are data and stay as they are."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_ENDING = re.compile(r"(?<!\\)\$$")


class Pattern:
    """One or several alternatives that are matched at the beginning of a line."""

    def __init__(self, source: str | Sequence[str]) -> None:
        sources = [source] if isinstance(source, str) else list(source)
        self.sources = tuple(sources)
        ended = [_ENDING.sub(r"\\r?$", alternative) for alternative in sources]
        joined = ended[0] if len(ended) == 1 else "|".join(f"(?:{alternative})" for alternative in ended)
        self._match = re.compile(joined).match

    def match(self, line: str) -> re.Match[str] | None:
        """The match at the start of the line; None if there is none or the line is too long."""
        return self._match(line) if len(line) <= LINE_LIMIT else None


def written(template: str, values: Mapping[str, object]) -> str:
    """`template` with `{name}` replaced; a name without a value is left as it stands."""
    return _PLACEHOLDER.sub(lambda found: str(values.get(found.group(1), found.group())), template)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a family."""

    loss: Loss
    run: Callable[[list[str]], list[str]]
    """Gives the lines themselves back, unchanged, where it has nothing to do."""
    span: Span | None = None

    def apply(self, lines: list[str]) -> list[str]:
        """The lines after the step; only those inside the span are shown to it."""
        if self.span is None:
            return self.run(lines)
        out: list[str] = []
        done = 0
        for start, end in self.span.ranges(lines):
            out += lines[done:start]
            out += self.run(lines[start:end])
            done = end
        return out + lines[done:]


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a text: behind a line that matches `begin`, up to one that matches `until`."""

    begin: Pattern
    until: Pattern | None

    def ranges(self, lines: Sequence[str]) -> list[tuple[int, int]]:
        """(first, behind the last) of every such part, in order, without the lines that bound it."""
        found: list[tuple[int, int]] = []
        start: int | None = None
        for position, line in enumerate(lines):
            if start is not None and self.until is not None and self.until.match(line):
                found.append((start, position))
                start = None
            if start is None and self.begin.match(line):
                start = position + 1
        return [*found, (start, len(lines))] if start is not None else found


@dataclass(slots=True)
class _Fold:
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
        if self.scattered:
            return self._all(lines)
        out: list[str] = []
        position = 0
        while position < len(lines):
            found = self._fits(lines[position])
            if found is None:
                out.append(lines[position])
                position += 1
                continue
            matched, end = self._run(lines, position, found)
            if len(matched) - self.head - self.tail >= self.least:
                out += self._folded(lines, position, end, matched)
            else:
                out += lines[position:end]
            position = end
        return out

    def _fits(self, line: str) -> re.Match[str] | None:
        found = self.pattern.match(line)
        return found if found is not None and (self.safe or not is_critical(line)) else None

    def _run(
        self, lines: list[str], start: int, first: re.Match[str]
    ) -> tuple[list[tuple[int, re.Match[str]]], int]:
        """The matching lines of the run that begins at `start`, and where it ends."""
        matched = [(start, first)]
        position = end = start + 1
        while position < len(lines):
            line = lines[position]
            found = self._fits(line)
            if found is not None and (not self.by or found.group(self.by) == first.group(self.by)):
                matched.append((position, found))
                position += 1
                end = position
            elif self.blanks and not line.strip():
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

    def _all(self, lines: list[str]) -> list[str]:
        matched = [
            (position, found)
            for position, line in enumerate(lines)
            if (found := self._fits(line)) is not None
        ]
        if len(matched) < self.least:
            return lines
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
        values["distinct_" + name] = len({found.group(name) for _, found in matched})
    return values


@dataclass(slots=True)
class _Group:
    """Runs of lines with the same beginning: the beginning once, then the rests."""

    pattern: Pattern
    also: re.Pattern[str] | None
    through: Pattern | None
    header: str
    line: str
    least: int

    def __call__(self, lines: list[str]) -> list[str]:
        keyed = self._keyed(lines)
        out: list[str] = []
        position = 0
        while position < len(lines):
            entry = keyed[position]
            if entry is None:
                out.append(lines[position])
                position += 1
                continue
            end = self._end(lines, keyed, position, entry[0])
            rests = [rest for found in keyed[position:end] if found is not None for rest in [found[1]]]
            if len(rests) >= self.least:
                out.append(written(self.header, {"key": entry[0]}))
                out += [
                    lines[at] if found is None else written(self.line, {"rest": found[1]})
                    for at, found in enumerate(keyed[position:end], position)
                ]
            else:
                out += lines[position:end]
            position = end
        return out

    def _keyed(self, lines: list[str]) -> list[tuple[str, str] | None]:
        """(key, rest) of every line that has one; context lines take the key of a neighbour."""
        keyed: list[tuple[str, str] | None] = []
        for line in lines:
            found = self.pattern.match(line[:LINE_LIMIT])
            keyed.append((found.group("key"), line[found.start("rest") :]) if found else None)
        if self.also is not None:
            self._context(lines, keyed, range(len(lines)))
            self._context(lines, keyed, range(len(lines) - 1, -1, -1))
        return keyed

    def _context(self, lines: list[str], keyed: list[tuple[str, str] | None], order: range) -> None:
        key = ""
        assert self.also is not None
        for position in order:
            entry, line = keyed[position], lines[position]
            if entry is not None:
                key = entry[0]
            elif key and line.startswith(key):
                found = self.also.match(line, len(key), len(key) + LINE_LIMIT)
                if found:
                    keyed[position] = (key, line[found.start("rest") :])

    def _end(self, lines: list[str], keyed: list[tuple[str, str] | None], start: int, key: str) -> int:
        position = end = start + 1
        while position < len(lines):
            entry = keyed[position]
            if entry is not None and entry[0] == key:
                position += 1
                end = position
            elif entry is None and self.through is not None and self.through.match(lines[position]):
                position += 1
            else:
                break
        return end


@dataclass(slots=True)
class _Hoist:
    """Columns that say the same in all lines of a run are said once before it."""

    pattern: Pattern
    columns: Sequence[str]
    fields: Mapping[str, str]
    least: int

    def __call__(self, lines: list[str]) -> list[str]:
        out: list[str] = []
        run: list[re.Match[str]] = []
        for line in lines:
            found = self.pattern.match(line)
            if found:
                run.append(found)
                continue
            out += self._hoisted(run)
            out.append(line)
            run = []
        return out + self._hoisted(run)

    def _hoisted(self, run: list[re.Match[str]]) -> list[str]:
        if not run:
            return []
        constant = {
            name: run[0].group(name)
            for name in self.fields
            if len(run) >= self.least and all(found.group(name) == run[0].group(name) for found in run)
        }
        kept = [name for name in self.columns if name not in constant]
        lines = [" ".join(found.group(name) for name in kept) for found in run]
        if not constant:
            return lines
        said = ", ".join(f"{self.fields[name]} {value}" for name, value in constant.items())
        return [f"[{said} in each of the next {len(run)} lines]", *lines]


@dataclass(slots=True)
class _Block:
    """A block of lines, from one that matches to one that ends it, becomes its head and a count."""

    start: Pattern
    until: Pattern
    say: str
    least: int
    head: int
    safe: bool
    counts: Mapping[str, Pattern] = field(default_factory=dict)

    def __call__(self, lines: list[str]) -> list[str]:
        out: list[str] = []
        position = 0
        while position < len(lines):
            found = self.start.match(lines[position])
            if found is None:
                out.append(lines[position])
                position += 1
                continue
            end = position + 1
            while end < len(lines) and not self.until.match(lines[end]):
                end += 1
            inner = lines[position + self.head : end]
            if len(inner) >= self.least and (self.safe or not any(map(is_critical, inner))):
                out += [*lines[position : position + self.head], self._marker(found, inner)]
            else:
                out += lines[position:end]
            position = end
        return out

    def _marker(self, found: re.Match[str], inner: list[str]) -> str:
        values: dict[str, object] = dict(found.groupdict())
        values["n"] = len(inner)
        for name, pattern in self.counts.items():
            values[name] = sum(1 for line in inner if pattern.match(line))
        return written(self.say, values)


@dataclass(slots=True)
class _Context:
    """Lines that only surround others are left out, but for the nearest; they are counted once."""

    pattern: Pattern
    near: Pattern
    keep: int
    span: Span
    say: str
    least: int

    def __call__(self, lines: list[str]) -> list[str]:
        gone: set[int] = set()
        for start, end in self.span.ranges(lines):
            gone |= self._far(lines, start, end)
        if len(gone) < self.least:
            return lines
        first = min(gone)
        said = written(self.say, {"n": len(gone)})
        return [
            said if position == first else line
            for position, line in enumerate(lines)
            if position == first or position not in gone
        ]

    def _far(self, lines: list[str], start: int, end: int) -> set[int]:
        """Positions of the surrounding lines that no other line is near to."""
        around = [position for position in range(start, end) if self.pattern.match(lines[position])]
        kept: set[int] = set()
        for position in range(start, end):
            if self.near.match(lines[position]):
                kept.update(range(position - self.keep, position + self.keep + 1))
        return {position for position in around if position not in kept}


@dataclass(slots=True)
class _Same:
    """Lines that say the same all over the text are said once, where the first of them stood."""

    pattern: Pattern
    say: str
    least: int

    def __call__(self, lines: list[str]) -> list[str]:
        places = [position for position, line in enumerate(lines) if self.pattern.match(line)]
        if len(places) < self.least or len({lines[position] for position in places}) > 1:
            return lines
        gone = set(places)
        said = written(self.say, {"n": len(places), "line": lines[places[0]].strip()})
        first = places[0]
        return [
            said if position == first else line
            for position, line in enumerate(lines)
            if position == first or position not in gone
        ]


def _drop(pattern: Pattern, safe: bool) -> Callable[[list[str]], list[str]]:
    def run(lines: list[str]) -> list[str]:
        return [line for line in lines if not pattern.match(line) or not (safe or not is_critical(line))]

    return run


_BLANKS = re.compile(r"(?<=\S) {3,}(?=\S)")


def _squeeze(pattern: Pattern) -> Callable[[list[str]], list[str]]:
    def run(lines: list[str]) -> list[str]:
        return [_BLANKS.sub("  ", line) if "   " in line and pattern.match(line) else line for line in lines]

    return run


def _rewrite(pattern: Pattern, to: str) -> Callable[[list[str]], list[str]]:
    def run(lines: list[str]) -> list[str]:
        out: list[str] = []
        for line in lines:
            found = pattern.match(line)
            out.append(written(to, found.groupdict(default="")) if found else line)
        return out

    return run


_LOSSES = {"none": Loss.NONE, "reversible": Loss.REVERSIBLE, "lossy": Loss.LOSSY}
_DEFAULT_LOSS = {
    "drop": Loss.NONE,
    "squeeze": Loss.NONE,
    "group": Loss.REVERSIBLE,
    "hoist": Loss.REVERSIBLE,
    "same": Loss.REVERSIBLE,
    "fold": Loss.LOSSY,
    "block": Loss.LOSSY,
    "context": Loss.LOSSY,
}


def step(rule: Mapping[str, Any]) -> Step:
    """A step from its YAML form. Raises KeyError, ValueError or re.error for a broken rule."""
    makers: dict[str, Callable[[Pattern, Mapping[str, Any]], Callable[[list[str]], list[str]]]]
    makers = {
        "fold": _fold,
        "group": _group,
        "hoist": _hoist,
        "block": _block,
        "same": _same,
        "context": _context,
    }
    kind = next(name for name in (*makers, "drop", "squeeze", "rewrite") if name in rule)
    pattern = Pattern(rule[kind])
    if kind in makers:
        run = makers[kind](pattern, rule)
    elif kind == "drop":
        run = _drop(pattern, bool(rule.get("safe")))
    elif kind == "squeeze":
        run = _squeeze(pattern)
    else:
        run = _rewrite(pattern, rule["to"])
    span = _span(rule) if "within" in rule and kind != "context" else None
    loss = _LOSSES[rule["loss"]] if "loss" in rule else _DEFAULT_LOSS[kind]
    return Step(loss, run, span)


def _fold(pattern: Pattern, rule: Mapping[str, Any]) -> _Fold:
    return _Fold(
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


def _group(pattern: Pattern, rule: Mapping[str, Any]) -> _Group:
    return _Group(
        pattern,
        also=re.compile(rule["also"]) if "also" in rule else None,
        through=Pattern(rule["through"]) if "through" in rule else None,
        header=rule.get("header", "{key}"),
        line=rule.get("line", " {rest}"),
        least=rule.get("min", 2),
    )


def _hoist(pattern: Pattern, rule: Mapping[str, Any]) -> _Hoist:
    return _Hoist(pattern, columns=rule["columns"], fields=rule["fields"], least=rule.get("min", 3))


def _span(rule: Mapping[str, Any]) -> Span:
    within = rule["within"]
    return Span(Pattern(within["from"]), Pattern(within["until"]) if "until" in within else None)


def _context(pattern: Pattern, rule: Mapping[str, Any]) -> _Context:
    return _Context(
        pattern,
        near=Pattern(rule["near"]),
        keep=rule.get("keep", 1),
        span=_span(rule),
        say=rule["say"],
        least=rule.get("min", 3),
    )


def _same(pattern: Pattern, rule: Mapping[str, Any]) -> _Same:
    return _Same(pattern, say=rule["say"], least=rule.get("min", 3))


def _block(pattern: Pattern, rule: Mapping[str, Any]) -> _Block:
    return _Block(
        pattern,
        until=Pattern(rule.get("until", rule["block"])),
        say=rule["say"],
        least=rule.get("min", 3),
        head=rule.get("head", 1),
        safe=rule.get("safe", False),
        counts={name: Pattern(source) for name, source in rule.get("counts", {}).items()},
    )
