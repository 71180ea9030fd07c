"""Search hits with their file named once.

    src/a.py:12:import os          src/a.py:
    src/a.py-13-import re     ->   12:import os
    src/b.py:7:import os           13-import re
                                   src/b.py:
                                   7:import os

Reversible: `ungroup` writes the names out again, and `group` gives up where that would not restore
the text. A file that is named by two spellings (some agents make the names of hits relative and
leave those of the lines around them absolute) is named by the longer one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_HIT = re.compile(r"((?:[A-Za-z]:)?[^:\n]{1,400}):([0-9]{1,8}):")
_NEAR = re.compile(r"-([0-9]{1,8})-")
_NUMBERED = re.compile(r"[0-9]{1,8}[:-]")
_LISTED = re.compile(r"  Line ([0-9]{1,8}): ")
_LEAST = 3
"""Hits below which nothing is done."""


class _Line(NamedTuple):
    """One line of a search result; `path` empty if it is none."""

    path: str
    rest: str


def group(text: str) -> str | None:
    """The hits grouped by file; None if the text has none, or they could not be told back."""
    lines = text.split("\n")
    parsed = _parse(lines)
    if sum(bool(line.path) for line in parsed) < _LEAST:
        return _tighten(lines)
    names = _names(parsed)
    grouped: list[str] = []
    current = ""
    for line in parsed:
        name = names.get(line.path, "")
        if not name:
            grouped.append(line.rest)
            if line.rest != "--":
                current = ""
            continue
        if name != current:
            grouped.append(f"{name}:")
            current = name
        grouped.append(line.rest)
    if ungroup("\n".join(grouped)) != "\n".join(_spelled(parsed, names)):
        return None
    return "\n".join(grouped)


def ungroup(text: str) -> str:
    """Every hit with its file in front again."""
    lines = text.split("\n")
    full: list[str] = []
    name = ""
    for position, line in enumerate(lines):
        following = lines[position + 1] if position + 1 < len(lines) else ""
        found = _NUMBERED.match(line)
        if name and found:
            full.append(f"{name}{found[0][-1]}{line}")
        elif line.endswith(":") and len(line) > 1 and _NUMBERED.match(following):
            name = line[:-1]
        else:
            full.append(line)
            if line != "--":
                name = ""
    return "\n".join(full)


def _parse(lines: Iterable[str]) -> list[_Line]:
    """The lines, hits first, so that the lines around them are known by their file's name."""
    hits = [_hit(line) for line in lines]
    following = ""
    coming: list[str] = []
    for hit in reversed(hits):
        coming.append(following)
        following = hit.path or following
    last = ""
    parsed: list[_Line] = []
    for hit in hits:
        found = hit if hit.path or not following else _near(hit.rest, last, coming[-1])
        coming.pop()
        last = found.path or last
        parsed.append(found)
    return parsed


def _hit(line: str) -> _Line:
    found = _HIT.match(line)
    if found is None or not _is_path(found[1]):
        return _Line("", line)
    return _Line(found[1], line[len(found[1]) + 1 :])


@lru_cache(maxsize=1_024)
def _is_path(name: str) -> bool:
    """Whether this may name a file: a time of day or a word may not."""
    return ("/" in name or "." in name or "\\" in name) and not name[0].isspace() and not name[:1].isdigit()


def _near(line: str, last: str, coming: str) -> _Line:
    """A line around a hit (`path-12-text`), of the file of the hit before it or of the next one."""
    for name in dict.fromkeys((last, coming)):
        start = line.find(name + "-") if name else -1
        found = _NEAR.match(line, start + len(name)) if start >= 0 else None
        if found and (start == 0 or (line[0] == "/" and line[start - 1] == "/")) and ":" not in line[:start]:
            end = start + len(name)
            return _Line(line[:end], line[end + 1 :])
    return _Line("", line)


def _names(parsed: list[_Line]) -> dict[str, str]:
    """The name of a file for each of its spellings: an absolute one that ends in the relative one."""
    absolute = {line.path for line in parsed if line.path[:1] == "/"}
    names = {line.path: line.path for line in parsed if line.path}
    for path in absolute:
        for end in range(1, len(path)):
            if path[end - 1] == "/" and path[end:] in names:
                names[path[end:]] = path
                break
    return names


def _spelled(parsed: list[_Line], names: dict[str, str]) -> Iterable[str]:
    for line in parsed:
        found = _NUMBERED.match(line.rest) if line.path else None
        yield f"{names[line.path]}{found[0][-1]}{line.rest}" if found else line.rest


def _tighten(lines: list[str]) -> str | None:
    """Hits that are grouped already, as `  Line 12: text` with empty lines between: shorter."""
    if sum(bool(_LISTED.match(line)) for line in lines) < _LEAST:
        return None
    tight: list[str] = []
    for position, line in enumerate(lines):
        following = lines[position + 1] if position + 1 < len(lines) else ""
        if not line and tight and _NUMBERED.match(tight[-1]) and _LISTED.match(following):
            continue
        tight.append(_LISTED.sub(r"\1: ", line, count=1))
    return "\n".join(tight)
