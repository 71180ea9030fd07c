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

_RANGE = r"[0-9]{1,9}(?:,[0-9]{1,9})?"
_HEAD = re.compile(rf"@@+ (?:-{_RANGE} )+\+{_RANGE} @@+|## -{_RANGE} \+{_RANGE} ##")
"""The head of a hunk: of two files, of several versions and their merge, of a property."""
_OPENS = re.compile(
    r"diff -|Index: |Only in |(?:Binary files|Files) .* differ\r?\Z|Property changes on: "
    r"|(?:commit|From|changeset:) +[0-9a-f:]{7,40}"
)
"""Lines outside of hunks with which a file, or what is said of several, begins."""
_NAMES = (
    re.compile(r"\+\+\+ (?!/dev/null)(?P<name>\S.*)"),
    re.compile(r"--- (?!/dev/null)(?P<name>\S.*)"),
    re.compile(r"(?:Index|Property changes on): (?P<name>\S.*)"),
    re.compile(r"diff -.* (?:b/)?(?P<name>\S+)\s*\Z"),
)
"""Lines above hunks that name a file; the surest first."""
_NOTE = 40
"""Bytes of a note on what is left out, without the file's name."""
_PLACE = 90
"""Bytes of a note on hunks beside one that is shown."""
_BEGINNING = 300
"""Bytes below which the beginning of a hunk is not worth showing."""


@dataclass(slots=True)
class _Hunk:
    lines: list[str]
    versions: int = 1
    """Versions that a merge is compared with: columns in front of each line."""
    shown: int = 0
    """Lines that are shown."""

    @property
    def place(self) -> str:
        """The head of the hunk without the name of its function."""
        head = _HEAD.match(self.lines[0])
        return head[0] if head is not None else ""

    def size(self) -> int:
        return size("\n".join(self.lines)) + 1

    def added(self) -> int:
        """Lines that it adds, of those that are not shown."""
        return self._count("+")

    def removed(self) -> int:
        return self._count("-")

    def _count(self, sign: str) -> int:
        return sum(sign in line[: self.versions] for line in self.lines[max(1, self.shown) :])

    def excerpt(self) -> list[str]:
        """The lines that are shown, and a count of the others."""
        rest = len(self.lines) - self.shown
        if not rest:
            return self.lines
        more = f"[{counted(rest, 'more line')} of this hunk left out: "
        return [*self.lines[: self.shown], f"{more}+{self.added()} -{self.removed()}]"]


@dataclass(slots=True)
class _File:
    """A file of a diff, or what stands between files (a commit's message), which has no hunks."""

    header: list[str]
    hunks: list[_Hunk] = field(default_factory=list)
    opened: bool = False
    """Some hunk of it is shown, or what has none, and so its header."""
    placed: bool = False
    """Of hunks none of which is shown it is said where they stand."""

    @property
    def name(self) -> str:
        """The file's name, from the surest of the lines above its hunks."""
        found = (match["name"] for form in _NAMES for line in self.header if (match := form.match(line)))
        name = next(found, self.header[0] if self.header else "").split("\t")[0].rstrip("\r")
        is_marked = any(line.startswith(("--- a/", "--- /dev/null")) for line in self.header)
        return name.removeprefix("b/") if is_marked else name

    def opening(self) -> int:
        """Bytes that its first hunk costs beyond itself."""
        return 0 if self.opened else self.header_size()

    def header_size(self) -> int:
        return sum(size(line) + 1 for line in self.header)

    def least(self) -> int:
        """Bytes without any of its hunks."""
        if self.hunks:
            return size(self.name) + _NOTE
        return min(self.header_size(), size(self.header[0]) + _NOTE)


def sample(text: str, room: int) -> str | None:
    """The diff within `room` bytes; None if it has no hunks, or its files' names alone need more."""
    files = _files(text.split("\n"))
    if not any(file.hunks for file in files):
        return None
    room -= sum(file.least() for file in files)
    if room < 0:
        return None
    room = _choose(files, room)
    for file in files:
        places = _places(file.hunks) if file.hunks and not file.opened else ""
        if places and size(places) + 2 <= room:
            file.placed = True
            room -= size(places) + 2
    return "\n".join(line for file in files for line in _shown(file))


