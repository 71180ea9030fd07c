"""This module answers queries about originals with the whole text, a range of lines, or matching lines.

An answer has about one page, whose last line explains how to get the next page. If an original has rising
line numbers, such as a part of a file, answers use these numbers. Otherwise, lines are counted from 1, or
from the line that the call names. The answer to a bad query explains how to ask.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import re2

from penumbra.compress.size import exceeds, head, size
from penumbra.compress.stages import line_numbers
from penumbra.expand import reference
from penumbra.linear import quiet, utf8
from penumbra.wire.json_values import NotJson, decode, encode

PAGE_BYTES = 48_000
"""Largest page, in UTF-8 bytes."""
_SMALLEST_PAGE = 16_000
"""A page has at least this number of bytes if there is space."""
LEAST_BYTES = 400
"""A text of fewer bytes is not worth sending."""
_PATTERN_CHARACTERS = 1_000
_PROGRAM_STEPS = 1_500
"""The greatest number of steps of a compiled pattern. Each byte may take all of them."""
SEARCH_SECONDS = 2.0
"""The processor time in seconds of all searches of one turn, checked after each line."""
_LINE_WORK, _BYTE_WORK = 200_000_000, 100
"""The limit of search steps for one line, and the least number of steps for one byte. If a line would need
more steps, only its beginning is searched."""
_LINE_CHARACTERS = 2_000
_CONTEXT_LINES = 2
_MOST_CONTEXT_LINES = 50
_RANGE = re.compile(r"(\d{1,9})?[ \t]{0,9}(-|–|\.\.|:|,)?[ \t]{0,9}(\d{1,9})?", re.ASCII)
REFUSED = (
    "No more originals can be given in this turn. Go on with what you have, or call another tool. "
    "You may ask again after the next message."
)
MOST_CALLS = 32
"""The greatest number of calls in one turn that are answered."""
TOO_MANY = f"Not given: {MOST_CALLS} calls are answered at a time. Ask again for this one alone."
PROVIDED = "This has already been provided: see the earlier result of this same call."
NO_SPACE = (
    "Not given: this does not fit into the conversation any more. Ask for a small part of it with `lines` or "
    "`pattern`, or go on with what you have."
)
LITTLE_SPACE = "Little room is left in this conversation: ask for `lines` or `pattern`."


@dataclass(frozen=True, slots=True)
class Query:
    """A `Query` has the arguments of one call of the injected tool."""

    ref: str
    pattern: str = ""
    ignore_case: bool = False
    context: int = _CONTEXT_LINES
    first: int | None = None
    last: int | None = None
    """The numbers of the first and the last line; None for the original's first or last line."""
    offset: int = 0
    """The first character, counted from the beginning of the original."""

    def identity(self) -> str:
        """Return a text that is equal for equal queries."""
        parts = (self.ref, self.pattern, self.ignore_case, self.context, self.first, self.last, self.offset)
        return encode(parts if self.pattern else (self.ref, *parts[4:])).decode()


