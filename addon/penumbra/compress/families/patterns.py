"""This module has the parts of a family rule's steps: patterns for lines, spans of lines, and templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress, count
from typing import Any

from penumbra.linear import LinearText
from penumbra.rule_schemas.command_rules import DropRule, FoldRule, Within
from penumbra.rule_schemas.schema import Regexes

LINE_LIMIT = 2_000
"""A match has at most this number of characters. Most steps leave longer lines unchanged."""
_PLACEHOLDER = re.compile(r"\{(\w+)((?:\|[^{}|]*\|[^{}|]*)?)\}")
"""`{name}`, or `{name|line|lines}` for a count with its noun in singular and plural."""
_ENDING = re.compile(r"(?<!\\)\$$")


class Pattern:
    """A `Pattern` has one or several alternatives, which are matched at the beginning of a line."""

    def __init__(self, source: Regexes) -> None:
        sources = [source] if isinstance(source, str) else list(source)
        self.sources = tuple(sources)
        ended = [_ENDING.sub(r"\\r?$", alternative) for alternative in sources]
        joined = ended[0] if len(ended) == 1 else "|".join(f"(?:{alternative})" for alternative in ended)
        compiled = self._compiled(joined)
        self._match = compiled.match
        self._groups = compiled.groupindex

    @staticmethod
    def _compiled(source: str) -> Any:
        return re.compile(source)

    def needs(self, *names: str) -> Pattern:
        """Return this pattern. Raises ValueError if it lacks a group with one of these names."""
        for name in names:
            if name not in self._groups:
                raise ValueError(f"no group {name} in {self.sources[0]}")
        return self

    def check(self, key: str, template: str, *others: str, prefixes: Sequence[str] = ()) -> None:
        """Raise ValueError if a `{name}` of a template is not allowed. Allowed are `others`, the names of
        groups, and these names with one of `prefixes`. The error names the template's `key`."""
        groups = sorted(self._groups)
        allowed = (*others, *groups, *(prefix + group for prefix in prefixes for group in groups))
        for name in _parts(template)[1::3]:
            if name not in allowed:
                raise ValueError(f"{key}: got {{{name}}}, allowed: {', '.join(allowed) or 'no name'}")

    def group(self, name: str) -> int:
        """Return the number of a group."""
        number: int = self._groups[name]
        return number

    def match_from(self, line: str, start: int) -> re.Match[str] | None:
        """Return the match that begins at a position in a line and ends within `LINE_LIMIT` characters;
        None if there is none. The line may have any length."""
        match: re.Match[str] | None = self._match(line, start, start + LINE_LIMIT)
        return match

    def match(self, line: str) -> re.Match[str] | None:
        """Return the match at the start of the line; None if there is no match or the line is too long."""
        return self._match(line) if len(line) <= LINE_LIMIT else None

    def matches(self, lines: Sequence[str]) -> Iterator[re.Match[str] | None]:
        """Yield the match of each line, or None, in order."""
        return map(self._match if max(map(len, lines), default=0) <= LINE_LIMIT else self.match, lines)

    def form(self, template: str) -> str:
        """Return a format for `str.format` that takes the groups of a match. Other names stay."""
        parts = [part.replace("{", "{{").replace("}", "}}") for part in _parts(template)]
        for place in range(1, len(parts), 3):
            group = self._groups.get(parts[place])
            parts[place] = f"{{{{{parts[place]}}}}}" if group is None else f"{{{group - 1}}}"
        return "".join(parts)

    def places(self, lines: Sequence[str]) -> list[int]:
        """Return the positions of the lines that match, in order."""
        return list(compress(count(), self.matches(lines)))


class LinearPattern(Pattern):
    """A `LinearPattern` is a pattern of a user, for which RE2 takes linear time."""

    @staticmethod
    def _compiled(source: str) -> Any:
        return LinearText(source)


MakePattern = Callable[[Regexes], Pattern]


@dataclass(frozen=True, slots=True)
class Span:
    """A `Span` finds parts of a text. A part begins after a match of `begin` and ends before the next match
    of `until`, or with the text."""

    begin: Pattern
    until: Pattern | None

    @classmethod
    def of(cls, within: Within, pattern: MakePattern) -> Span:
        return cls(pattern(within.begin), None if within.until is None else pattern(within.until))

    def ranges(self, lines: Sequence[str]) -> list[tuple[int, int]]:
        """Return (first line, line after the last line) of each part, in order."""
        ranges: list[tuple[int, int]] = []
        ends = iter(() if self.until is None else self.until.places(lines))
        end = -1
        for begin in self.begin.places(lines):
            if begin < end:
                continue
            end = next((place for place in ends if place > begin), len(lines))
            ranges.append((begin + 1, end))
        return ranges


def check_names(key: str, template: str, *names: str) -> None:
    """Raise ValueError if a template has names other than `names`."""
    Pattern("").check(key, template, *names)


def written(template: str, values: Mapping[str, object]) -> str:
    """Return `template` with each `{name}` replaced by its value, and each `{name|one|many}` by a count with
    its noun. A name without a value stays."""
    parts = list(_parts(template))
    for place in range(1, len(parts), 3):
        value = values.get(parts[place], f"{{{parts[place]}}}")
        _, one, many = (parts[place + 1] or "||").split("|")
        noun = one if value == 1 else many
        parts[place : place + 2] = [f"{value} {noun}" if noun else str(value), ""]
    return "".join(parts)


@cache
def _parts(template: str) -> tuple[str, ...]:
    """Return the parts of a template, in threes: a text, a name, and nouns such as `|line|lines`."""
    return tuple(_PLACEHOLDER.split(template))


def ended_of(rule: DropRule | FoldRule, lines: Pattern, pattern: MakePattern) -> Pattern | None:
    """Return the pattern of the lines that end a task; None if the rule has none. Raises ValueError if a
    pattern has no group `of`."""
    if rule.ended is None:
        return None
    lines.needs("of")
    return pattern(rule.ended).needs("of")


def unended(
    lines: Sequence[str], begun: Mapping[int, re.Match[str]], ended: Pattern | None
) -> Mapping[int, re.Match[str]]:
    """Return the last line of each task that no later line ends. In both patterns, the group `of` names the
    task. Lines without this group are ignored. A group `at` is the task's progress as a number. If the number
    falls, the task has begun again."""
    if ended is None or not begun:
        return {}
    open_ones: dict[str, int] = {}
    last: dict[int, re.Match[str]] = {}
    ends = {place: match for place, match in enumerate(ended.matches(lines)) if match is not None}
    for position in sorted({*begun, *ends}):
        if position in ends:
            open_ones.pop(ends[position].group("of"), None)
            continue
        match = begun[position]
        if (of := match.group("of")) is None:
            continue
        before = open_ones.get(of)
        if before is not None and _at(begun[before]) > _at(match):
            last[before] = begun[before]
        open_ones[of] = position
    return last | {position: begun[position] for position in open_ones.values()}


def _at(match: re.Match[str]) -> int:
    return int(match.group("at") or 0) if "at" in match.re.groupindex else 0
