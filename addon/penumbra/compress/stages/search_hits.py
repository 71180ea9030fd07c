"""Results of searches in files, with the names that a search looks for and the file of each hit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penumbra.compress.calls.classify import Call
from penumbra.compress.facts import NAME
from penumbra.compress.line_flags import LineFlags

_PROGRAMS = frozenset(
    {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep", "findstr", "Select-String"}
)
_ASKED = frozenset({"pattern", "query", "regex", "search", "symbol"})
"""Arguments that contain the searched text."""
_SEPARATORS = frozenset({"", "--", "---"})


def is_search(call: Call) -> bool:
    """Return whether a call searches files, so that its output has the lines that match."""
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
    """Return whether a line above a hit names the file of that hit."""
    line = flags.lines[number]
    if line.endswith(":") or flags.has(number, "file label"):
        return len(line) > 1
    is_after_gap = not number or flags.lines[number - 1] in _SEPARATORS
    return is_after_gap and flags.has(number, "file")
