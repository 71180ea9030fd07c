"""This stage keeps only every twentieth line number of a file.

    [not every line is numbered]
    1→import os
    import sys
    ...
    20→def main():

Read tools put a number before each line. The lines between two numbered lines can be counted. The content of
each line stays, so that an edit can quote the line. In each run of consecutive numbers, the first and the
last line keep their numbers. The blanks before numbers are removed.

A file may itself contain numbers. `may_be_the_files` and `count_lines` decide which numbers come from a
read tool.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import sub

from msgspec import Struct

from penumbra.compress.calls.classify import Call
from penumbra.compress.calls.envelope import is_in_tags

_STEP = 20
LEGEND = "[not every line is numbered]"
HEADING = 2_000
"""A thinned text has its legend within this number of characters at the beginning."""
_SHORTEST = 8
"""A text with fewer numbered lines is not thinned."""
_HEADER = 40
"""The numbers of a text must begin within this number of lines."""
_L = "L: "
"""The separator for the form `L12: `, which has an L before the number."""
_BAR = " | "
_SPELLED = {_L: ("L", ": "), ".": ("", ". ")}
"""The text before and after a number, for separators that are not themselves the text after it."""
_DOT = r"\.(?: |(?=\n)|\Z)"
_PREFIX = re.compile(rf"[ \t]{{0,8}}(?:([0-9]{{1,7}})(→|\t|: | \| |\| |\||:|{_DOT})|L([0-9]{{1,7}}): )")
_AFTER_SIGN = re.compile(r"[ \t]{0,8}[0-9]{1,7}[:|]( *)([^\r\n]?)")
_PREFIXES = {
    separator: re.compile(rf"[ \t]{{0,8}}([0-9]{{1,7}}){_DOT if separator == '.' else re.escape(separator)}")
    for separator in ("→", "\t", ": ", _BAR, "| ", "|", ":", ".")
}
_PREFIXES[_L] = re.compile(r"[ \t]{0,8}L([0-9]{1,7}): ")
_STARTS = {separator: re.compile("\n" + prefix.pattern) for separator, prefix in _PREFIXES.items()}
_SHORT_HEAD = 16_000
"""The separator of a text is cached if its examined beginning has at most this number of characters."""
_WITH_BLANK = {":": ": ", "|": "| "}
_WITHOUT_BLANK = {spaced: bare for bare, spaced in _WITH_BLANK.items()}
_PLAIN = ("→", "\t")
"""The separators that no other separator contains."""
_WRITTEN = {**_WITH_BLANK, _BAR: "| ", ".": "| "}
"""The separators of a thinned text, in place of separators that look like text on a few lines."""
_DECIMALS = tuple(map(str, range(10_000)))
"""The usual spellings of numbers."""


def thin(text: str) -> str | None:
    """Return the text with every twentieth line number; None if its lines are not numbered, if few numbers
    would go, or if a reader could not restore the numbers by counting (`are_ambiguous`)."""
    first = text.split("\n", _HEADER)[:_HEADER]
    separator = "" if LEGEND in first else separator_of(first)
    if not separator:
        return None
    numbers = _Numbers.of(text, separator)
    count = len(numbers.numbers)
    if count < _SHORTEST or numbers.are_ambiguous(text):
        return None
    kept: set[int] = set()
    for start, end in numbers.runs():
        kept.update(range(start + -numbers.numbers[start] % _STEP, end, _STEP), (start, end - 1))
    if 2 * len(kept) > count:
        return None
    thinned = numbers.contents.copy()
    # With a bare colon or bar on few lines, a reader could not know whether the blank after the sign belongs
    # to the line.
    separator = _WRITTEN.get(separator, separator)
    for position in kept:
        thinned[position] = prefix(numbers.numbers[position], separator) + thinned[position]
    whole = "\n".join([LEGEND + numbers.head, *thinned])
    # A line of the file may look numbered in another form.
    return whole if separator_of(whole.split("\n", _HEADER)[:_HEADER]) == separator else None


class _Numbers(Struct, frozen=True):
    """`_Numbers` are the numbered lines of a text."""

    separator: str
    head: str
    """The text before the first numbered line, with a line break before each line."""
    numbers: Sequence[int]
    contents: list[str]
    """The text after each number, including the unnumbered lines that follow."""

    gaps: list[int]
    """The positions of numbered lines, except the last, that have unnumbered lines directly below."""

    @classmethod
    def of(cls, text: str, separator: str) -> _Numbers:
        parts = _STARTS[separator].split("\n" + text)
        head, numbers, contents = parts[0], _read(parts[1::2]), parts[2::2]
        without = text.count("\n") + 1 - head.count("\n") - len(numbers)
        if not contents or without == contents[-1].count("\n"):
            return cls(separator, head, numbers, contents, [])
        gaps = [position for position, content in enumerate(contents[:-1]) if "\n" in content]
        return cls(separator, head, numbers, contents, gaps)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the first position and the end of each run of lines whose numbers grow by one."""
        count = len(self.numbers)
        breaks = set(self.gaps)
        if not isinstance(self.numbers, range):
            steps = map(sub, self.numbers[1:], self.numbers)
            breaks.update(position for position, step in enumerate(steps) if step != 1)
        start = 0
        for position in sorted(breaks):
            yield start, position + 1
            start = position + 1
        yield start, count

    def are_ambiguous(self, text: str) -> bool:
        """Return whether a reader who counts would get wrong numbers: if the content of a line looks
        numbered, or if the numbers after unnumbered lines continue as if these lines had numbers."""
        numbers, contents = self.numbers, self.contents
        for separator in {self.separator, _WRITTEN.get(self.separator, self.separator)}:
            sign = ": " if separator == _L else separator
            if text.count(sign) > (len(numbers) if separator == self.separator else 0):
                candidates = [content for content in contents if sign in content]
                if any(map(_PREFIXES[separator].match, candidates)):
                    return True
        return any(
            numbers[position + 1] - numbers[position] == contents[position].count("\n") + 1
            for position in self.gaps
        )


