"""A sample of search hits: every file with its number of hits, the hits that tell most, all line numbers.

[60 hits in 9 files]
src/api/carts.py: 12 hits
40:def total(carts):
[11 more: lines 44 51 60]
[48 hits in 8 more files: src/api/{orders.py 30, users.py 12} src/core/{tax.py 6}]
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from penumbra.compress.calls.classify import Call
from penumbra.compress.size import counted, cut, encode, head, size
from penumbra.compress.stages.new_facts import Facts
from penumbra.compress.stages.passages import NAME

_PROGRAMS = frozenset(
    {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep", "findstr", "Select-String"}
)
_HIT = re.compile(r"L?([0-9]{1,8})([:-])")
_LABELLED = re.compile(r"File: {1,4}(\S.{0,800})")
_PATH = re.compile(r"(?:[A-Za-z]:)?[^\s:]{0,400}[./\\][^\s:]{0,400}")
_ASKED = frozenset({"pattern", "query", "regex", "search", "symbol"})
"""Arguments that say what is looked for."""
_SEPARATORS = frozenset({"", "--", "---"})
_OTHERS = 8
"""Part of the room, as a divisor, for lines that are of no file: what a tool says of its search."""
_LONGEST = 240
"""Characters of a hit that are shown."""
_NUMBER_ROOM = 40
"""Most line numbers of hits that are told without their text, for each file."""
_NUMBER = 6
_NOTE = 40
"""Bytes of such a number, and of what stands around a file's name."""


@dataclass(slots=True)
class _File:
    """The lines found in one file."""

    name: str
    lines: list[str] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)
    hits: list[int] = field(default_factory=list)
    """Positions of the hits among the lines; the others stand around hits."""
    _seen: set[str] = field(default_factory=set)

    def add(self, line: str) -> None:
        """One more line; one that stands there is not counted again."""
        if line not in self._seen:
            self._seen.add(line)
            self.lines.append(line)

    def number(self, position: int) -> int:
        """The number of a line in its file."""
        found = _HIT.match(self.lines[position])
        return int(found[1]) if found else 0

    def find_hits(self) -> None:
        """To be called when all lines are there."""
        self.hits = [at for at, line in enumerate(self.lines) if (hit := _HIT.match(line)) and hit[2] == ":"]


def is_search(call: Call) -> bool:
    """True if the output of this command is lines found in files."""
    command = call.command
    if call.category == "grep" or call.family == "grep":
        return True
    return bool(command) and (command[0] in _PROGRAMS or command[:2] == ("git", "grep"))


def is_hit(line: str) -> bool:
    """True if a line below a file's name begins with its number."""
    return bool(_HIT.match(line))


def asked(call: Call, arguments: Any) -> frozenset[str]:
    """The names that a search looks for."""
    words = call.command[1:] if call.shell else [arguments] if isinstance(arguments, str) else []
    if isinstance(arguments, Mapping) and not call.shell:
        words = [value for key, value in arguments.items() if key in _ASKED and isinstance(value, str)]
    return frozenset(name for word in words for name in NAME.findall(word))


