"""The part of a text that fits into a limit: its head, windows around its critical lines, its tail.

Works on UTF-8 bytes. Cuts lie at line ends where one is near, else between characters. Of many
critical lines the most severe come first, and of each kind the first one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from penumbra.compress.failure_lines import FailureLines

_WINDOWS = 16
"""Most windows in one result."""
MARKER = 60
"""Bytes that a marker with its line ends may need."""
LEAST = 4 * MARKER
_CONTEXT = 1_400
"""Bytes of a window, if there is room: a sixth of it in front of the critical line."""
_NEAR = 400
"""Bytes within which a line end is near enough to cut there."""
_NEAR_BLANK = 40
"""The distance to a blank."""
Span = tuple[int, int]


def choose(data: bytes, room: int, telling: Sequence[Span] | None = None) -> list[Span]:
    """The parts that stay: spans of `data` in order, whose bytes with a marker for each gap fit into `room`.

    `room` must be at least `LEAST` bytes, and less than `data` has. `telling`: the critical lines, the
    most important ones first; None: they are looked for.
    """
    telling = FailureLines.of(data).ranked() if telling is None else telling
    room -= 2 * MARKER
    head = _line_end(data, room // 5)
    tail = _line_start(data, len(data) - room // 4)
    inner = [span for span in telling if head <= span[0] and span[1] <= tail]
    windows = _windows(data, head, tail, room - head - (len(data) - tail), inner)
    if not windows:
        head = _line_end(data, room * 3 // 5)
        tail = _line_start(data, len(data) - (room - head))
        return _merge([(0, head), (tail, len(data))])
    used = sum(end - start + MARKER for start, end in windows)
    spare = room - head - (len(data) - tail) - used
    head = _line_end(data, head + max(0, spare))
    return _merge([(0, head), *windows, (tail, len(data))])


def _windows(data: bytes, head: int, tail: int, room: int, telling: Sequence[Span]) -> list[Span]:
    """Windows around the critical lines between head and tail."""
    context = min(_CONTEXT, room // max(1, min(len(telling), _WINDOWS // 2)) - 2 * MARKER)
    kept: list[Span] = []
    for span in telling[: 4 * _WINDOWS]:
        if len(kept) == _WINDOWS or room < 2 * MARKER:
            break
        fresh = _outside(_around(data, span, context, head, tail), kept)
        if fresh is None:
            continue
        start, end = fresh
        end = min(end, _line_end(data, start + room - MARKER))
        if end > start:
            kept.append((start, end))
            room -= end - start + MARKER
    return sorted(kept)


def _around(data: bytes, span: Span, context: int, head: int, tail: int) -> Span:
    """A critical line with a little of what stands before it and more of what follows."""
    start, end = span
    left = min(_line_start(data, start - context // 6), boundary(data, start))
    right = max(_line_end(data, start + context), boundary(data, end))
    return max(head, left), min(tail, right)


def _outside(window: Span, kept: list[Span]) -> Span | None:
    """The part of a window that no kept one covers; None if nothing is left."""
    start, end = window
    for left, right in kept:
        if left <= start < right:
            start = right
        if left < end <= right:
            end = left
    return (start, end) if start < end and not any(start <= left < end for left, _ in kept) else None


def _merge(spans: list[Span]) -> list[Span]:
    """The spans in order, with those joined whose gap is no larger than a marker."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][1] <= MARKER:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def headed(data: bytes, spans: Sequence[Span], headings: Mapping[int, int], room: int) -> list[Span]:
    """The spans, each with the heading of its first line, as far as `room` bytes have it; without that, a
    span begins behind what stands below the heading.

    `headings`: by number of a line, that of the line it must not be without.
    """
    starts = [0, *(found.end() for found in _LINE_END.finditer(data)), len(data)]
    left = room - sum(end - start + MARKER for start, end in spans)
    kept: list[Span] = []
    for start, end in spans:
        number = bisect_right(starts, start, hi=len(starts) - 1) - 1
        heading = headings.get(number)
        if heading is not None and not any(begin <= starts[heading] < stop for begin, stop in kept):
            cost = starts[heading + 1] - starts[heading] + MARKER
            if cost <= left:
                left -= cost
                kept.append((starts[heading], starts[heading + 1]))
            else:
                while starts[number] < end and headings.get(number) == heading:
                    number += 1
                start = starts[number]
        if start < end:
            kept.append((start, end))
    return _merge(kept)


_LINE_END = re.compile(rb"\n")


def assemble(data: bytes, spans: list[Span], marker: Callable[[int, int], str]) -> str:
    """The spans, with `marker(start, end)` on a line of its own for each gap before, between, behind them."""
    parts: list[bytes] = []
    position = 0
    for start, end in [*spans, (len(data), len(data))]:
        if start > position:
            before = b"" if not parts or parts[-1].endswith(b"\n") else b"\n"
            behind = b"\n" if start < end else b""
            parts.append(before + marker(position, start).encode() + behind)
        parts.append(data[start:end])
        position = end
    return b"".join(parts).decode("utf-8", "surrogatepass")


def boundary(data: bytes, position: int) -> int:
    """The nearest character boundary at or before `position`."""
    position = max(0, min(position, len(data)))
    while 0 < position < len(data) and data[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _line_end(data: bytes, position: int) -> int:
    """A cut at or before `position`: behind a line end or a blank if one is near, else between characters."""
    position = max(0, min(position, len(data)))
    for mark, near in ((b"\n", _NEAR), (b" ", _NEAR_BLANK)):
        end = data.rfind(mark, max(0, position - near), position)
        if end >= 0 and position < len(data):
            return end + 1
    return boundary(data, position)


def _line_start(data: bytes, position: int) -> int:
    """A cut at or after `position`: where a line or word starts if one is near, else between characters."""
    position = max(0, min(position, len(data)))
    if position == 0 or data[position - 1 : position] == b"\n":
        return position
    for mark, near in ((b"\n", _NEAR), (b" ", _NEAR_BLANK)):
        end = data.find(mark, position, position + near)
        if end >= 0:
            return end + 1
    while position < len(data) and data[position] & 0xC0 == 0x80:
        position += 1
    return position
