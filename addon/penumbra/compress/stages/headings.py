"""Headings: lines that name the subject of other lines, such as titles in prose and files above their hits. A
reader needs the title to understand a detail, and the place to understand a title, as in:

**Zero the key when navigation fails.**

`src/vault.ts`, line 40: the caller holds a copy until ...
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penumbra.compress.stages import folding, search_hits

_TITLE = re.compile(
    r" {0,3}(?:#{1,6} +\S.*"
    r"|(?:(?:#{1,6}|[-*•]|[0-9]{1,3}[.)]) {1,4})?\[[^\]\n]{1,200}\]\(https?://[^\s)]{1,200}\).*"
    r"|(?:(?:[-*•]|[0-9]{1,3}[.)]) {1,4})?(?:\*\*)?(?:Title|URL|Url|Link|Source|title|url|link)(?:\*\*)?"
    r": {0,4}\S.*"
    r"|(?:[-*>] +|[0-9]{1,3}[.)] +)?(?:\*\*|__)[^*_\n].*(?:\*\*|__)[ :.]{0,3}"
    r"|<summary>.*</summary>"
    r"|={2,} +\S.* +={2,})"
)
_LONGEST = 240
"""Length of the longest title, in characters."""
_BELOW = 30
"""The greatest number of lines that belong to one title."""
_PLACE = re.compile(r"(?<![\w@$./\\-])[\w@$./\\-]{1,240}\.\w{1,8}\W{0,6}?(?::|#L|(?:lines? ?|L))[0-9]")
"""A file with a line number."""
_BEGINS = 240
"""The number of characters at the beginning of a line that are searched for a place."""
_FILE = re.compile(r"(?:[A-Za-z]:)?[^\s:]{0,400}[./\\][^\s:]{0,400}:?")
_NEXT = re.compile(r" in each of the next ([0-9]{1,7}) lines?\]$")
"""The end of a line that states columns which the next lines share."""
_ARROW = re.compile(r" *--> \S")
"""The line below a message, with the message's place."""
_RECORD = re.compile(r"-\[ RECORD [0-9]+ \]|\*{10,} [0-9]+\. row \*{10,}|commit [0-9a-f]{7,64}\b")
"""The first line of a commit, or of a record that a database shell prints with one column a line."""
_COMMIT_HEADER = re.compile(
    r"\[?(?:Author|AuthorDate|Commit|CommitDate|Date|Merge|Reflog|tree|parent|author|gpg)\b"
)
_BELOW_COMMIT = re.compile(rf"{_COMMIT_HEADER.pattern}|\n {{4}}")
"""The lines below a commit's first line. They tell a commit from a hash that another program prints."""
_OF_COMMIT = re.compile(
    r"[ \t@+\\:-]|[A-Z][0-9]{0,3}\t|[0-9]+\t|[^\s:]+$|Notes\b"
    r"|(?:diff|index|new|old|deleted|rename|copy|similarity|dissimilarity|Binary|encoding|committer) "
    rf"|{_COMMIT_HEADER.pattern}"
)
"""Lines of a commit: headers, message and changes."""
_COLUMN = re.compile(r" *[^\s|:][^|:]{0,80}(?:\||:(?: |$))| +\|")
_INDENT = re.compile(r"[ \t\xa0│├└─]*")
"""Blanks and the characters that draw trees."""
_BRANCH = re.compile(r"[│├└]")
_NAME = re.compile(r"[ \t]*(?:- )?\"?(?:[a-z]{1,12}[iI]d|id|name|key|path|title)\"?: *[^\s{\[]")
"""A line that names an item of a list."""
_OPENS = ":{[("
"""Last characters of lines that open a block."""
_OPENING = re.compile(r"- |(?:FAIL(?:ED|URE)?|PASS(?:ED)?|ERROR|OK|(?:not )?ok)\b|[✓✔✗✘✖●]")
"""The beginnings of lines that open a block: an item of a list, or a verdict above its report."""
_REMARK = re.compile(r"(?:#|//) ?\w")
"""The beginning of a comment, which heads the block that the next line opens."""
_SERVICE = re.compile(r"[\w.-]{1,200} *\|")
"""The name of a service on a line of its own. Lines of a service may be indented or empty."""
_IN_FILE = re.compile(r"[ \t]{1,8}(?:\(?[0-9]{1,7}[:,][0-9]{1,7}\)?|[0-9]{1,7}:)(?:[:\s]|$)")
"""The beginning of an indented line with a line number in a file that a line above names."""
_HUNK = re.compile(r"@@+ .*@@|## -[0-9,]+ \+[0-9,]+ ##")
_FILE_OPENS = re.compile(r"diff -|Index: |(?:Binary files|Files) .* differ")
_COMMIT = re.compile(r"(?:commit|From|changeset:) +[0-9a-f:]{7}")
_DEFINITION = re.compile(
    r"[ \t]{0,8}(?:(?:export|public|private|protected|internal|static|abstract|final|async|default"
    r"|pub(?:\([a-z]+\))?|unsafe|inline|virtual|override|declare|sealed|partial|open|data|extern)[ \t]+){0,5}"
    r"(?:(?:def|class|func|fn|function\*?|interface|struct|enum|trait|impl|type|module|namespace|mod|object"
    r"|record|protocol|extension|macro_rules!|CREATE|resource|describe|it|test)\b[ \t(]*[\"'`\w*(<&]"
    r"|#{1,6} \S|\[[\w.\" -]+\][ \t]*\Z"
    r"|(?:const|let|var)[ \t]+\w+[ \t]*(?::[^=\n]{1,80})?=[ \t]*(?:async|function|\()"
    r"|[A-Z][A-Z0-9_]{2,}[ \t]*=|\w[\w ]*::\w+\()"
)
_LONGEST_DEFINITION = 160
"""Length of the longest definition, in characters."""


