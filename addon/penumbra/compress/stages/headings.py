"""Headings are lines that name what other lines are about, such as titles in prose and files above hits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from penumbra.compress.line_flags import LineFlags
from penumbra.compress.stages import folding, search_hits

_LONGEST = 240
"""A line with more characters opens no block."""
_BELOW = 30
"""The greatest number of lines that belong to one title."""
_HEADER = 8
"""The greatest number of lines that name a file above its first hunk."""
_PLACE = re.compile(r"(?<![\w@$./\\-])[\w@$./\\-]{1,240}\.\w{1,8}\W{0,6}?(?::|#L|(?:lines? ?|L))[0-9]")
"""A file with a line number."""
_BEGINS = 240
"""The number of characters at the beginning of a line that are searched for a place."""
_NEXT = re.compile(r" in each of the next ([0-9]{1,7}) lines?\]$")
"""The end of a line that states columns for the next lines."""
_INDENT = " \t\xa0│├└─"
"""Blanks and the characters that draw trees."""
_BRANCHES = frozenset("│├└")
_OPENS = ":{[("
"""Last characters of lines that open a block."""


def definitions(flags: LineFlags) -> list[int]:
    """Return the positions of titles and definitions, the least indented first."""
    lines = flags.lines
    return sorted(flags["definition"], key=lambda at: len(lines[at]) - len(lines[at].lstrip()))


class Headings(Struct, frozen=True):
    """The headings of the lines of a text. Line numbers begin with 0."""

    needs: Mapping[int, list[int]]
    """For each line, by its number, the lines that a reader needs to understand it."""
    first: list[int]
    """The headings that are chosen before other lines: files with hits or changes, and titles of a page."""
    named: Mapping[int, int]
    """For each line, by its number, the line that names its file or service."""

    @classmethod
    def of(
        cls, flags: LineFlags, *, is_search: bool, is_page: bool, is_diff: bool, is_grouped: bool
    ) -> Headings:
        """Return the headings of a text. `is_grouped` is true if an earlier stage wrote some of them."""
        if is_diff:
            hunks = hunks_above(flags)
            files = {names[-1] for names in hunks.values() if names and names[-1] not in hunks}
            return cls(hunks, sorted(files), {})
        shared = shared_above(flags) if is_grouped else {}
        files_of = files_above(flags)
        # The place of a message is in the line below the message.
        named = shared or files_of | {at - 1: at for at in flags["arrow"] if at}
        found = shared or search_hits.headings(flags) or above(flags) | files_of
        first = sorted(set(found.values())) if is_search or is_page else []
        found = found if shared or is_search else found | opened_above(flags)
        needs: dict[int, list[int]] = {}
        for pairs in (found, places(flags, found)):
            for number, heading in pairs.items():
                needs.setdefault(number, []).append(heading)
        for number, counted in folding.counted_lines(flags.lines).items():
            needs.setdefault(number, []).extend(range(counted, number))
        return cls(needs, first, named)


def hunks_above(flags: LineFlags) -> dict[int, list[int]]:
    """Map each line of a hunk to the hunk's first line, and that line to the lines with its file and
    commit."""
    lines = flags.lines
    above: dict[int, list[int]] = {}
    commit: list[int] = []
    file: list[int] = []
    hunk, is_named = -1, True
    hunks, commits, files = flags["hunk"], flags["commit"], flags["changed file"]
    for number, line in enumerate(lines):
        if number in hunks:
            hunk, is_named = number, True
            above[number] = [*commit, *file]
        elif number in commits:
            commit, file, hunk = [number], [], -1
        elif number in files or (
            line[:4] == "--- " and "".join(lines[number + 1 : number + 2])[:4] == "+++ "
        ):
            file = [number] if is_named else [*file, number][-_HEADER:]
            hunk, is_named = -1, False
        elif hunk >= 0:
            above[number] = [hunk]
        elif line[:4] == "+++ ":
            file = [*file, number][-_HEADER:]
    return above


def above(flags: LineFlags) -> dict[int, int]:
    """Map the lines below each title to the title."""
    titles: dict[int, int] = {}
    for title, following in pairwise([*flags["title"], len(flags.lines)]):
        for number in range(title + 1, min(following, title + 1 + _BELOW)):
            if flags.lines[number].strip():
                titles[number] = title
        if following == title + 1 < len(flags.lines):
            titles[following] = title
    return titles


def places(flags: LineFlags, above: Mapping[int, int]) -> dict[int, int]:
    """Map each heading to the line that completes it. A title is completed by the line directly below with a
    place in a file, a commit by its subject, and a list item by the line with its name."""
    lines = flags.lines
    found: dict[int, int] = {}
    seen: set[int] = set()
    for number, title in sorted(above.items()):
        if lines[title].startswith("commit "):
            if title not in found and lines[number][:1].isspace():
                found[title] = number
        elif (item := _item(number, above, flags)) >= 0:
            found.setdefault(item, number)
        elif title not in seen and _PLACE.search(lines[number][:_BEGINS]):
            found[title] = number
        seen.add(title)
    return found


def _item(number: int, above: Mapping[int, int], flags: LineFlags) -> int:
    """Return the first line of the list item whose name is in this line, or -1."""
    lines, names = flags.lines, flags["item name"]
    if number not in names or lines[number].lstrip().startswith("- "):
        return -1
    title = above.get(number, -1)
    while title >= 0 and not (lines[title].strip() == "{" or lines[title].lstrip().startswith("- ")):
        title = above.get(title, -1)
    return -1 if title in names else title


def files_above(flags: LineFlags) -> dict[int, int]:
    """Map each indented line that begins with a place in a file to the line that names the file. Indented
    lines directly below are mapped, too."""
    lines = flags.lines
    files: dict[int, int] = {}
    for number in flags["in a file"]:
        if number and not lines[number - 1][:1].isspace() and flags.has(number - 1, "file"):
            file = number - 1
            while number < len(lines) and lines[number][:1].isspace():
                files[number] = file
                number += 1
    return files


def opened_above(flags: LineFlags) -> dict[int, int]:
    """Map each line in a block or record to its heading. The heading of a line is the line that opens its
    block (a key, a bracket, a branch of a tree). The heading of an opening line is the comment directly above
    it. A message above a place, or the first line of a record or commit, is also a heading."""
    lines = flags.lines
    records, commits, arrows = flags["record"], flags["commit"], flags["arrow"]
    openings, remarks = {*flags["opening"], *flags["frame"]}, flags["remark"]
    above: dict[int, int] = {}
    outer: list[tuple[int, int, bool]] = []
    record, is_commit, message, remark = -1, False, -1, (-2, 0)
    for number, line in enumerate(lines):
        if not line.strip():
            message = -1
            continue
        is_long = len(line) > _LONGEST
        if not is_long and (number in records or (number in commits and _heads_commit(flags, number))):
            record, is_commit = number, number in commits
            outer.clear()
            continue
        if number and message < 0 and number in arrows:
            message = number - 1
        if message >= 0:
            above[number] = message
            continue
        if record >= 0 and _is_of_record(flags, number, is_commit):
            above[number] = record
            continue
        record = record if is_long else -1
        indent = len(line) - len(line.lstrip(_INDENT))
        while outer and outer[-1][0] >= indent:
            outer.pop()
        if outer and (outer[-1][2] or not _BRANCHES.isdisjoint(line[:indent])):
            above[number] = outer[-1][1]
        opens = not is_long and (line.rstrip()[-1] in _OPENS or number in openings)
        if opens and remark == (number - 1, indent):
            above[number] = number - 1
        remark = (number, indent) if not is_long and number in remarks else (-2, 0)
        if not is_long:
            outer.append((indent, number, opens))
    return above


def _heads_commit(flags: LineFlags, number: int) -> bool:
    """Return whether a line begins a commit. Other programs also print lines that begin with `commit`, so the
    lines below decide."""
    below = [*flags.lines[number + 1 : number + 3], "", ""]
    is_headed = flags.has(number + 1, "commit header") or (not below[0] and below[1].startswith("    "))
    return flags.lines[number].startswith("commit ") and is_headed


def _is_of_record(flags: LineFlags, number: int, is_commit: bool) -> bool:
    if is_commit:
        return flags.has(number, "of a commit") or flags.has(number, "commit header")
    return flags.has(number, "column")


def shared_above(flags: LineFlags) -> dict[int, int]:
    """Map each line of a group to the line with the shared beginning or the shared columns. Lines below a
    shared beginning are indented by one blank more."""
    lines = flags.lines
    above: dict[int, int] = {}
    heading, indent, is_service = -1, "", False
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        if line.startswith("[") and (found := _NEXT.search(line)):
            above.update(
                dict.fromkeys(range(number + 1, min(number + 1 + int(found[1]), len(lines))), number)
            )
        if heading < 0 and not following[:1].isspace():
            continue
        blanks = line[: len(line) - len(line.lstrip())]
        is_below = not line or line.startswith(indent) if is_service else line and blanks == indent
        if heading >= 0 and is_below:
            above[number] = heading
            continue
        heading, indent, is_service = -1, f"{blanks} ", flags.has(number, "service")
        if line and following.startswith(indent) and (following[len(indent) :][:1].strip() or is_service):
            heading = number
    return above
