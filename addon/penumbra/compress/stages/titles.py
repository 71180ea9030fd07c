"""Lines that say what others are of: titles in texts that people write, files above what was found in them. A
detail is not read without its title, and a title not without the place that it is about.

**Zero the key when navigation fails.**

`src/vault.ts`, line 40: the caller holds a copy until ...
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TITLE = re.compile(
    r" {0,3}(?:#{1,6} +\S.*"
    r"|(?:[-*>] +|[0-9]{1,3}[.)] +)?(?:\*\*|__)[^*_\n].*(?:\*\*|__)[ :.]{0,3}"
    r"|<summary>.*</summary>"
    r"|={2,} +\S.* +={2,})"
)
_LONGEST = 240
"""Characters of a title."""
_BELOW = 30
"""Lines below a title that belong to it."""
_PLACE = re.compile(r"[\w@$./\\-]{1,200}\.\w{1,8}\W{0,6}?(?::|#L|(?:lines? ?|L))[0-9]")
"""A file and a line in it."""
_BEGINS = 240
"""Characters of a line in which its place stands."""
_FILE = re.compile(r"(?:[A-Za-z]:)?[^\s:]{0,400}[./\\][^\s:]{0,400}:?")
_NEXT = re.compile(r" in each of the next ([0-9]{1,7}) lines?\]$")
"""What says columns once."""
_SERVICE = re.compile(r"[\w.-]{1,200} *\|")
"""What stands in front of every line of a service, alone: its lines may be indented, or empty."""
_TABLE = re.compile(r" *\[list of ([0-9]{1,7}) mappings; ")
"""The head of a table: what it has in common, and the names of its columns."""
_IN_FILE = re.compile(r"[ \t]{1,8}(?:\(?[0-9]{1,7}[:,][0-9]{1,7}\)?|[0-9]{1,7}:)(?:[:\s]|$)")
"""What begins with its line in a file that a line above names."""


def above(text: str) -> dict[int, int]:
    """By number of a line, that of the title that it stands below."""
    titles: dict[int, int] = {}
    title = -_BELOW - 1
    for number, line in enumerate(text.split("\n")):
        if len(line) <= _LONGEST and _TITLE.fullmatch(line.rstrip()):
            title = number
        elif line.strip() and number - title <= _BELOW:
            titles[number] = title
    return titles


def places(text: str, above: Mapping[int, int]) -> dict[int, int]:
    """By number of a title, that of the first line below it, if that names a line of a file."""
    lines = text.split("\n")
    found: dict[int, int] = {}
    seen: set[int] = set()
    for number, title in above.items():
        if title not in seen and _PLACE.search(lines[number][:_BEGINS]):
            found[title] = number
        seen.add(title)
    return found


def files_above(text: str) -> dict[int, int]:
    """By number of an indented line that begins with its place in a file, and of those behind it, that of the
    line that names the file."""
    lines = text.split("\n")
    files: dict[int, int] = {}
    file = -1
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        if not line[:1].isspace():
            is_file = bool(line) and bool(_IN_FILE.match(following)) and bool(_FILE.fullmatch(line))
            file = number if is_file else -1
        elif file >= 0:
            files[number] = file
    return files


def tables_above(text: str) -> dict[int, int]:
    """By number of a row of a table, that of the table's head."""
    if "[list of " not in text:
        return {}
    lines = text.split("\n")
    above: dict[int, int] = {}
    for number, line in enumerate(lines):
        if found := _TABLE.match(line):
            behind = min(number + 1 + int(found[1]), len(lines))
            above.update(dict.fromkeys(range(number + 1, behind), number))
    return above


def said_once_above(text: str) -> dict[int, int]:
    """By number of a line, that of the one with what it has in common with others: with its beginning, where
    they are indented by one more blank, or with its columns, where that says of how many."""
    lines = text.split("\n")
    above: dict[int, int] = {}
    heading, indent, is_service = -1, "", False
    for number, line in enumerate(lines):
        if line.startswith("[") and (found := _NEXT.search(line)):
            above.update(
                dict.fromkeys(range(number + 1, min(number + 1 + int(found[1]), len(lines))), number)
            )
        blanks = line[: len(line) - len(line.lstrip())]
        is_below = not line or line.startswith(indent) if is_service else line and blanks == indent
        if heading >= 0 and is_below:
            above[number] = heading
            continue
        following = lines[number + 1] if number + 1 < len(lines) else ""
        heading, indent, is_service = -1, f"{blanks} ", bool(_SERVICE.fullmatch(line))
        behind = following[len(indent) :][:1].strip()
        if line and following.startswith(indent) and (behind or is_service):
            heading = number
    return above
