"""A sample of a long diff: every file with its counts, whole hunks while there is room, then beginnings.

diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py
@@ -1,4 +1,5 @@
...
@@ -90,6 +91,230 @@ def main():
...
[190 more lines of this hunk left out: +190 -0]
[1 of 3 hunks left out: +41 -7; @@ -400,9 +631,50 @@]
[y.py: 5 hunks left out: +90 -12]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import groupby

from penumbra.compress.size import counted, size

_FILE = re.compile(r"diff --(?:git|cc|combined) (?:a/)?(?P<name>\S.*)\Z|--- (?P<old>\S.*)\Z")
_RENAMED = re.compile(r" b/(?=\S)")
_NOTE = 40
"""Bytes of a note on what is left out, without the file's name."""


_PLACE = 90
"""Bytes of a note on hunks beside one that is shown."""
_BEGINNING = 300
"""Bytes below which the beginning of a hunk is not worth showing."""


@dataclass(slots=True)
class _Hunk:
    lines: list[str]
    shown: int = 0
    """Lines that are shown."""
    old: int = 0
    """Lines that it has of the old file."""

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.old += line[:1] in (" ", "", "-")

    def size(self) -> int:
        return size("\n".join(self.lines)) + 1

    def added(self) -> int:
        """Lines that it adds, of those that are not shown."""
        return sum(line[:1] == "+" for line in self.lines[max(1, self.shown) :])

    def removed(self) -> int:
        return sum(line[:1] == "-" for line in self.lines[max(1, self.shown) :])

    def excerpt(self) -> list[str]:
        """The lines that are shown, and what is said of the others."""
        rest = len(self.lines) - self.shown
        if not rest:
            return self.lines
        more = f"[{counted(rest, 'more line')} of this hunk left out: "
        return [*self.lines[: self.shown], f"{more}+{self.added()} -{self.removed()}]"]


@dataclass(slots=True)
class _File:
    name: str
    header: list[str]
    hunks: list[_Hunk] = field(default_factory=list)
    opened: bool = False
    """Some hunk of it is shown, and so its header."""
    placed: bool = False
    """Of hunks none of which is shown it is said where they stand."""

    def opening(self) -> int:
        """Bytes that its first hunk costs beyond itself."""
        return 0 if self.opened else sum(size(line) + 1 for line in self.header)


def sample(text: str, room: int) -> str | None:
    """The diff within `room` bytes; None if it has no hunks, or its files' names alone need more."""
    before, files = _files(text.split("\n"))
    if not any(file.hunks for file in files):
        return None
    room -= sum(size(line) + 1 for line in before)
    room -= sum(size(file.name) + _NOTE for file in files)
    if room < 0:
        return None
    room = _choose(files, room)
    for file in files:
        places = _places(file.hunks) if file.hunks and not file.opened else ""
        if places and size(places) + 2 <= room:
            file.placed = True
            room -= size(places) + 2
    return "\n".join([*before, *(line for file in files for line in _shown(file))])


def _files(lines: list[str]) -> tuple[list[str], list[_File]]:
    """(lines in front of the first file, files)."""
    before: list[str] = []
    files: list[_File] = []
    for line in lines:
        if files and files[-1].hunks and line[:1] in (" ", "+"):
            files[-1].hunks[-1].add(line)
            continue
        match = _FILE.match(line) if line[:4] in ("diff", "--- ") else None
        inside = bool(files) and not files[-1].hunks and line[:4] == "--- "
        if match and not inside and (line[:1] == "d" or not files or _is_over(files[-1])):
            files.append(_File(_name(match), [line]))
        elif not files:
            before.append(line)
        elif line[:2] == "@@":
            files[-1].hunks.append(_Hunk([line]))
        elif files[-1].hunks:
            files[-1].hunks[-1].add(line)
        else:
            files[-1].header.append(line)
    return before, files


def _is_over(file: _File) -> bool:
    """Whether the last hunk has all the lines that its head announces."""
    if not file.hunks:
        return False
    hunk = file.hunks[-1]
    counts = re.match(r"@@ -[0-9]+(?:,([0-9]+))? \+[0-9]+(?:,([0-9]+))? @@", hunk.lines[0])
    if counts is None:
        return True
    return hunk.old >= int(counts[1] or 1)


def _name(match: re.Match[str]) -> str:
    name = match["name"] or match["old"] or ""
    return _RENAMED.split(name)[-1].split("\t")[0]


def _choose(files: list[_File], room: int) -> int:
    """Mark hunks as shown: the first of each file, the second of each, and so on while they fit. The bytes
    that are left."""
    waiting = [(file, iter(file.hunks)) for file in files]
    while waiting:
        still = []
        for file, hunks in waiting:
            hunk = next(hunks, None)
            if hunk is None:
                continue
            still.append((file, hunks))
            cost = hunk.size() + file.opening() + _PLACE
            if cost <= room:
                hunk.shown = len(hunk.lines)
                file.opened = True
                room -= cost
        waiting = still
    return _begin([(file, hunk) for file in files for hunk in file.hunks if not hunk.shown], room)


def _begin(hunks: list[tuple[_File, _Hunk]], room: int) -> int:
    """Show the beginnings of hunks that are too large, each with its share of what room is left. The bytes
    that are left then."""
    for index, (file, hunk) in enumerate(hunks):
        if room < _BEGINNING:
            return room
        share = max(room // (len(hunks) - index), min(room, 2 * _BEGINNING))
        share -= 2 * _NOTE + file.opening()
        if share < _BEGINNING:
            continue
        used = count = 0
        while count < len(hunk.lines) - 1 and used + size(hunk.lines[count]) + 1 <= share:
            used += size(hunk.lines[count]) + 1
            count += 1
        if count > 1:
            room -= used + 2 * _NOTE + file.opening()
            file.opened = True
            hunk.shown = count
    return room


def _shown(file: _File) -> list[str]:
    missing = [hunk for hunk in file.hunks if not hunk.shown]
    if file.hunks and len(missing) == len(file.hunks):
        where = f"; {_places(missing)}" if file.placed else ""
        return [f"[{file.name}: {counted(len(missing), 'hunk')} left out: {_counts(missing)}{where}]"]
    lines = list(file.header)
    for is_shown, hunks in groupby(file.hunks, key=lambda hunk: hunk.shown > 0):
        if is_shown:
            lines += [line for hunk in hunks for line in hunk.excerpt()]
        else:
            lines.append(_missing(list(hunks), len(file.hunks)))
    return lines


def _missing(hunks: list[_Hunk], count: int) -> str:
    """What stands in the place of hunks that follow each other, of so many."""
    return f"[{len(hunks)} of {counted(count, 'hunk')} left out: {_counts(hunks)}; {_places(hunks)}]"


def _places(hunks: list[_Hunk]) -> str:
    """Where the first and the last of hunks stand; empty if they don't say it."""
    places = [hunk.lines[0][: hunk.lines[0].find("@@", 2) + 2] for hunk in (hunks[0], hunks[-1])]
    return " to ".join(dict.fromkeys(place for place in places if place))


def _counts(hunks: list[_Hunk]) -> str:
    return f"+{sum(hunk.added() for hunk in hunks)} -{sum(hunk.removed() for hunk in hunks)}"