def sample(
    text: str,
    room: int,
    mentioned: Mapping[str, float] = MappingProxyType({}),
    asked: Container[str] = (),
    is_cut: bool = False,
) -> str | None:
    """The hits that fit into `room` bytes; None if the text is not grouped by file.

    `mentioned`: the names that the conversation has used before, and how much each weighs; `asked`: those
    that the search looks for. `is_cut`: some of the search's output did not come, so there may be more hits
    of each file.
    """
    grouped = _files(text)
    if grouped is None:
        return None
    files, others = grouped
    room -= 80
    notes = _first(others, room // _OTHERS)
    room -= sum(size(line) + 1 for line in notes)
    named = _named(files, room // 2)
    room -= sum(size(file.name) + _NOTE for file in named)
    plus = "+" if is_cut else ""
    more = _others(files[len(named) :], room - room // 4, plus)
    room -= size(more)
    numbers = min(_NUMBER_ROOM, max(0, room // 4) // (_NUMBER * len(named)))
    room = _fill(named, room - numbers * _NUMBER * len(named), mentioned, asked)
    _fill(named, room, mentioned, asked, around=True)
    lines = [line for file in named for line in _shown(file, numbers, plus)]
    return "\n".join([_counted(files, plus), *notes, *lines, *([more] if more else [])])


def heading(line: str, before: str, following: str) -> str:
    """The file that a line names for the hits below it; empty if it names none."""
    if not _HIT.match(following) or _HIT.match(line):
        return ""
    if labelled := _LABELLED.fullmatch(line):
        return labelled[1]
    if line.endswith(":"):
        return line[:-1]
    return line if before in _SEPARATORS and _PATH.fullmatch(line) else ""


def headings(text: str) -> dict[int, int]:
    """By number of a line that was found in a file, that of the line that names the file."""
    lines = text.split("\n")
    above: dict[int, int] = {}
    named = -1
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        if heading(line, lines[number - 1] if number else "", following):
            named = number
        elif named >= 0 and _HIT.match(line):
            above[number] = named
    return above


def _counted(files: Sequence[_File], plus: str) -> str:
    hits = sum(len(file.hits) for file in files)
    where = _at_least(len(files), "file", plus)
    if not hits:
        return f"[lines of {where}]"
    around = "; of the lines around them only some" if any(len(f.lines) > len(f.hits) for f in files) else ""
    return f"[{_at_least(hits, 'hit', plus)} in {where}{around}]"


def _at_least(count: int, noun: str, plus: str) -> str:
    """`12 hits`; `12+ hits` where there may be more."""
    return f"{count}{plus} {noun}s" if plus else counted(count, noun)


def _first(lines: Sequence[str], room: int) -> list[str]:
    """The first of the lines that name no file, and how many there are besides."""
    kept: list[str] = []
    for line in lines:
        room -= size(_short(line)) + 1
        if room < 0 and kept:
            break
        kept.append(_short(line))
    left = len(lines) - len(kept)
    return [*kept, f"[{counted(left, 'more line')} of no file]"] if left else kept


def _files(text: str) -> tuple[list[_File], list[str]] | None:
    """The hits by file, from lines below the files' names, and the lines of no file; None: it is not that."""
    groups: list[tuple[str, list[str]]] = []
    others: list[str] = []
    lines = text.split("\n")
    for position, line in enumerate(lines):
        following = lines[position + 1] if position + 1 < len(lines) else ""
        if name := heading(line, lines[position - 1] if position else "", following):
            groups.append((name, []))
        elif groups and _HIT.match(line):
            groups[-1][1].append(line)
        elif line not in _SEPARATORS:
            others.append(line)
    numbered = sum(len(inside) for _, inside in groups)
    if not numbered or len(others) * 3 > numbered:
        return None
    return _merged(groups), others


def _merged(groups: Sequence[tuple[str, list[str]]]) -> list[_File]:
    """Each file once, whatever the spellings of its name and however often it is named."""
    names = _spellings([name for name, _ in groups])
    files: dict[str, _File] = {}
    for name, lines in groups:
        file = files.setdefault(names[name], _File(name))
        file.name = max(file.name, name, key=len)
        for line in lines:
            file.add(line)
    for file in files.values():
        file.find_hits()
    return list(files.values())


def _spellings(names: Sequence[str]) -> dict[str, str]:
    """By spelling of a name, the one that stands for all of its file: absolute where there is one.

    A relative name is that of the absolute one that ends in it only if one folder explains all such pairs.
    """
    plain = {name: name.replace("\\", "/").removeprefix("./") for name in names}
    relative = {name for name in plain.values() if not _is_absolute(name)}
    ends: dict[str, dict[str, str]] = {}
    for full in set(plain.values()) - relative:
        for at in range(1, len(full)):
            if full[at - 1] == "/" and full[at:] in relative:
                ends.setdefault(full[:at], {})[full[at:]] = full
    same = next(iter(ends.values())) if len(ends) == 1 else {}
    return {name: same.get(spelled, spelled) for name, spelled in plain.items()}


def _is_absolute(name: str) -> bool:
    return name.startswith("/") or name[1:3] == ":/"


def _named(files: list[_File], room: int) -> list[_File]:
    """The first files whose names fit; at least one."""
    named: list[_File] = []
    for file in files:
        room -= size(file.name) + _NOTE
        if room < 0 and named:
            break
        named.append(file)
    return named


def _others(files: Sequence[_File], room: int, plus: str) -> str:
    """Names of further files with their numbers of hits, by folder, as far as they fit."""
    if not files:
        return ""
    hits = sum(len(file.hits) for file in files)
    told: dict[str, list[str]] = {}
    left = room - _NOTE
    for file in files:
        cut = max(file.name.rfind("/"), file.name.rfind("\\")) + 1
        count = f" {len(file.hits)}{plus}" if file.hits else ""
        folder, name = file.name[:cut], f"{file.name[cut:]}{count}"
        left -= size(name) + 2 + (0 if folder in told else size(folder) + 3)
        if left < 0:
            break
        told.setdefault(folder, []).append(name)
    names = [f"{folder}{{{', '.join(inside)}}}" for folder, inside in told.items()]
    unnamed = len(files) - sum(map(len, told.values()))
    end = f"; {unnamed} of them are not named" if names and unnamed else ""
    where = _at_least(len(files), "more file", plus)
    return f"[{_at_least(hits, 'hit', plus)} in {where}{': ' if names else ''}{' '.join(names)}{end}]"


def _fill(
    files: Sequence[_File],
    room: int,
    mentioned: Mapping[str, float],
    asked: Container[str],
    around: bool = False,
) -> int:
    """Choose the hits, or the lines around them, that tell most of what is new; the bytes that are left."""
    lines = [
        (file, position)
        for file in files
        for position in (sorted({*range(len(file.lines))} - {*file.hits}) if around else file.hits)
    ]
    contents = [encode(_HIT.sub("", file.lines[position], count=1)[:_LONGEST]) for file, position in lines]
    costs = [size(_short(file.lines[position])) + 1 for file, position in lines]
    for index in Facts.of(contents, mentioned, asked).fill(costs, room):
        file, position = lines[index]
        file.shown.add(position)
        room -= costs[index]
    return room


def _shown(file: _File, most: int, plus: str) -> list[str]:
    """The lines chosen of one file, and at most that many numbers of the hits that were not."""
    missing = [position for position in file.hits if position not in file.shown]
    lines = [f"{file.name}: {_at_least(len(file.hits), 'hit', plus)}" if missing else f"{file.name}:"]
    lines += [_short(file.lines[position]) for position in sorted(file.shown, key=file.number)]
    numbers = [found[1] for position in missing[:most] if (found := _HIT.match(file.lines[position]))]
    if missing:
        more = " ..." if len(missing) > len(numbers) and numbers else ""
        noun = "line" if len(missing) == 1 else "lines"
        where = f": {noun} {' '.join(numbers)}{more}" if numbers else ""
        lines.append(f"[{len(missing)} {'more' if file.shown else 'left out'}{where}]")
    return lines


def _short(line: str) -> str:
    if len(line) <= _LONGEST:
        return line
    return cut(line, len(head(line[:_LONGEST], 2 * _LONGEST)))
