"""This module has the steps of a family rule that group, join, rewrite or drop lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress

from penumbra.compress.critical_lines import CriticalLines, says_as_much
from penumbra.compress.families.patterns import (
    LINE_LIMIT,
    MakePattern,
    Pattern,
    check_names,
    ended_of,
    unended,
    written,
)
from penumbra.compress.size import counted
from penumbra.rule_schemas.command_rules import (
    DropRule,
    GroupRule,
    HoistRule,
    JoinRule,
    NestRule,
    RewriteRule,
    SameRule,
)

_BLANK = re.compile(r"\s")


@dataclass(slots=True)
class Group:
    """The step `group` writes the common beginning of a run of lines once, above the run."""

    rule: GroupRule
    pattern: Pattern
    also: Pattern | None
    through: Pattern | None

    @classmethod
    def of(cls, rule: GroupRule, pattern: MakePattern) -> Group:
        check_names("header", rule.header, "key")
        check_names("line", rule.line, "rest")
        also = None if rule.also is None else pattern(rule.also).needs("rest")
        through = None if rule.through is None else pattern(rule.through)
        return cls(rule, pattern(rule.group).needs("key", "rest"), also, through)

    def __call__(self, lines: list[str], critical: CriticalLines) -> list[str]:
        keyed = self._keyed(lines)
        if not any(keyed):
            return lines
        before, _, after = self.rule.line.partition("{rest}")
        # If a run needs two lines or more, no run begins at a line whose next line has another key.
        is_easy = self.rule.least > 1 and self.through is None
        keyed.append(None)
        out: list[str] = []
        position = 0
        while position < len(lines):
            entry = keyed[position]
            following = keyed[position + 1]
            if entry is None or (is_easy and (following is None or following[0] != entry[0])):
                out.append(lines[position])
                position += 1
                continue
            end = self._end(lines, keyed, position, entry[0])
            if end - position - keyed[position:end].count(None) >= self.rule.least:
                out.append(written(self.rule.header, {"key": entry[0]}))
                out += [
                    lines[at] if keyed_line is None else before + keyed_line[1] + after
                    for at, keyed_line in enumerate(keyed[position:end], position)
                ]
            else:
                out += lines[position:end]
            position = end
        return out

    def _keyed(self, lines: list[str]) -> list[tuple[str, str] | None]:
        """Return each line's key and the text after the key, or None. Context lines get a neighbour's key."""
        is_short = max(map(len, lines), default=0) <= LINE_LIMIT
        beginnings = lines if is_short else [line[:LINE_LIMIT] for line in lines]
        rest = self.pattern.group("rest")
        keyed = [
            (match.group("key"), line[match.start(rest) :]) if match else None
            for line, match in zip(lines, self.pattern.matches(beginnings), strict=True)
        ]
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
                match = self.also.match_from(line, len(key))
                if match:
                    keyed[position] = (key, line[match.start(self.also.group("rest")) :])

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
class Hoist:
    """The step `hoist` writes values once before a run of lines that share them."""

    rule: HoistRule
    pattern: Pattern

    @classmethod
    def of(cls, rule: HoistRule, pattern: MakePattern) -> Hoist:
        return cls(rule, pattern(rule.hoist).needs(*rule.columns, *rule.fields))

    def __call__(self, lines: list[str], critical: CriticalLines) -> list[str]:
        out: list[str] = []
        run: list[re.Match[str]] = []
        for line, match in zip(lines, self.pattern.matches(lines), strict=True):
            if match:
                run.append(match)
                continue
            out += self._hoisted(run)
            out.append(line)
            run = []
        return out + self._hoisted(run)

    def _hoisted(self, run: list[re.Match[str]]) -> list[str]:
        rows = [{name: self._value(match, name) for name in self.rule.columns} for match in run]
        shared = self._shared(rows) if len(rows) >= self.rule.least else {}
        usual = {name for name in shared if any(row[name] != shared[name] for row in rows)}
        lines = [self._line(row, shared, usual) for row in rows]
        if not shared:
            return lines
        columns = [
            f"{self.rule.fields[name]} {value}{' unless stated' if name in usual else ''}"
            for name, value in shared.items()
        ]
        return [f"[{', '.join(columns)} in each of the next {counted(len(rows), 'line')}]", *lines]

    def _line(self, row: dict[str, str], shared: dict[str, str], usual: set[str]) -> str:
        """Return a row without the shared values. A usual value stays if the row without it would look like a
        whole row."""

        def stays(name: str, value: str) -> bool:
            if value != shared.get(name):
                return True
            others = [other for column, other in row.items() if column != name]
            return name in usual and self.pattern.match(" ".join(others)) is not None

        return " ".join(value for name, value in row.items() if stays(name, value))

    def _value(self, match: re.Match[str], name: str) -> str:
        return " ".join(match.group(name).split()) if name in self.rule.fields else match.group(name)

    def _shared(self, rows: list[dict[str, str]]) -> dict[str, str]:
        """Return the values that are written before the rows, by column."""
        shared: dict[str, str] = {}
        for name in self.rule.fields:
            value, count = Counter(row[name] for row in rows).most_common(1)[0]
            if count == len(rows) or (name in self.rule.usual and 2 * count > len(rows)):
                shared[name] = value
        return shared


_Run = Callable[[list[str], CriticalLines], list[str]]


def same(rule: SameRule, make: MakePattern) -> _Run:
    """Return the step `same`. If all matching lines are equal, the step replaces them by one statement."""
    check_names("say", rule.say, "line", "n")
    pattern = make(rule.same)

    def run(lines: list[str], critical: CriticalLines) -> list[str]:
        places = pattern.places(lines)
        if len(places) < rule.least or len({lines[place] for place in places}) > 1:
            return lines
        first, gone = places[0], set(places[1:])
        mark = written(rule.say, {"n": len(places), "line": lines[first].strip()})
        return [mark if at == first else line for at, line in enumerate(lines) if at not in gone]

    return run


def drop(rule: DropRule, make: MakePattern) -> _Run:
    """Return the step `drop`. The step removes decoration, and lines for which a later line is enough."""
    pattern = make(rule.drop)
    ended = ended_of(rule, pattern, make)

    def run(lines: list[str], critical: CriticalLines) -> list[str]:
        matches = {place: match for place, match in enumerate(pattern.matches(lines)) if match is not None}
        last = unended(lines, matches, ended)
        gone = matches.keys() - last.keys()
        if not rule.safe:
            gone -= critical.among(lines, gone)
        return [line for place, line in enumerate(lines) if place not in gone] if gone else lines

    return run


def rewrite(rule: RewriteRule, make: MakePattern) -> _Run:
    """Return the step `rewrite`. The step replaces a matching line by a new text with the line's named
    groups. A critical line stays if the new text would be less severe."""
    pattern = make(rule.rewrite)
    pattern.check("to", rule.to)
    form = pattern.form(rule.to).format

    def run(lines: list[str], critical: CriticalLines) -> list[str]:
        matches = list(pattern.matches(lines))
        if not any(matches):
            return lines
        new = list(lines)
        places = list(compress(range(len(lines)), matches))
        for position in places:
            match = matches[position]
            assert match is not None
            new[position] = form(*match.groups(""))
        for position in critical.among(lines, places):
            if not says_as_much(lines[position], new[position]):
                new[position] = lines[position]
        return new

    return run


def join(rule: JoinRule, make: MakePattern) -> _Run:
    """Return the step `join`. The step writes consecutive lines with the same indentation in rows of limited
    length. Critical lines and lines with a blank stay."""
    pattern = make(rule.join)

    def run(lines: list[str], critical: CriticalLines) -> list[str]:
        places = {place for place in pattern.places(lines) if not _BLANK.search(lines[place].strip())}
        places -= critical.among(lines, places)
        out: list[str] = []
        above = -1
        for place, line in enumerate(lines):
            bare = line.lstrip(" ")
            indentation = len(line) - len(bare) if place in places else -1
            if indentation == above >= 0 and len(out[-1]) + len(bare) < rule.width:
                out[-1] = out[-1].removesuffix("\r") + " " + bare
            else:
                out.append(line)
            above = indentation
        return out

    return run


def nest(rule: NestRule, make: MakePattern) -> _Run:
    """Return the step `nest`. The step writes each folder's lines, indented, below its entry in the parent
    folder. A folder ends at a blank line. A match without a path ends all folders."""
    pattern = make(rule.nest).needs("path")

    def run(lines: list[str], critical: CriticalLines) -> list[str]:
        matches = list(pattern.matches(lines))
        paths = ["" if match is None else match.group("path") or "" for match in matches]
        is_cut = [match is not None and not path for match, path in zip(matches, paths, strict=True)]
        is_first = [True, *(not line.strip() or cut for line, cut in zip(lines, is_cut, strict=True))]
        if any(path and not is_first[place] for place, path in enumerate(paths)):
            # A heading follows a blank line or a cut. Any other line with a path may name a file.
            return lines
        out: list[str] = []
        gone: set[int] = set()
        folders: list[tuple[str, dict[str, int]]] = []
        for place, (line, path) in enumerate(zip(lines, paths, strict=True)):
            if not path and (is_first[place] or is_cut[place]):
                folders.clear()
            while path and folders and not path.startswith(folders[-1][0] + "/"):
                folders.pop()
            written = line
            if folders:
                around, entries = folders[-1]
                if path:
                    written = line[len(around) + 1 :]
                    name = path[len(around) + 1 :]
                    # The indented heading stands for the folder's entry and for the blank line.
                    gone.update(entries[entry] for entry in (name, name + "/") if entry in entries)
                    gone.add(len(out) - 1)
                else:
                    entries[line.rstrip("\r")] = len(out)
            out.append(" " * len(folders) + written if written.strip() else written)
            if path:
                folders.append((path, {}))
        return [line for place, line in enumerate(out) if place not in gone]

    return run
