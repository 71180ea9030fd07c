"""Where a word ends whose line a terminal or a mailer broke.

Two words on two lines look the same as one word that was broken. It counts as one only where the lines
show the width at which they were broken: three lines at least, each but the last as long as the others,
and all of one alphabet.
"""

from __future__ import annotations

import re

_LINE = re.compile(rb"(?:\r?\n|\\{1,31}n)([A-Za-z0-9+/_.-]{1,4096}={0,2})(?=\r?\n|[\"'\\]|\Z)")
_HEX = re.compile(rb"[0-9a-f]*\Z")
_NEAR = 2_000
"""Bytes in front of the word in which its line begins."""
_LONGEST_BEGINNING = 64
_LEAST_WIDTH = 40
"""Columns: no terminal and no mailer breaks lines before."""
_ARMOUR_WIDTHS = (64, 76)
_ARMOUR_REACH = 128
_ARMOURED = re.compile(
    rb"(?:-----|(?:[^A-Za-z0-9+/]|\\n)(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{76}))"
    rb"(?:\r?\n|\\{1,31}n)[ \t]{0,16}\Z"
)
"""What stands in front of a line of a certificate, or of mail: its beginning, or a line as wide."""


def wrapped_end(data: bytes, start: int, end: int, most: int, begins: tuple[bytes, ...] = ()) -> int:
    """Where a word ends that begins at `start` and reaches the end of its line at `end`.

    `end` itself if the lines behind it prove nothing. `most`: bytes that are looked at. `begins`: how such
    words begin, in small letters; lines that each begin so are a list of them.
    """
    width = end - _line_begin(data, start)
    is_hex = _is_hex(data[start:end])
    at = end
    while width >= _LEAST_WIDTH and (line := _LINE.match(data, at, at + 2 * width)):
        piece = line[1]
        if begins_with(piece, begins):
            return end
        if len(piece) > width or (not is_hex and len(piece) == width and _is_hex(piece)):
            return end
        if len(piece) < width or line.end(1) - start > most or not _LINE.match(data, line.end(1)):
            return line.end(1) if at > end else end
        at = line.end(1)
    return end


def begins_with(piece: bytes, begins: tuple[bytes, ...]) -> bool:
    """Whether one of these texts, in small letters, is the piece's beginning."""
    return bool(begins) and piece[:_LONGEST_BEGINNING].lower().startswith(begins)


def _is_hex(piece: bytes) -> bool:
    """Nothing else behind the piece's last joint than hexadecimal digits, in small letters."""
    return bool(_HEX.match(piece, max(piece.rfind(joint) for joint in (b"_", b"-", b".")) + 1))


def _line_begin(data: bytes, at: int) -> int:
    begin = max(0, at - _NEAR)
    # A line of its own, or within a string.
    ends = ((data.rfind(line_end, begin, at), len(line_end)) for line_end in (b"\n", b"\\n"))
    return max([begin, *(end + length for end, length in ends if end >= 0)])


def is_armour(data: bytes, start: int, end: int) -> bool:
    """Whether a word is a whole line of a certificate, or of mail in base64."""
    start += data[start - 1 : start + 1] == b"\\n"  # An escaped end of a line.
    if end - start not in _ARMOUR_WIDTHS:
        return False
    return _ARMOURED.search(data, max(0, start - _ARMOUR_REACH), start) is not None
