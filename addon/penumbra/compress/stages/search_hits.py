"""The results of searches in files: the names that a search looks for, and the file of each hit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from penumbra.compress.calls.classify import Call
from penumbra.compress.facts import NAME

_PROGRAMS = frozenset(
    {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep", "findstr", "Select-String"}
)
HIT = re.compile(r"L?([0-9]{1,8})([:-])")
"""The line number at the beginning of a hit, if the file is named on a line above."""
_LABELLED = re.compile(r"File: {1,4}(\S.{0,800})")
_PATH = re.compile(r"(?:[A-Za-z]:)?[^\s:]{0,400}[./\\][^\s:]{0,400}")
_ASKED = frozenset({"pattern", "query", "regex", "search", "symbol"})
"""Arguments that contain the searched text."""
_SEPARATORS = frozenset({"", "--", "---"})


def is_search(call: Call) -> bool:
    """Return whether the output of a call is lines found in files."""
    command = call.command
    if call.category == "grep" or call.family == "grep":
        return True
    return bool(command) and (command[0] in _PROGRAMS or command[:2] == ("git", "grep"))


def asked(call: Call, arguments: Any) -> frozenset[str]:
    """Return the names that a search looks for."""
    words = call.command[1:] if call.shell else [arguments] if isinstance(arguments, str) else []
    if isinstance(arguments, Mapping) and not call.shell:
        words = [value for key, value in arguments.items() if key in _ASKED and isinstance(value, str)]
    return frozenset(name for word in words for name in NAME.findall(word))


def heading(line: str, before: str, following: str) -> str:
    """Return the file that a line names for the hits below it; empty if there is none. `before`, `following`:
    the lines around it."""
    if not HIT.match(following) or HIT.match(line):
        return ""
    if labelled := _LABELLED.fullmatch(line):
        return labelled[1]
    if line.endswith(":"):
        return line[:-1]
    return line if before in _SEPARATORS and _PATH.fullmatch(line) else ""


def headings(lines: Sequence[str]) -> dict[int, int]:
    """Map each hit to the number of the line that names its file."""
    above: dict[int, int] = {}
    named = -1
    hits = [bool(HIT.match(line)) for line in lines]
    for number, is_hit in enumerate(hits):
        if is_hit:
            if named >= 0:
                above[number] = named
        elif hits[number + 1 : number + 2] == [True] and heading(
            lines[number], lines[number - 1] if number else "", lines[number + 1]
        ):
            named = number
    return above
