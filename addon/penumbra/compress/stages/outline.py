"""A long file in part: its beginning, what the conversation has named, what defines or heads something,
its end. Where lines are missing, the next one has its number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

from penumbra.compress.size import counted, encode, head, size, tail
from penumbra.compress.stages import line_numbers, passages

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
"""Characters of a line that can define something."""
_DEEPEST = 8
"""Blanks in front of one."""
_BEGINNING = 10
_DEFINITIONS = 15
_FAILURES = 30
_TAIL = 6
"""Per cent of the room for the beginning, at least, for definitions, for failures, and for the end. Passages
have the rest, and what they leave goes to the beginning."""
_MOST_FAILURES = 100
_MARKS = 300
"""Bytes for what is said about what is missing."""
_USED = 90
"""Per cent of the room that is used: a file in part costs less than one that just fits."""


def outline(
    text: str,
    room: int,
    mentioned: Mapping[str, float] = MappingProxyType({}),
    failures: Sequence[tuple[int, int]] = (),
    begins: int = 0,
) -> str:
    """The parts of a file that fit into `room` bytes. Line numbers are those of the text; where it has none,
    `begins` is the number of its first line in the file, 0 if it is not known.

    `mentioned`: the names that the conversation has used before, and how much each weighs. `failures`: where
    failure lines stand, in bytes, the most important ones first: they come before definitions.
    """
    room = room * _USED // 100 - _MARKS
    file = _File.of(text, begins or 1)
    end = tail(text, room * _TAIL // 100)
    end = end[end.find("\n") + 1 :] if "\n" in end[:400] else end
    last = len(file.lines) - 1 - end.count("\n")
    least = head(text, room * _BEGINNING // 100).count("\n")
    defining = file.failures(text, failures, range(least, last), room * _FAILURES // 100)
    defining |= file.definitions(range(least, last), room * _DEFINITIONS // 100)
    left = room - size(end) - file.need(defining) - room * _BEGINNING // 100
    shown = defining | passages.choose(file.contents, mentioned, range(least, last), left)
    start = head(text, max(0, room - size(end) - file.need(shown)))
    cut = start.rfind("\n", max(0, len(start) - 400))
    start = start[: cut + 1] if cut >= 0 else start
    is_cut = bool(start) and not start.endswith("\n")
    first = start.count("\n")
    if not is_cut:
        # A continuous part is not cut by a mark, so that it can be quoted.
        first = next((at for at in range(first, last) if at not in shown), max(first, last))
        start = "".join(line + "\n" for line in file.lines[:first])
    kept = [one for one in sorted(shown) if first + is_cut <= one < last]
    gone = size(text) - size(start) - size(end) - sum(size(file.lines[one]) + 1 for one in kept)
    left_out = last - first - len(kept)
    missing = f"{left_out} of the next {counted(last - first, 'line')}" if kept else counted(left_out, "line")
    # A part of a file may have been asked for: only numbers that stand there are the file's.
    where = "" if file.separator or begins else " in this output"
    numbered = f"; a line behind missing ones has its number{where}" if kept else ""
    parts = [start + "\n" * is_cut, f"[{missing}, {counted(gone, 'byte')} left out{numbered}]\n"]
    if kept:
        # The end, too, goes on without a mark where nothing is missing in front of it.
        parts += file.numbered(kept, first)
        parts += [] if kept[-1] == last - 1 and end == "\n".join(file.lines[last:]) else ["[the end:]\n"]
    return "".join(parts) + end


@dataclass(frozen=True, slots=True)
class _File:
    """A text as lines, with the numbers that they have or get."""

    lines: Sequence[str]
    numbers: Sequence[int]
    contents: Sequence[str]
    """The lines without their numbers."""
    separator: str

    @classmethod
    def of(cls, text: str, begins: int) -> _File:
        lines = text.split("\n")
        numbers, contents = line_numbers.split(text)
        separator = line_numbers.separator_of(lines)
        if not separator:
            numbers = list(range(begins, begins + len(lines)))
        return cls(lines, numbers, contents, separator)

    def needs(self, position: int) -> int:
        """Bytes of a line with its number."""
        return size(self.lines[position]) + 1 + passages.NUMBER

    def need(self, positions: Set[int]) -> int:
        """Bytes of lines, with numbers where lines are missing in front."""
        runs = sum(position - 1 not in positions for position in positions)
        return sum(size(self.lines[position]) + 1 for position in positions) + runs * passages.NUMBER

    def definitions(self, span: range, room: int) -> set[int]:
        """Positions of the lines that define or head something, the least indented first, that fit."""
        found: list[tuple[int, int]] = []
        for position in span:
            content = self.contents[position]
            bare = content.lstrip()
            depth = len(content) - len(bare)
            if depth <= _DEEPEST and len(content) <= _LONGEST and _DEFINITION.match(bare):
                found.append((depth, position))
        kept: set[int] = set()
        for _, position in sorted(found):
            room -= self.needs(position)
            if room < 0:
                break
            kept.add(position)
        return kept

    def failures(self, text: str, spans: Sequence[tuple[int, int]], span: range, room: int) -> set[int]:
        """Positions of the failure lines that fit, and of the lines around them."""
        data = encode(text) if spans else b""
        kept: set[int] = set()
        for start, _ in spans[:_MOST_FAILURES]:
            position = data.count(b"\n", 0, start)
            around = range(max(span.start, position - 1), min(span.stop, position + 4))
            new = [one for one in around if one not in kept]
            room -= sum(map(self.needs, new))
            if room < 0:
                break
            if position in span:
                kept.update(new)
        return kept

    def numbered(self, positions: Iterable[int], first: int) -> list[str]:
        """Lines with their ends; those behind missing ones with their numbers. `first`: the position
        behind what is shown in front of them."""
        written: list[str] = []
        expected = first
        for position in positions:
            line = self.lines[position]
            is_bare = line == self.contents[position] and self.numbers[position] > 0
            if position != expected and is_bare:
                line = line_numbers.prefix(self.numbers[position], self.separator or ": ") + line
            written.append(line + "\n")
            expected = position + 1
        return written