def _read(spelled: list[str]) -> Sequence[int]:
    """Return the numbers, as a `range` if they grow by one."""
    first, count = int(spelled[0]) if spelled else 0, len(spelled)
    if spelled == list(_DECIMALS[first : first + count]):
        return range(first, first + count)
    numbers = list(map(int, spelled))
    counted = range(first, first + count)
    return counted if numbers == list(counted) else numbers


def first_number(text: str) -> int | None:
    """Return the number of the first numbered line; None if the lines are not numbered."""
    lines = text.split("\n", _HEADER)[:_HEADER]
    separator = separator_of(lines)
    numbers = (number_of(line, separator) for line in lines)
    return next((number for number in numbers if number is not None), None)


def _may_be_of_the_file(text: str, signs: Collection[str]) -> bool:
    """Return whether the numbers may belong to the file: they have no padding and no sign of a known tool,
    and do not count every line of code (`count_code`)."""
    lines = text.split("\n", _HEADER)[:_HEADER]
    separator = separator_of(lines)
    numbered = (line for line in lines if number_of(line, separator) is not None)
    if separator in ("→", *signs) or next(numbered, "")[:1] in ("", " ", "\t", "0"):
        return separator == "."
    return not count_code(text)


def count_code(text: str) -> bool:
    """Return whether consecutive numbers stand before every line of a text with blank and indented lines.
    Rows of data and items of a list have no number on a blank line."""
    separator = separator_of(text.split("\n", _HEADER)[:_HEADER])
    if not separator:
        return False
    read = _Numbers.of(text, separator)
    if read.gaps or not isinstance(read.numbers, range) or len(read.numbers) < _SHORTEST:
        return False
    filled = [*filter(str.strip, read.contents)]
    blank = len(read.contents) - len(filled)
    return 0 < blank < len(filled) and any(content[0] in " \t" for content in filled)


def unpad(text: str) -> str | None:
    """Return the text without the blanks before its line numbers; None without such blanks, or with few
    numbers."""
    is_padded = text[:1] in (" ", "\t") or "\n " in text
    separator = separator_of(text.split("\n", _HEADER)[:_HEADER]) if is_padded else ""
    if not separator:
        return None
    numbers = _Numbers.of(text, separator)
    if len(numbers.numbers) < _SHORTEST:
        return None
    before, after = _SPELLED.get(separator, ("", separator))
    lines = [
        f"{before}{number}{after}{content}"
        for number, content in zip(numbers.numbers, numbers.contents, strict=True)
    ]
    return "\n".join([numbers.head, *lines])[1:]


