"""A sample of search hits: every file with its number of hits, the hits that tell most, all line numbers.

[60 hits in 9 files]
src/api/carts.py: 12 hits
40:def total(carts):
[11 more: lines 44 51 60]
[48 hits in 8 more files: src/api/{orders.py 30, users.py 12} src/core/{tax.py 6}]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from penumbra.compress.calls.classify import Call
from penumbra.compress.size import encode, head, size
from penumbra.compress.stages.new_facts import Facts

_PROGRAMS = frozenset(
    {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep", "findstr", "Select-String"}
)
_HIT = re.compile(r"([0-9]{1,8})([:-])")
_LONGEST = 240
"""Characters of a hit that are shown."""
_NUMBERS = 40
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
    """Positions of the hits; of all lines if they can't be told from the lines around them."""

    def find_hits(self) -> None:
        """To be called when all lines are there."""
        found = [at for at, line in enumerate(self.lines) if (hit := _HIT.match(line)) and hit[2] == ":"]
        self.hits = found or list(range(len(self.lines)))


def is_search(call: Call) -> bool:
    """Whether the output of this command is lines found in files."""
    command = call.command
    if call.category == "grep" or call.family == "grep":
        return True
    return bool(command) and (command[0] in _PROGRAMS or command[:2] == ("git", "grep"))


def is_hit(line: str) -> bool:
    """Whether a line below a file's name begins with its number."""
    return bool(_HIT.match(line))


def sample(text: str, room: int, mentioned: Mapping[str, float] = MappingProxyType({})) -> str | None:
    """The hits that fit into `room` bytes; None if the text is not grouped by file.

    `mentioned`: the names that the conversation has used before, and how much each weighs.
    """
    files = _files(text)
    if files is None:
        return None
    total = sum(len(file.hits) for file in files)
    room -= 80
    named = _named(files, room // 2)
    room -= sum(size(file.name) + _NOTE for file in named)
    more = _others(files[len(named) :], room - room // 4)
    room -= size(more)
    numbers = min(_NUMBERS, max(0, room // 4) // (_NUMBER * len(named)))
    _fill(named, room - numbers * _NUMBER * len(named), mentioned)
    lines = [line for file in named for line in _shown(file, numbers)]
    return "\n".join([f"[{total} hits in {len(files)} files]", *lines, *([more] if more else [])])


def _files(text: str) -> list[_File] | None:
    """The hits by file, from lines below `name:` lines."""
    files: list[_File] = []
    lines = text.split("\n")
    for position, line in enumerate(lines):
        following = lines[position + 1] if position + 1 < len(lines) else ""
        if line.endswith(":") and _HIT.match(following) and not _HIT.match(line):
            files.append(_File(line[:-1]))
        elif line and line != "--" and files:
            files[-1].lines.append(line)
    if sum(len(file.lines) for file in files) * 2 <= len(lines):
        return None
    for file in files:
        file.find_hits()
    return files


def _named(files: list[_File], room: int) -> list[_File]:
    """The first files whose names fit; at least one."""
    named: list[_File] = []
    for file in files:
        room -= size(file.name) + _NOTE
        if room < 0 and named:
            break
        named.append(file)
    return named


def _others(files: Sequence[_File], room: int) -> str:
    """Names of further files with their numbers of hits, by folder, as far as they fit."""
    if not files:
        return ""
    hits = sum(len(file.hits) for file in files)
    told: dict[str, list[str]] = {}
    left = room - _NOTE
    for file in files:
        cut = file.name.rfind("/") + 1
        folder, name = file.name[:cut], f"{file.name[cut:]} {len(file.hits)}"
        left -= size(name) + 2 + (0 if folder in told else size(folder) + 3)
        if left < 0:
            break
        told.setdefault(folder, []).append(name)
    names = [f"{folder}{{{', '.join(inside)}}}" for folder, inside in told.items()]
    unnamed = len(files) - sum(map(len, told.values()))
    end = f"; {unnamed} of them are not named" if names and unnamed else ""
    return f"[{hits} hits in {len(files)} more files{': ' if names else ''}{' '.join(names)}{end}]"


def _fill(files: Sequence[_File], room: int, mentioned: Mapping[str, float]) -> None:
    """Choose the hits that tell most of what is new, while there is room."""
    hits = [(file, position) for file in files for position in file.hits]
    contents = [encode(_HIT.sub("", file.lines[position], count=1)[:_LONGEST]) for file, position in hits]
    costs = [min(size(file.lines[position]), 2 * _LONGEST) + 1 for file, position in hits]
    for index in Facts.of(contents, mentioned).fill(costs, room):
        file, position = hits[index]
        file.shown.add(position)


def _shown(file: _File, most: int) -> list[str]:
    """The lines chosen of one file, and at most that many numbers of those that were not."""
    hits = file.hits
    lines = [f"{file.name}: {len(hits)} hits" if len(hits) > len(file.shown) else f"{file.name}:"]
    lines += [_short(file.lines[position]) for position in sorted(file.shown)]
    missing = [position for position in hits if position not in file.shown]
    numbers = [found[1] for position in missing[:most] if (found := _HIT.match(file.lines[position]))]
    if missing:
        more = " ..." if len(missing) > len(numbers) and numbers else ""
        where = f": lines {' '.join(numbers)}{more}" if numbers else ""
        lines.append(f"[{len(missing)} more{where}]")
    return lines


def _short(line: str) -> str:
    if len(line) <= _LONGEST:
        return line
    kept = head(line[:_LONGEST], 2 * _LONGEST)
    return f"{kept} [{len(line) - len(kept)} characters left out]"
