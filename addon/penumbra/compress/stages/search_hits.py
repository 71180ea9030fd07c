"""This module reads results of searches in files. Its stage writes the name of a file once above
consecutive hits in the file.

    src/a.py:12:import os          src/a.py:
    src/a.py-13-import re     ->   12:import os
    src/b.py:7:import os           13-import re
                                   src/b.py:
                                   7:import os

The text can be restored: a text in which another line would look like a hit stays unchanged. If hits have a
relative path, but the lines around them the absolute path, the absolute path is written for both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penumbra.compress.calls.classify import Call
from penumbra.compress.facts import NAME
from penumbra.compress.line_flags import LineFlags
from penumbra.compress.text import Text

_PROGRAMS = frozenset(
    {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep", "findstr", "Select-String"}
)
_ASKED = frozenset({"pattern", "query", "regex", "search", "symbol"})
"""Arguments that contain the searched text."""
_SEPARATORS = frozenset({"", "--", "---"})
_HIT = re.compile(r"(?![\s0-9])((?:[A-Za-z]:)?(?=[^:\n]{0,399}[/.\\])[^:\n]{1,400}):[0-9]{1,8}:")
"""The name of a file, which is no time of day and no plain word, and the number of a line."""
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
_NEAR = re.compile(r"-([0-9]{1,8})-")
_NUMBERED = re.compile(r"[0-9]{1,8}[:-]")
_LISTED = re.compile(r"  Line ([0-9]{1,8}): ")
NUMBERED_TWICE = re.compile(r"^([0-9]{1,8})([:-])[ \t]{0,8}\1\t", re.MULTILINE)
"""A hit in a line of `nl`. The line has its number twice."""
_LEAST = 3
"""The smallest number of hits in a text that are grouped."""


def is_search(call: Call) -> bool:
    """Return whether a call searches files."""
    command = call.command
    if call.category == "grep" or call.family == "grep":
        return True
    return bool(command) and (command[0] in _PROGRAMS or command[:2] == ("git", "grep"))


def asked(call: Call, arguments: Any) -> frozenset[str]:
    """Return the names in the arguments of a search."""
    words = call.command[1:] if call.shell else [arguments] if isinstance(arguments, str) else []
    if isinstance(arguments, Mapping) and not call.shell:
        words = [value for key, value in arguments.items() if key in _ASKED and isinstance(value, str)]
    return frozenset(name for word in words for name in NAME.findall(word))


def headings(flags: LineFlags) -> dict[int, int]:
    """Map each hit to the number of the line that names its file."""
    above: dict[int, int] = {}
    named = -1
    hits = flags["hit"]
    for number in hits:
        if number and number - 1 not in hits and _is_heading(flags, number - 1):
            named = number - 1
        if named >= 0:
            above[number] = named
    return above


def _is_heading(flags: LineFlags, number: int) -> bool:
    """Return whether the line directly above a hit names the hit's file."""
    line = flags.lines[number]
    if line.endswith(":") or flags.has(number, "file label"):
        return len(line) > 1
    is_after_gap = not number or flags.lines[number - 1] in _SEPARATORS
    return is_after_gap and flags.has(number, "file")


def group(text: str) -> str | None:
    """Return the text with its hits grouped by file; None if there are few hits, or if another line
    would look like a hit."""
    lines = Text.of(text).lines
    paths = _paths(lines)
    if len(paths) - paths.count("") < _LEAST:
        return _tighten(lines)
    names = _names(paths)
    grouped: list[str] = []
    # A reader would take a numbered line for a hit in the file that is named here.
    current = ""
    for path, line in zip(paths, lines, strict=True):
        if not path:
            is_numbered = _NUMBERED.match(line) is not None
            if current and is_numbered:
                return None
            grouped.append(line)
            if line != "--":
                current = line if line.endswith(":") and not is_numbered else ""
            continue
        name = names[path]
        if name != current:
            grouped.append(f"{name}:")
            current = name
        grouped.append(line[len(path) + 1 :])
    return "\n".join(grouped)


def _paths(lines: list[str]) -> list[str]:
    """Return the file name at the beginning of each line; empty if there is none. Names in hits are found
    first, because lines around hits are recognised by these names."""
    paths = [found[1] if found else "" for found in map(_HIT.match, lines)]
    others = [position for position, path in enumerate(paths) if not path]
    following = [""]
    for position in reversed(others):
        coming = paths[position + 1] if position + 1 < len(paths) else ""
        following.append(coming or following[-1])
    last = ""
    hits = list(paths)
    for position in others:
        last = (hits[position - 1] if position else "") or last
        paths[position] = _near(lines[position], last, following.pop())
    return paths


def _near(line: str, last: str, coming: str) -> str:
    """Return the file name in a line near a hit (`path-12-text`). A neighbouring hit has the same name."""
    drive = _DRIVE.match(line)
    for name in dict.fromkeys((last, coming)):
        start = line.find(name + "-") if name else -1
        match = _NEAR.match(line, start + len(name)) if start >= 0 else None
        is_longer = bool(drive or line[:1] == "/") and start > 0 and line[start - 1] in "/\\"
        if match and (start == 0 or is_longer) and ":" not in line[drive.end() if drive else 0 : start]:
            return line[: start + len(name)]
    return ""


def _names(paths: list[str]) -> dict[str, str]:
    """Map each path to an absolute path that ends with this path; without such a path, to itself."""
    names = {path: path for path in paths if path}
    absolute = [path for path in names if path[0] == "/" or _DRIVE.match(path)]
    for path in absolute:
        for end in range(1, len(path)):
            if path[end - 1] in "/\\" and path[end:] in names:
                names[path[end:]] = path
                break
    return names


def _tighten(lines: list[str]) -> str | None:
    """Return grouped hits in a shorter form; None for other texts. In the longer form, hits are indented
    (` Line 12: text`) and empty lines separate them."""
    if sum(bool(_LISTED.match(line)) for line in lines) < _LEAST:
        return None
    tight: list[str] = []
    for position, line in enumerate(lines):
        following = lines[position + 1] if position + 1 < len(lines) else ""
        if not line and tight and _NUMBERED.match(tight[-1]) and _LISTED.match(following):
            continue
        tight.append(_LISTED.sub(r"\1: ", line, count=1))
    return "\n".join(tight)