def definitions(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that define something or are titles, the least indented first."""
    found = [
        (len(line) - len(line.lstrip()), number)
        for number, line in enumerate(lines)
        if len(line) <= _LONGEST_DEFINITION and _DEFINITION.match(line)
    ]
    return [number for _, number in sorted(found)]


@dataclass(frozen=True, slots=True)
class Headings:
    """The headings of the lines of a text. Numbers of lines begin with 0."""

    needs: Mapping[int, list[int]]
    """For each line, the lines without which it can't be understood."""
    first: Sequence[int]
    """Headings that are chosen before other lines: files with hits or changes, titles of a page."""
    named: Mapping[int, int]
    """For each line, the line that names its file or service."""

    @classmethod
    def of(
        cls, lines: Sequence[str], *, is_search: bool, is_page: bool, is_diff: bool, is_grouped: bool
    ) -> Headings:
        """Find the headings of a text. `is_grouped` says that an earlier stage wrote shared beginnings of
        lines only once."""
        shared = shared_above(lines) if is_grouped else {}
        named = shared or files_above(lines) | located_below(lines)
        needs: dict[int, list[int]] = {}
        if is_diff:
            hunks = hunks_above(lines)
            files = {names[-1] for names in hunks.values() if names and names[-1] not in hunks}
            return cls(hunks, sorted(files), {})
        found = search_hits.headings(lines)
        found = shared or found or above(lines) | files_above(lines)
        first = sorted(set(found.values())) if is_search or is_page else []
        opened = {} if shared or is_search else opened_above(lines)
        found = {**found, **opened}
        for pairs in (found, places(lines, found)):
            for number, heading in pairs.items():
                needs.setdefault(number, []).append(heading)
        for number, counted in folding.counted_lines(lines).items():
            needs.setdefault(number, []).extend(range(counted, number))
        return cls(needs, first, named)


def hunks_above(lines: Sequence[str]) -> dict[int, list[int]]:
    """Map each line of a hunk to the hunk's first line, and that first line to the lines with its file and
    commit."""
    above: dict[int, list[int]] = {}
    commit: list[int] = []
    file: list[int] = []
    hunk, is_named = -1, True
    for number, line in enumerate(lines):
        if _HUNK.match(line):
            hunk, is_named = number, True
            above[number] = [*commit, *file]
        elif _COMMIT.match(line):
            commit, file, hunk = [number], [], -1
        elif _FILE_OPENS.match(line) or (
            line[:4] == "--- " and "".join(lines[number + 1 : number + 2])[:4] == "+++ "
        ):
            file = [number] if is_named else [*file, number]
            hunk, is_named = -1, False
        elif hunk >= 0:
            above[number] = [hunk]
        elif line[:4] == "+++ ":
            file = [*file, number]
    return above


def above(lines: Sequence[str]) -> dict[int, int]:
    """Map each line to the title above it."""
    titles: dict[int, int] = {}
    title = -_BELOW - 1
    for number, line in enumerate(lines):
        if len(line) <= _LONGEST and _TITLE.fullmatch(line.rstrip()):
            if title == number - 1:
                titles[number] = title
            title = number
        elif line.strip() and number - title <= _BELOW:
            titles[number] = title
    return titles


def places(lines: Sequence[str], above: Mapping[int, int]) -> dict[int, int]:
    """Map each heading to the line that completes it: a title to its first line with a place in a file, a
    commit's first line to its subject, an item of a list to the line with the item's name."""
    found: dict[int, int] = {}
    seen: set[int] = set()
    for number, title in sorted(above.items()):
        if lines[title].startswith("commit "):
            if title not in found and lines[number][:1].isspace():
                found[title] = number
        elif (item := _item(number, above, lines)) >= 0:
            found.setdefault(item, number)
        elif title not in seen and _PLACE.search(lines[number][:_BEGINS]):
            found[title] = number
        seen.add(title)
    return found


def _item(number: int, above: Mapping[int, int], lines: Sequence[str]) -> int:
    """Return the number of the first line of the item that a line names, or -1."""
    if not _NAME.match(lines[number]) or lines[number].lstrip().startswith("- "):
        return -1
    title = above.get(number, -1)
    while title >= 0 and not (lines[title].strip() == "{" or lines[title].lstrip().startswith("- ")):
        title = above.get(title, -1)
    return -1 if title < 0 or _NAME.match(lines[title]) else title


def files_above(lines: Sequence[str]) -> dict[int, int]:
    """Map the indented lines that begin with a place in a file, and the lines after them, to the line that
    names the file."""
    files: dict[int, int] = {}
    file = -1
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        if not line[:1].isspace():
            is_file = bool(line) and bool(_IN_FILE.match(following)) and bool(_FILE.fullmatch(line))
            file = number if is_file else -1
        elif file >= 0:
            files[number] = file
    return files


def opened_above(lines: Sequence[str]) -> dict[int, int]:
    """Map each line in a block or record to its heading: the line that opens the block (a key, a bracket, a
    branch of a tree), the comment above that line, the message above a place, or the first line of a record
    or commit."""
    above: dict[int, int] = {}
    outer: list[tuple[int, int, bool]] = []
    record, is_commit, message, remark = -1, False, -1, (-2, 0)
    for number, line in enumerate(lines):
        if not line.strip():
            message = -1
            continue
        is_long = len(line) > _LONGEST
        if not is_long and line[0] in "*-c" and (head := _RECORD.match(line)):
            begins_commit = head[0][0] == "c"
            if not begins_commit or _BELOW_COMMIT.match("\n".join(lines[number + 1 : number + 3])):
                record, is_commit = number, begins_commit
                outer.clear()
                continue
        if number and message < 0 and _ARROW.match(line):
            message = number - 1
        if message >= 0:
            above[number] = message
            continue
        if record >= 0 and (_OF_COMMIT if is_commit else _COLUMN).match(line):
            above[number] = record
            continue
        record = record if is_long else -1
        marks = _INDENT.match(line)
        indent = marks.end() if marks else 0
        while outer and outer[-1][0] >= indent:
            outer.pop()
        if outer and (outer[-1][2] or _BRANCH.search(line, 0, indent)):
            above[number] = outer[-1][1]
        opens = not is_long and (line.rstrip()[-1] in _OPENS or bool(_OPENING.match(line, indent)))
        if opens and remark == (number - 1, indent):
            above[number] = number - 1
        remark = (number, indent) if not is_long and _REMARK.match(line, indent) else (-2, 0)
        if not is_long:
            outer.append((indent, number, opens))
    return above


def located_below(lines: Sequence[str]) -> dict[int, int]:
    """Map each line to the next one if that one states the line's place in a file."""
    return {number - 1: number for number, line in enumerate(lines) if number and _ARROW.match(line)}


def shared_above(lines: Sequence[str]) -> dict[int, int]:
    """Map each line of a group to the line that states the shared beginning (the group is then indented by
    one more blank) or the shared columns."""
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
        is_indented_by_one = bool(following[len(indent) :][:1].strip())
        if line and following.startswith(indent) and (is_indented_by_one or is_service):
            heading = number
    return above