def share(page_bytes: int, limit: int, calls: int) -> int:
    """Return the page size if `calls` calls share `limit` bytes; 0 if a page would be too small."""
    page = min(page_bytes, limit // max(1, calls))
    return page if page >= LEAST_BYTES else 0


def page_bytes(max_output_bytes: int) -> int:
    """Return the page size in bytes: within limits, three quarters of the size at which results are cut."""
    return max(_SMALLEST_PAGE, min(PAGE_BYTES, max_output_bytes * 3 // 4))


def parse(arguments: str) -> Query | str:
    """Return the query in a call's arguments (JSON), or a sentence about an error in the arguments."""
    try:
        value = decode(utf8(arguments))
    except NotJson:
        return 'The arguments are no complete JSON object. Call again with {"id": "shadow_…"}.'
    ref = reference.copied(value.get("id")) if isinstance(value, dict) else ""
    if not ref:
        return 'The argument "id" is missing. Call again with {"id": "shadow_…"}.'
    pattern = value.get("pattern")
    if pattern is not None and (not isinstance(pattern, str) or len(pattern) > _PATTERN_CHARACTERS):
        return f'"pattern" must be a text of at most {_PATTERN_CHARACTERS:,} characters.'
    within, offset = _within(value.get("lines"))
    lines = _range(within)
    if lines is None:
        return '"lines" must be a range such as "120-180".'
    return Query(
        ref=ref,
        pattern=pattern or "",
        ignore_case=value.get("ignore_case") in (True, "true"),
        context=min(_number(value.get("context"), _CONTEXT_LINES), _MOST_CONTEXT_LINES),
        first=lines[0],
        last=lines[1],
        offset=offset or _number(value.get("offset"), 0),
    )


def unknown(ref: str) -> str:
    """Return the answer for an unknown original or an invalid reference."""
    if ref and not reference.is_ref(ref):
        return 'This is no id. Call again with what stands behind "SHADOW:": "shadow_" and all of its digits.'
    named = f" {ref}" if ref else ""
    return (
        f"The full text of{named or ' this result'} is not available any more. Go on with what you have, "
        "or run the tool again to get its output."
    )


def result(
    text: str,
    query: Query,
    tool: str,
    page_bytes: int = PAGE_BYTES,
    clock: Callable[[], float] = time.thread_time,
    seconds: float = SEARCH_SECONDS,
    before: int = 0,
) -> str:
    """Return the answer to a query. The answer may suggest calls of `tool`. A search ends after `seconds` of
    processor time, measured by `clock`. If the lines have no numbers, `before` is the number of lines of the
    file before the text."""
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    count = _Numbering.of(text, len(lines), before)
    first = bisect_left(count.numbers, query.first) + 1 if query.first else 1
    last = bisect_right(count.numbers, query.last) if query.last else len(lines)
    if first > len(lines):
        return f"The original has {_lines(len(lines))}; line {query.first:,} is beyond its end."
    if query.last and query.last < count.first:
        return f"The original begins with line {count.first:,}; line {query.last:,} is before it."
    if last < first:
        return f'"lines" must be a range such as "120-180"; {query.first}-{query.last} is empty.'
    if query.pattern:
        return _matching(lines, query, (first, last), count, page_bytes, clock, seconds)
    start = sum(len(line) + 1 for line in lines[: first - 1])
    end = len(text) if last == len(lines) else start + sum(len(line) + 1 for line in lines[first - 1 : last])
    start = max(start, query.offset)
    if not text:
        return text
    if start >= end:
        return f"The original has {len(text):,} characters; there is nothing at {query.offset:,}."
    return _page(text, start, end, query, tool, page_bytes, count)


class _Numbering(NamedTuple):
    """A `_Numbering` has the numbers that answers and ranges use for the lines of a text."""

    numbers: Sequence[int]
    """The number of each line, strictly rising. Numbers of a heading's lines are below `first`."""
    first: int
    """The number of the first numbered line. The lines of a heading above it have no numbers."""
    note: str = ""
    """An explanation, if the numbers differ from those in the text; otherwise empty."""

    @classmethod
    def of(cls, text: str, count: int, before: int) -> _Numbering:
        """Return the numbering of a text with `count` lines. `before` is as in `result`."""
        shown = line_numbers.split(text)[0][:count]
        start = next((place for place, number in enumerate(shown) if number), None)
        if start is None:
            return cls(range(before + 1, before + count + 1), max(1, before + 1))
        first = shown[start]
        numbers = list(range(first - start, first))
        for number in shown[start:]:
            # A line without a number, such as a mark for left-out lines, gets the next number.
            numbers.append(number or numbers[-1] + 1)
        if all(number < following for number, following in pairwise(numbers)):
            return cls(numbers, first)
        return cls(range(1, count + 1), 1, ", counted in the whole output")

    def at(self, position: int) -> int:
        """Return the number of the line at a position (from 1 on), or of the first numbered line below it."""
        return max(self.first, self.numbers[position - 1])


def _page(
    text: str, start: int, end: int, query: Query, tool: str, page_bytes: int, count: _Numbering
) -> str:
    """Return as much of the text after `start` as fits, mostly in whole lines, and a hint how to get more."""

    def line_at(offset: int) -> int:
        """Return the number of the line that contains a character. A line break is part of the line before
        it."""
        return count.at(text.count("\n", 0, offset) + 1)

    whole = start == 0 and end == len(text)
    if end - start <= page_bytes and not exceeds(text[start:end], page_bytes):
        first, last = line_at(start), line_at(end - 1)
        place = "" if whole else f"[Lines {first:,}-{last:,} of {line_at(len(text) - 1):,}{count.note}]\n"
        return place + text[start:end]
    piece = head(text[start:end], page_bytes)
    cut = piece.rfind("\n") + 1
    if cut < len(piece) // 2:
        cut = len(piece)
    stop = start + cut
    total, last_line = line_at(len(text) - 1), line_at(stop - 1)
    until = line_at(end - 1)
    if count.numbers[text.count("\n", 0, stop)] < count.first:
        after = f'lines="-{until}@{stop}"'
    elif text[stop - 1] == "\n":
        after = f'lines="{line_at(stop)}-{until}"'
    else:
        after = f'lines="{last_line}-{until}@{stop}"'
    place = f"Lines {line_at(start):,}-{last_line:,} of {total:,}{count.note}"
    if text[stop - 1] != "\n" or (start and text[start - 1] != "\n"):
        place += f", characters {start:,}-{stop:,} of {len(text):,}"
    little = f"{LITTLE_SPACE} " if page_bytes < _SMALLEST_PAGE else ""
    more = f'[{little}To go on: {tool}(id="{query.ref}", {after}). To find something: pattern="…".]'
    gap = "" if text[stop - 1] == "\n" else "\n"
    return f"[{place}]\n{text[start:stop]}{gap}{more}"


def _lines(count: int, noun: str = "line") -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _matching(
    lines: list[str],
    query: Query,
    within: tuple[int, int],
    numbering: _Numbering,
    page_bytes: int,
    clock: Callable[[], float],
    seconds: float,
) -> str:
    """Return matching lines in the format of grep: number, colon or dash, text, and `--` between groups."""
    options = quiet()
    options.case_sensitive = not query.ignore_case
    try:
        pattern = re2.compile(utf8(query.pattern), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else ""
        return (
            f"The pattern can't be used: {str(reason)[:200]}. RE2 has no look-around and no back-references; "
            "call again with a simpler pattern."
        )
    if pattern.programsize > _PROGRAM_STEPS:
        return "The pattern can't be used: it is too large. Call again with smaller counts, or fewer words."
    (first, last), number = within, numbering.at
    matches = _search(lines, pattern, first, last, clock, seconds)
    hits = matches.hits
    where = _lines(len(lines)) + numbering.note
    if query.first or query.last:
        where = f"lines {number(first):,}-{number(last):,} of {where}"
    if matches.last < last:
        searched = f"{number(first):,}-{number(matches.last):,}"
        where += f", of which only {searched} were searched, since this pattern takes long"
    if matches.cut:
        where += f"; of {len(matches.cut):,} very long lines only the beginning was searched"
    count = f"[{_lines(len(hits), 'matching line')} in {where}]"
    rest, body, following = 0, "", 0
    if hits:
        shown, body = _groups(lines, hits, query.context, page_bytes, numbering)
        rest = len(hits) - shown
        following = sorted(hits)[shown] if rest else 0
    listed = count + (f"\n{body}" if hits else "")
    if rest:
        what = f"{rest:,} more matching {'line' if rest == 1 else 'lines'} not shown"
        return f'{listed}\n[{what}. To go on: the same call with lines="{number(following)}-{number(last)}".]'
    if matches.last < last:
        onwards = f'lines="{number(matches.last + 1)}-{number(last)}"'
        return f"{listed}\n[To go on: the same call with {onwards}, or a simpler pattern.]"
    return listed


@dataclass(frozen=True, slots=True)
class _Matches:
    hits: dict[int, int]
    """Byte offset of the first match in each matching line, by line number."""
    last: int
    """The number of the last line that was searched."""
    cut: frozenset[int]
    """Numbers of lines that were searched in part."""


def _search(
    lines: list[str], pattern: Any, first: int, last: int, clock: Callable[[], float], seconds: float
) -> _Matches:
    """Search lines until the time is over, at least one."""
    hits: dict[int, int] = {}
    cut: set[int] = set()
    longest = _LINE_WORK // (pattern.programsize + _BYTE_WORK)
    end = clock() + seconds
    number = first
    for number in range(first, last + 1):
        line = utf8(lines[number - 1])
        if len(line) > longest:
            line = line[:longest]
            cut.add(number)
        if (match := pattern.search(line)) is not None:
            hits[number] = match.start()
        if clock() >= end:
            break
    return _Matches(hits, number, frozenset(cut))


def _groups(
    lines: list[str], hits: dict[int, int], context: int, page_bytes: int, count: _Numbering
) -> tuple[int, str]:
    """Return the number of hits that fit on a page (at least one) and the rows of the page."""
    most = min(_LINE_CHARACTERS, page_bytes // 4)
    rows: list[str] = []
    used = shown = written = 0
    numbers = sorted(hits)
    for place, number in enumerate(numbers):
        limit = numbers[place + 1] - 1 if place + 1 < len(numbers) else len(lines)
        begin = max(written + 1, number - context)
        block = ["--"] if rows and begin > written + 1 else []
        block += [_row(lines, line, None, most, count) for line in range(begin, number)]
        block.append(_row(lines, number, hits[number], most, count))
        written = min(number + context, limit, len(lines))
        block += [_row(lines, line, None, most, count) for line in range(number + 1, written + 1)]
        used += _bytes_of(block)
        if rows and used > page_bytes:
            break
        if used > page_bytes:
            # The line fits only without its context.
            block, written = [_row(lines, number, hits[number], most, count)], number
            used = _bytes_of(block)
        rows += block
        shown += 1
    return shown, "\n".join(rows)


def _bytes_of(rows: list[str]) -> int:
    return sum(size(row) + 1 for row in rows)


def _row(lines: list[str], number: int, hit: int | None, most: int, count: _Numbering) -> str:
    """Return a line with its number. Of a line with more than `most` characters, return the part around the
    hit, which is an offset in bytes."""
    line = lines[number - 1]
    mark = "-" if hit is None else ":"
    in_file = count.numbers[number - 1]
    shown = f"{in_file if in_file >= count.first else ''}{mark}"
    if len(line) <= most:
        return shown + line
    at = max(0, len(head(line, hit or 0)) - most // 2)
    part = line[at : at + most]
    return f"{shown}{part} [characters {at + 1:,}-{at + len(part):,} of {len(line):,} in this line]"


def _within(value: Any) -> tuple[Any, int]:
    """Return the lines and the offset of the first character in a value such as "5-9@1200"."""
    if not isinstance(value, str) or "@" not in value:
        return value, 0
    lines, _, offset = value.partition("@")
    return lines, _number(offset.strip(), 0)


def _range(value: Any) -> tuple[int | None, int | None] | None:
    """Return the line numbers in "120-180", "120-", "-180", "120", 120 or [120, 180]; None for other
    values."""
    if value is None or value == "":
        return None, None
    if isinstance(value, list) and len(value) == 2 and all(type(number) is int for number in value):
        value = f"{value[0]}-{value[1]}"
    if type(value) is int:
        value = str(value)
    match = _RANGE.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 40 else None
    if match is None or not (match[1] or match[3]):
        return None
    first = max(1, int(match[1])) if match[1] else None
    if not match[2]:
        return (first, first) if not match[3] else None
    return first, max(1, int(match[3])) if match[3] else None


def _number(value: Any, default: int) -> int:
    """Return the natural number that a value is or spells; `default` for other values."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,12}", value, re.ASCII):
        value = int(value)
    return value if type(value) is int and 0 <= value < 1 << 40 else default