def split(text: str) -> tuple[list[int], list[str]]:
    """Return the numbers and the contents of lines. The number of an unnumbered line is 0."""
    lines = text.split("\n")
    separator = separator_of(lines)
    if not separator:
        return [0] * len(lines), lines
    is_thinned = LEGEND in lines[:_HEADER]
    if not is_thinned:
        every = _Numbers.of(text, separator)
        if len(every.contents) == len(lines):
            return [*every.numbers], every.contents
    numbers, places = [0] * len(lines), list[int]()
    above, position, place = "\n" + text, 0, 0
    for match in _STARTS[separator].finditer(above):
        position, place = position + above.count("\n", place, match.start()), match.start()
        numbers[position], lines[position] = int(match[1]), lines[position][match.end() - place - 1 :]
        places.append(position)
    for left, right in pairwise(places if is_thinned else ()):
        # If two lines are n lines apart and their numbers differ by n, the numbers between them are
        # consecutive.
        if 1 < right - left == numbers[right] - numbers[left]:
            numbers[left:right] = range(numbers[left], numbers[right])
    return numbers, lines


def number_of(line: str, separator: str) -> int | None:
    """Return the number before a line; None without a number."""
    match = _PREFIXES[separator].match(line) if separator else None
    return int(match[1]) if match is not None else None


def prefix(number: int, separator: str) -> str:
    """Return the text before a line of this number."""
    before, after = _SPELLED.get(separator, ("", separator))
    return f"{before}{number}{after}"


def separator_of(lines: list[str]) -> str:
    """Return the text between number and content; empty if the lines are not numbered.

    Two of the first lines, n lines apart, must have numbers that differ by n. In a text with the legend, one
    number is enough. The separator is a bare colon if only some contents begin with a blank, or if all are
    indented by an even number of blanks.
    """
    head = "\n".join(lines[:_HEADER])
    return _remembered(head) if len(head) <= _SHORT_HEAD else _separator(head)


def _separator(head: str) -> str:
    offsets: dict[str, int] = {}
    found = ""
    lines = head.split("\n")
    is_thinned = LEGEND in lines
    matches = list(map(_PREFIX.match, lines))
    for position, match in enumerate(matches):
        if match is None or (match[2] in (":", "|") and match.end() == len(match.string)):
            continue
        number, separator = match[1] or match[3], (match[2] or _L)
        if separator[0] == ".":
            # A thinned text has other separators, and perhaps numbered lists.
            if is_thinned:
                continue
            separator = "."
        offset = int(number) - position
        other = _WITH_BLANK.get(separator) or _WITHOUT_BLANK.get(separator, "")
        if offset == offsets.get(other):
            return min(separator, other, key=len)
        if offsets.get(separator) == offset and not found:
            found = separator
            if separator in _PLAIN:
                return found
        offsets[separator] = offset
    if is_thinned:
        return found or next(iter(offsets), "")
    if found == _BAR and any("-+-" in line or line.lstrip().startswith("|") for line in lines):
        # A ruling line, or a line that begins with a bar, shows that the numbers are cells of a table.
        return ""
    if found == "." and None in matches[matches.index(next(filter(None, matches))) :]:
        # The numbers of a list are not on every line.
        return ""
    bare = _WITHOUT_BLANK.get(found, "")
    return bare if bare and _is_indented(lines) else found


def _is_indented(lines: list[str]) -> bool:
    """Return whether the blanks after the signs are the code's indentation, which is then an even number."""
    matches = [match for match in map(_AFTER_SIGN.match, lines) if match is not None]
    if any(match[1] == " " and not match[2] for match in matches):
        # The read tool wrote a blank after the sign of an empty line.
        return False
    filled = [(len(match[1]), match[2]) for match in matches if match[2]]
    least = min((blanks for blanks, _ in filled), default=0)
    # The inner lines of a block comment have one blank more than the code around them.
    return (
        least > 0 and least % 2 == 0 and any(found != (least, "*") for found in filled if found[0] == least)
    )


_remembered = lru_cache(maxsize=16)(_separator)
"""This function is `_separator` with a cache."""


def may_be_the_files(text: str, original: str, call: Call) -> bool:
    """Return whether the numbers in a tool's text may be part of the file. `original` is the unchanged
    text."""
    first = first_number(text)
    is_asked = first is not None and first > 1 and first in call.numbers
    is_certain = is_asked or is_in_tags(original, call.path)
    return not is_certain and _may_be_of_the_file(text, call.signs)


def count_lines(text: str, call: Call, original: str | None = None) -> bool:
    """Return whether the numbers in a text are certainly line numbers of its files. `original` is the output
    from which the text was made, if the lines of the two differ."""
    if LEGEND in text[:HEADING]:
        return True
    if not call.is_quoted:
        return False
    if call.shell or call.category != "read":
        return call.is_numbered
    came = text if original is None else original
    return not may_be_the_files(came, came, call)