def _files(lines: list[str]) -> list[_File]:
    """The files of a diff in order, each with the lines above its first hunk."""
    files = [_File([])]
    position = 0
    while position < len(lines):
        head = _HEAD.match(lines[position])
        if head is not None:
            end = _end(lines, position, announced := _announced(head))
            files[-1].hunks.append(_Hunk(lines[position:end], len(announced) - 1))
            position = end
            continue
        line = lines[position]
        # Lines between hunks belong to the next file, as do the names of two files after others.
        is_named = line[:4] == "--- " and any(above[:4] == "+++ " for above in files[-1].header)
        if files[-1].hunks or is_named or _OPENS.match(line):
            files.append(_File([]))
        files[-1].header.append(line)
        position += 1
    return [file for file in files if file.header or file.hunks]


def _announced(head: re.Match[str]) -> list[int]:
    """The number of lines that a hunk's head announces for each old version, and for the new one."""
    counts = (part.partition(",")[2] for part in head[0].split()[1:-1])
    return [int(count or 1) for count in counts]


def _end(lines: list[str], start: int, announced: list[int]) -> int:
    """The line after a hunk's last one.

    The hunk ends where it has all the lines that its head announces. Where unchanged lines were left out of
    it, it ends with the last line that may be of a hunk; a mail's signature is none.
    """
    missing = list(announced)
    versions = len(missing) - 1
    position = start + 1
    while position < len(lines) and any(missing):
        signs = lines[position][:versions].rstrip("\r")
        if signs[:1] == "\\":
            position += 1
            continue
        if signs.strip(" +-") or (_is_named(lines, position) and missing != [1, 1]):
            break
        is_new = "-" not in signs
        for version in range(versions):
            sign = signs[version : version + 1]
            missing[version] -= sign == "-" or (is_new and sign != "+")
        missing[-1] -= is_new
        position += 1
    if any(missing):
        while not lines[position - 1]:
            position -= 1
        if lines[position - 1].rstrip("\r") == "-- " and len({missing[0] + 1, *missing[1:]}) == 1:
            position -= 1
    while lines[position : position + 1] and lines[position][:1] == "\\":
        position += 1
    return position


def _is_named(lines: list[str], position: int) -> bool:
    """True if the two names of a file stand here, above a hunk."""
    above = [line[:4] for line in lines[position : position + 3]]
    return len(above) == 3 and above[:2] == ["--- ", "+++ "] and above[2][:3] in ("@@ ", "@@@")


def _choose(files: list[_File], room: int) -> int:
    """Mark hunks as shown: the first of each file, the second of each, and so on while they fit. The bytes
    that are left."""
    for file in files:
        cost = file.header_size() - file.least()
        if not file.hunks and cost <= room:
            file.opened = True
            room -= cost
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
    if not file.opened and not file.hunks:
        return [file.header[0], f"[{counted(len(file.header) - 1, 'more line')} left out]"]
    if file.hunks and len(missing) == len(file.hunks):
        name = f"{file.name}: " if file.name else ""
        where = f"; {_places(missing)}" if file.placed else ""
        return [f"[{name}{counted(len(missing), 'hunk')} left out: {_counts(missing)}{where}]"]
    lines = list(file.header)
    for is_shown, hunks in groupby(file.hunks, key=lambda hunk: hunk.shown > 0):
        if is_shown:
            lines += [line for hunk in hunks for line in hunk.excerpt()]
        else:
            lines.append(_missing(list(hunks), len(file.hunks)))
    return lines


def _missing(hunks: list[_Hunk], count: int) -> str:
    """The marker in place of consecutive hunks."""
    return f"[{len(hunks)} of {counted(count, 'hunk')} left out: {_counts(hunks)}; {_places(hunks)}]"


def _places(hunks: list[_Hunk]) -> str:
    """Where the first and the last of hunks stand; empty if they don't say it."""
    return " to ".join(dict.fromkeys([hunks[0].place, hunks[-1].place]))


def _counts(hunks: list[_Hunk]) -> str:
    return f"+{sum(hunk.added() for hunk in hunks)} -{sum(hunk.removed() for hunk in hunks)}"
