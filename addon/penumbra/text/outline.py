"""A long file in part: its beginning, the lines that define or head something, with numbers, its end."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penumbra.text import line_numbers
from penumbra.text.size import encode, head, size, tail

_DEFINITION = re.compile(
    r"(?:(?:export|public|private|protected|internal|static|abstract|final|async|default|pub(?:\([a-z]+\))?"
    r"|unsafe|inline|virtual|override|declare|sealed|partial|open|data|extern)[ \t]+){0,5}"
    r"(?:def|class|func|fn|function\*?|interface|struct|enum|trait|impl|type|module|namespace|mod|object|record"
    r"|protocol|extension|macro_rules!|CREATE|resource|describe|it|test)\b[ \t(]*[\"'`\w*(<&]"
    r"|#{1,6} \S|\[[\w.\" -]+\][ \t]*\Z"
    r"|(?:const|let|var)[ \t]+\w+[ \t]*(?::[^=\n]{1,80})?=[ \t]*(?:async|function|\()"
    r"|[A-Z][A-Z0-9_]{2,}[ \t]*=|\w[\w ]*::\w+\("
)
_LONGEST = 160
_OUTLINE = 30
_TAIL = 10
"""Per cent of the room for the outline and for the end; the beginning has the rest."""


def outline(text: str, room: int) -> str:
    """The parts of a file that fit into `room` bytes. Line numbers are those of the text."""
    room -= 220
    end = tail(text, room * _TAIL // 100)
    end = end[end.find("\n") + 1 :] if "\n" in end[:400] else end
    definitions = _definitions(text)
    headings = _fitting(definitions, room * _OUTLINE // 100)
    spent = size(end) + sum(size(line) + 1 for _, line in headings)
    start = head(text, room - spent)
    cut = start.rfind("\n", max(0, len(start) - 400))
    start = start[: cut + 1] if cut >= 0 else start
    first, last = start.count("\n"), text.count("\n") - end.count("\n")
    inside = [line for position, line in headings if first <= position < last]
    gone = size(text) - size(start) - size(end)
    parts = [start if start.endswith("\n") or not start else start + "\n"]
    parts.append(f"[{last - first} lines, {gone} bytes left out]\n")
    if inside:
        missing = sum(first <= position < last for position, _ in definitions) - len(inside)
        more = f", {missing} more not shown" if missing > 0 else ""
        parts.append(f"[what they define{more}:]\n" + "\n".join(inside) + "\n[the end:]\n")
    return "".join(parts) + end


def _definitions(text: str) -> list[tuple[int, str]]:
    """(position, numbered line) of the lines that define or head something."""
    numbers, lines = line_numbers.split(text)
    offset = 1 if lines[0] != line_numbers.LEGEND else 0
    contents = [line.lstrip()[:400] for line in lines]
    found: list[tuple[int, str]] = []
    for position, match in enumerate(map(_DEFINITION.match, contents)):
        line = lines[position]
        if match and len(line) - len(line.lstrip()) <= 8:
            short = line[:_LONGEST].rstrip()
            found.append((position, f"{numbers[position] or position + offset}: {short}"))
    return found


def _fitting(definitions: Iterable[tuple[int, str]], room: int) -> list[tuple[int, str]]:
    """Those that fit, the least indented first, in order."""
    by_depth = sorted(definitions, key=lambda found: _depth(found[1]))
    kept: list[tuple[int, str]] = []
    for position, line in by_depth:
        room -= len(encode(line)) + 1
        if room < 0:
            break
        kept.append((position, line))
    return sorted(kept)


def _depth(line: str) -> int:
    content = line.split(": ", 1)[-1]
    return len(content) - len(content.lstrip())
