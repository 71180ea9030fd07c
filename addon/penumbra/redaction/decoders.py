"""This module decodes the forms in which tools print bytes: dumps, base64, arrays, boxes, word diffs.

A decoder turns a text into views. Views are searched like other texts. A placeholder replaces the whole
encoding of a secret, such as the bytes of an array, a run of base64, or the cell of a box. Each line of a
dump, of base64 or of a box is replaced separately, so the number of lines stays the same.

One pass over a text tries the patterns of all decoders. A decoder without a match is skipped. Base64 is also
skipped in texts full of hashes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, partial
from typing import Any, TypeVar

import re2

from penumbra.linear import Found, Linear, latin1
from penumbra.redaction.finders.assignments import FLAGS, TAG_ENDS
from penumbra.redaction.finders.tokens import TAIL
from penumbra.redaction.span import Rank, Span
from penumbra.redaction.view import (
    AROUND,
    DISGUISE,
    FAR,
    GLUE,
    JOINTS,
    PAIRS,
    QUOTED,
    Making,
    View,
    joined,
    undisguised,
    unquoted,
)

_OPTIONS = latin1()
_LONGEST_ROW = 300
_BREAK = rb"(?:\r?\n|\\{1,31}n)"


@dataclass(frozen=True, slots=True)
class SignDecoder:
    """A `SignDecoder` finds and decodes one form in which tools print bytes."""

    pattern: bytes
    """A pattern for RE2 that matches in every text with this form."""
    views: Callable[[bytes], Iterable[View]]
    """A function that returns views of a text."""
    has_quotes: bool = False
    """True if quotes may be encoded. An encoded quote is closed only by an encoded quote."""
    label: str = ""
    """The label of secrets in this form; empty if each secret keeps its own label."""
    quote: bytes = b""
    """The quote that is written around a placeholder; empty if the form needs none."""

    def back(self, view: View, data: bytes, spans: Iterable[Span]) -> Iterator[Span]:
        """Yield the spans of the text from which these spans of a view were decoded."""
        for span in spans:
            if not view.is_news(span.start, span.end):
                continue
            cut = self.has_quotes and view.is_quote_in_letters(span.start - 1)
            for start, end in view.stretches(span.start, span.end):
                quote = data.find(b'"', start, end) if cut else -1
                stop = start + len(data[start:quote].rstrip(b"\\")) if quote >= 0 else end
                if stop > start:
                    yield self._printed(span, view.apart).at(start, stop)

    def _printed(self, span: Span, apart: bool) -> Span:
        if self.label:
            return Span(0, 0, self.label, self.label, Rank.STRUCTURE)
        return span._replace(sure=span.sure and not apart, quote=self.quote or span.quote)


_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_RUN = Linear(rb"[A-Za-z0-9+/]{48,}={0,2}", _OPTIONS)
_NEXT_LINE = re.compile(_BREAK + rb"[ \t]{0,16}([A-Za-z0-9+/]{1,4096}={0,2})(?=\r?\n|[\"'\\]|\Z)")
_SAMPLE = 48
"""The first characters of base64, up to this number, show whether it encodes text."""
_LONGEST = 1 << 20
_TEXT = frozenset((*b"\t\n\r", *range(32, 127)))


def _of_text() -> bytes:
    """Return a pattern that matches in each run of base64 whose beginning decodes to text. Four characters
    encode three bytes. The pattern leaves out the last four characters of the sample, because they may end
    with `=`."""
    firsts = {byte >> 2 for byte in _TEXT}, {byte >> 4 for byte in _TEXT}, {byte >> 6 for byte in _TEXT}
    characters = (
        _ALPHABET,
        (_ALPHABET[index] for index in firsts[0]),
        (_ALPHABET[index] for index in range(64) if index & 15 in firsts[1]),
        (_ALPHABET[index] for index in range(64) if index & 3 in firsts[2]),
    )
    classes = [b"[%b]" % bytes(sorted(each)) for each in characters]
    return b"(?:%b){%d}" % (b"".join((*classes[1:], classes[0])), _SAMPLE // 4 - 1)


def _encoded(data: bytes) -> Iterator[View]:
    """Yield a view of each run of base64 that decodes to text. A run may have several lines of one width."""
    over = 0
    for run in _RUN.finditer(data):
        start, end = run.span()
        start += data[start - 1 : start] == b"\\"  # The run begins after the letter of an escape.
        if start < over or end - start > _LONGEST or not _is_text(data[start : start + _SAMPLE]):
            continue
        lines = [(start, end), *_lines_of_base64(data, start, end)]
        over = lines[-1][1]
        made = Making(data)
        for begin, stop in lines:
            try:
                text = base64.b64decode(data[begin : begin + (stop - begin) // 4 * 4], validate=True)
            except (binascii.Error, ValueError):
                break
            made.piece(text, begin, stop - begin)
        if made.size:
            yield made.view(apart=True)


def _lines_of_base64(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the lines of a run after its first line, which is at `start` to `end`. All lines but the last are
    as wide as the first."""
    width = end - start
    if width % 4 or data[end - 1] == ord("="):
        return
    at = end
    while (line := _NEXT_LINE.match(data, at, at + width + 64)) and line.end(1) - start <= _LONGEST:
        if (size := line.end(1) - line.start(1)) > width:
            return
        yield line.span(1)
        at = line.end(1)
        if size < width:
            return


def _is_text(sample: bytes) -> bool:
    try:
        text = base64.b64decode(sample, validate=True)
    except (binascii.Error, ValueError):
        return False
    return _TEXT.issuperset(text)


_OCTETS = rb"[0-9a-fA-F]{2}"
_BEGIN = rb"(?:^|\\n|(?<=\"))[ \t]{0,8}"
_DUMPED = re.compile(
    _BEGIN
    + rb"(?:[0-9a-fA-F]{6,16}(?:: {1,2}((?:%b){1,16}(?: (?:%b){1,16}){0,31})" % (_OCTETS, _OCTETS)
    # Without a colon, two blanks may separate the halves of a row.
    + rb"|(?: {1,3}|\t)((?:%b){1,2}(?: {1,2}(?:%b){1,2}){0,15})(?![0-9a-fA-F])))" % (_OCTETS, _OCTETS),
    re.MULTILINE,
)
_DUMP = rb"[0-9a-fA-F]{6}:?[ \t]{1,3}(?:%b){1,16} {1,2}%b" % (_OCTETS, _OCTETS)
_REST = re.compile(rb"(?:[^\n\\\"]|\\[^\nn])*")
_SWAPPED = re.compile(rb"[0-9a-fA-F]{4}(?: [0-9a-fA-F]{4})*")
_CELLS = rb"(?:   [ -~]|  \\{1,2}[abfnrtv0]| [0-7]{3})"
_CHARACTERS = re.compile(
    _BEGIN + rb"[0-7]{7}(" + _CELLS + rb"{1,16})(?=[ \t]{0,3}(?:\r?\n|[\\\"]|\Z))", re.MULTILINE
)
_CELL = re.compile(rb"   ([ -~])|  \\{1,2}([abfnrtv0])| ([0-7]{3})")
_SHORT = {b"%c" % sign: b"%c" % octet for sign, octet in zip(b"abfnrtv0", b"\a\b\f\n\r\t\v\0", strict=True)}
_FAR = 24
"""The greatest number of bytes between two rows of the same dump."""


def _dumped(data: bytes) -> Iterator[View]:
    """Yield the view of the rows of hexadecimal dumps (`hexdump`, `xxd`, `od`)."""
    rows = []
    for row in _DUMPED.finditer(data):
        start = row.start(1 if row[1] else 2)
        cells = data[start : row.end()]
        octets = binascii.unhexlify(cells.replace(b" ", b""))
        if not row[1] and _SWAPPED.fullmatch(cells):
            # A word has two bytes. The low byte comes first.
            octets = b"".join(octets[at : at + 2][::-1] for at in range(0, len(octets), 2))
        rows.append((row.start(), start, _end_of_row(data, row), octets))
    yield from _rows(data, rows)


def _in_characters(data: bytes) -> Iterator[View]:
    """Yield the view of the rows of dumps in characters (`od -c`)."""
    rows = []
    for row in _CHARACTERS.finditer(data):
        octets = b"".join(
            cell[1] or (_SHORT[cell[2]] if cell[2] else bytes((int(cell[3], 8) & 255,)))
            for cell in _CELL.finditer(row[1])
        )
        rows.append((row.start(), *row.span(1), octets))
    yield from _rows(data, rows)


def _end_of_row(data: bytes, row: re.Match[bytes]) -> int:
    """Return the end of a dump's row. The row may be within a string."""
    within = row[0][:1] == b"\\" or data[row.start() - 1 : row.start()] == b'"'
    rest = _REST.match(data, row.end(), row.end() + _LONGEST_ROW) if within else None
    if rest is not None:
        return rest.end()
    end = data.find(b"\n", row.end(), row.end() + _LONGEST_ROW)
    end = end if end >= 0 else min(len(data), row.end() + _LONGEST_ROW)
    return end - (data[end - 1 : end] == b"\r")


def _rows(data: bytes, rows: Sequence[tuple[int, int, int, bytes]]) -> Iterator[View]:
    """Yield the view of rows of dumps. A row is a tuple: its beginning, start and end of the printed bytes,
    and the decoded bytes."""
    made, last = Making(data), 0
    following = [*(row[0] for row in rows[1:]), len(data)]
    for (begin, start, end, octets), stop in zip(rows, following, strict=False):
        if begin - last > _FAR:
            made.piece(b"\n\n", begin, GLUE)
        last = min(end, stop)
        made.piece(octets, start, last - start)
    if made.size:
        yield made.view(apart=True)


_NUL = rb"(?:\x00|\^@|\\+(?:u0000|x00|0))"
_WIDE = re.compile(rb"(?:(?:[\t\n\r -~]|\\{1,4}[nrt\"])" + _NUL.replace(rb"\\+", rb"\\{1,4}") + rb"){4,}")
_WIDE_SIGN = rb"(?:[\t\n\r -~]" + _NUL + rb"){3}"
_NULS = re.compile(_NUL.replace(rb"\\+", rb"\\{1,4}"))


def _wide(data: bytes) -> Iterator[View]:
    """Yield the view of a text in a two-byte encoding, with one byte for each character."""
    made, at = Making(data), 0
    for run in _WIDE.finditer(data):
        for nul in _NULS.finditer(data, *run.span()):
            made.stretch(at, nul.start())
            at = nul.end()
    if at:
        made.stretch(at, len(data))
        yield made.view()


_COMMA = rb"(?:,[ \t]{0,8}(?:(?:\r?\n|\\n)[ \t]{0,24})?|[ \t]{1,4})"
_MEMBERS = {
    "decimal": rb"(?:1[01][0-9]|12[0-6]|1[03]|3[2-9]|[4-9][0-9]|9)",
    "hex": rb"0x(?:0[9adAD]|[2-7][0-9a-fA-F])(?:u8)?",
    "pair": rb"(?:0[9adAD]|[2-7][0-9a-fA-F])",
    "letter": rb"b?'(?:[^'\\\n]|\\{1,2}[nrt'\"])'",
}
"""Patterns for one byte in an array, as programs and source code write arrays."""


def _array(kind: str, joint: bytes = _COMMA, front: bytes = b"") -> bytes:
    return rb"%b(?P<%b>(?:%b%b){7,}%b)" % (front, kind.encode(), _MEMBERS[kind], joint, _MEMBERS[kind])


_LEAST_DIGITS = 24
"""Hexadecimal digits for text and other bytes are decoded if at least this number of bytes is text."""
_LEAST_PURE = 12
"""Hexadecimal digits for text alone are decoded if the text has at least this number of bytes."""
_DIGITS = Linear(
    rb"(?:\A|[^0-9A-Za-z]|\\n)(?:[0-9A-Fa-f]{2}(?:\r?\n|\\{1,2}n)?){%d,}" % _LEAST_PURE, _OPTIONS
)
"""A match may begin with the character or escape before the digits."""
_DIGITS_SIGN = rb"(?:\A|[^0-9A-Za-z]|\\n)(?:[0-9A-Fa-f]{%d}|(?:[2-7][0-9A-Fa-f]){%d})" % (
    2 * _LEAST_DIGITS,
    _LEAST_PURE,
)
_LINE_OF_DIGITS = re.compile(rb"[0-9A-Fa-f]+")
_LEAST_TEXT = 8
_CHARACTER = rb"(?:[\t\n\r\x1b -~]|[\xc2-\xf4][\x80-\xbf]{1,3}+)"
_TEXT_IN_OCTETS = re.compile(rb"%b{%d,}+|\A%b++|%b++\Z" % (_CHARACTER, _LEAST_TEXT, _CHARACTER, _CHARACTER))
"""This pattern matches text among other bytes. At the ends of a line, a short text also matches."""
_ANY_ARRAY = rb"|".join(
    (_array("decimal"), _array("hex"), _array("pair", b"[ :-]", b"(?:<Buffer )?"), _array("letter"))
)
_ARRAY = re.compile(rb"(?<![0-9A-Za-z.'-])(?:" + _ANY_ARRAY + rb")(?![0-9A-Za-z.%])")
_MAY_BE_ARRAY = Linear(
    rb"(?:\A|[^0-9A-Za-z.'-])(?:" + re.sub(rb"\?P<\w+>|(?<=\{7),(?=\})", b"", _ANY_ARRAY) + rb")", _OPTIONS
)
"""This pattern matches at each array, or at the byte before the array. RE2 searches faster than `re`."""
_ARRAY_SIGN = rb"|".join(
    rb"%b(?:%b%b){7}" % (front, _MEMBERS[kind], joint)
    for kind, joint, front in (
        ("decimal", rb"(?:,?[ \t]|,(?:\s|\\n)*)", b""),
        ("hex", rb",(?:\s|\\n)*", b""),
        ("pair", b"[ :-]", b""),
        ("letter", rb",(?:\s|\\n)*", b""),
    )
)
_MEMBER = {kind: re.compile(pattern) for kind, pattern in _MEMBERS.items()}


def _octet(kind: str, member: bytes) -> bytes:
    if kind != "letter":
        return bytes((int(member.removesuffix(b"u8"), 10 if kind == "decimal" else 16),))
    letter = member.lstrip(b"b")[1:-1] if member[:1] == b"b" else member[1:-1]
    return _SHORT.get(letter[-1:], letter[-1:]) if letter[:1] == b"\\" else letter


_Run = TypeVar("_Run", re.Match[bytes], Found)
_Pieces = list[tuple[bytes, int, int]]
"""Arguments of `Making.piece`."""


def _digits(data: bytes, run: Found) -> _Pieces:
    """Return the pieces that replace a match of `_DIGITS` in a view. A line feed replaces bytes that are no
    text. If too few bytes are text, the result is empty."""
    pieces: _Pieces = []
    size = other = 0
    for line in _LINE_OF_DIGITS.finditer(data, *run.span()):
        octets, begin, at = binascii.unhexlify(line[0]), line.start(), 0
        for text in _TEXT_IN_OCTETS.finditer(octets):
            if text.start() > at:
                pieces.append((b"\n", begin + 2 * at, GLUE))
                other += text.start() - at
            pieces.append((text[0], begin + 2 * text.start(), PAIRS))
            at = text.end()
            size += at - text.start() if at - text.start() >= _LEAST_TEXT else 0
        if at < len(octets):
            pieces.append((b"\n", begin + 2 * at, GLUE))
            other += len(octets) - at
    return pieces if size >= (_LEAST_DIGITS if other else _LEAST_PURE) else []


def _array_members(data: bytes, run: re.Match[bytes]) -> _Pieces:
    """Return the pieces that replace a match of `_ARRAY` in a view."""
    kind = run.lastgroup or ""
    members = _MEMBER[kind].finditer(data, *run.span(kind))
    return [(_octet(kind, one[0]), one.start(), one.end() - one.start()) for one in members]


def _at_gate(gate: Linear, pattern: re.Pattern[bytes], data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the matches of a pattern that begin where `gate` matches, or one byte later. RE2 searches for a
    gate faster than `re` for a pattern."""
    at = 0
    while (start := gate.place(data, at, len(data))[0]) >= 0:
        run = pattern.match(data, start) or pattern.match(data, start + 1)
        if run is not None:
            yield run
        at = run.end() if run is not None else start + 1


def _spelled(
    runs: Callable[[bytes], Iterator[_Run]], decoded: Callable[[bytes, _Run], _Pieces], data: bytes
) -> Iterator[View]:
    """Yield a view of the text near the runs. Decoded pieces replace each run."""
    made, at = Making(data), 0
    for run in runs(data):
        if pieces := decoded(data, run):
            made.near(at, pieces[0][1])
            for piece in pieces:
                made.piece(*piece)
            at = run.end()
    if made.size:
        made.stretch(at, min(len(data), at + AROUND))
        yield made.view()


_PRINTABLE_SIGN = rb"=3D|(?:=[2-7][0-9A-F]){2}|[^=\n]=\r?\n[^\s=-]"
_SOFT_BREAK = rb"(?:\\{1,31}r)?" + _BREAK + rb"(?=[^\s=-])"
_PRINTABLE = re.compile(
    # `re` finds an equals sign at the beginning of the pattern faster than elsewhere.
    rb"=(?:(?<==[2-7][0-9A-F]=)([2-7][0-9A-F])|([2-7][0-9A-F])(?==[2-7][0-9A-F])|%b)" % _SOFT_BREAK
)
"""This pattern matches an escape beside another escape, or a soft line break. In a text without `=3D`, a
single escape may be an assignment, as in `KEY=4A`."""
_MARKED_PRINTABLE = re.compile(rb"=(?:([2-7][0-9A-F])|%b)" % _SOFT_BREAK)
_NO_ESCAPE = re.compile(rb"=(?![0-9A-F]{2}|\r?\n)")
_FULL_LINE = range(72, 76)
"""Numbers of bytes before a soft line break, which programs insert only in long lines."""
_PADDED = re.compile(rb"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{4}){5,}[A-Za-z0-9+/]{3}\Z")
"""This pattern matches base64 before a `=` that pads the base64."""


def _quoted_printable(data: bytes) -> Iterator[View]:
    """Yield the view of a text in quoted-printable."""
    is_marked = b"=3D" in data
    breaks_lines = is_marked or _NO_ESCAPE.search(data) is None

    def piece(data: bytes, escape: re.Match[bytes]) -> _Pieces:
        letter, at = binascii.unhexlify(escape[escape.lastindex]) if escape.lastindex else b"", escape.start()
        if not letter and not is_marked:
            # In a text without `=3D`, the `=` of a short line may be that of an empty value, as in `KEY=`.
            begin = data.rfind(b"\n", max(0, at - _FULL_LINE.stop), at) + 1
            if not breaks_lines or at - begin not in _FULL_LINE or _PADDED.search(data, begin, at):
                return []
        return [(letter, at, escape.end() - at)]

    pattern = _MARKED_PRINTABLE if is_marked else _PRINTABLE
    yield from _spelled(pattern.finditer, piece, data)


_NAMED = 64
"""The name of a value is looked for in at most this number of bytes before the value."""
_BAR = rb"(?:\||\xe2\x94\x82|\xe2\x94\x83|\xe2\x95\x91)"
_ROW = re.compile(
    rb"^[ \t]{0,16}(" + _BAR + rb")([^\n]{3,4096}?)(" + _BAR + rb")[ \t]{0,8}\r?$", re.MULTILINE
)
_MAY_BE_ROW = Linear(rb"(?m)^[ \t]{0,16}" + _BAR, _OPTIONS)
_BOX_SIGN = rb"[!-~]" + rb" ?" + _BAR + rb"[ \t]*\r?\n[ \t]*" + _BAR + rb"[ \t]"


def _boxes(data: bytes) -> Iterator[View]:
    """Yield the view of boxes and tables. The lines of each wrapped cell are joined."""
    made, joints, above = Making(data), [], [(0, 0)]
    pending: list[list[tuple[int, int]]] = []
    last = -1

    def flush() -> None:
        for column, pieces in enumerate(pending):
            made.piece(b"| " if column else b"\n| ", pieces[0][0] if pieces else 0, GLUE)
            for number, piece in enumerate(pieces):
                if number:
                    joints.append(made.size)
                made.stretch(*piece)
        pending.clear()

    for row in _at_gate(_MAY_BE_ROW, _ROW, data):
        cells = _cells(data, row)
        goes_on = row.start() - last in (1, 2) and _continues(data, above, cells) and bool(pending)
        if not goes_on:
            flush()
            pending += [[] for _ in cells]
        for column, cell in enumerate(cells):
            start, end = _within(data, cell)
            if end > start:
                # If only one column is free at the end of a cell, the blank may belong to the text.
                pending[column].append((start, end + (cell[1] - end == 2)))
        above, last = cells, row.end()
    flush()
    if joints:
        made.piece(b"\n", last, GLUE)
        yield made.view(joints, _NAMED, apart=True)


def _cells(data: bytes, row: re.Match[bytes]) -> list[tuple[int, int]]:
    """Return the spans of the cells of a row, with their blanks."""
    bounds = [row.end(1), *(each for bar in re.finditer(re.escape(row[1]), row[2]) for each in bar.span()), 0]
    bounds[1:-1] = [row.start(2) + bound for bound in bounds[1:-1]]
    bounds[-1] = row.start(3)
    return list(zip(bounds[::2], bounds[1::2], strict=True))


def _within(data: bytes, cell: tuple[int, int]) -> tuple[int, int]:
    text = data[slice(*cell)]
    start = cell[0] + len(text) - len(text.lstrip(b" \t"))
    return start, max(start, cell[1] - (len(text) - len(text.rstrip(b" \t"))))


def _continues(data: bytes, above: Sequence[tuple[int, int]], cells: Sequence[tuple[int, int]]) -> bool:
    """Return whether at least one cell has text, and each cell with text continues a full cell above it."""
    if len(above) != len(cells):
        return False
    goes_on = False
    for over, cell in zip(above, cells, strict=True):
        start, end = _within(data, cell)
        if start == end:
            continue
        full = _within(data, over)
        if start - cell[0] > 1 or full[1] == full[0] or over[1] - full[1] > 2:
            return False
        goes_on = True
    return goes_on


_WORD_BEGINS = re.compile(rb"\[-|\{\+")
_WORD_ENDS = {b"[-": b"-]", b"{+": b"+}"}
_LONGEST_WORD = 4_096


def _compared(data: bytes) -> Iterator[View]:
    """Yield a view of each of the two texts that a word diff compares."""
    words = list(_words_of_diff(data))
    for kept in (b"{+", b"[-"):
        made, at = Making(data), 0
        for start, end in words:
            made.near(at, start, FAR)
            if data.startswith(kept, start):
                made.stretch(start + 2, end - 2)
            at = end
        if at:
            made.stretch(at, min(len(data), at + FAR))
            yield made.view()


def _words_of_diff(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the range, with its brackets, of each word that only one of the two texts has."""
    over = 0
    for begin in _WORD_BEGINS.finditer(data):
        start = begin.start()
        stop = data.find(b"\n", start, start + _LONGEST_WORD)
        stop = stop if stop >= 0 else start + _LONGEST_WORD
        end = data.find(_WORD_ENDS[begin[0]], start + 3, stop) if start >= over else -1
        if end >= 0:
            over = end + 2
            yield start, over


_SET_OPTIONS = latin1(64 << 20)
"""The memory limit is large, because a set that runs out of memory reports no match."""
Sign = IntEnum(
    "Sign",
    "DISGUISE JOINT ENCODED FLAG TAG QUOTED DUMP CHARACTERS WIDE ARRAY BOX WORD_DIFF TAIL DIGITS PRINTABLE",
)
"""A `Sign` is an encoding, a name before a value, or a token's tail that a text may contain."""
DECODERS = {
    Sign.DISGUISE: SignDecoder(DISGUISE.pattern, undisguised, has_quotes=True),
    Sign.JOINT: SignDecoder(JOINTS.pattern, joined),
    Sign.ENCODED: SignDecoder(_of_text(), _encoded, label="encoded-secret"),
    Sign.QUOTED: SignDecoder(QUOTED.pattern, unquoted, has_quotes=True),
    Sign.DUMP: SignDecoder(_DUMP, _dumped),
    Sign.CHARACTERS: SignDecoder(rb"[0-7]{7}" + _CELLS + rb"{4}", _in_characters),
    Sign.WIDE: SignDecoder(_WIDE_SIGN, _wide),
    Sign.ARRAY: SignDecoder(
        _ARRAY_SIGN, partial(_spelled, partial(_at_gate, _MAY_BE_ARRAY, _ARRAY), _array_members), quote=b'"'
    ),
    Sign.DIGITS: SignDecoder(_DIGITS_SIGN, partial(_spelled, _DIGITS.finditer, _digits)),
    Sign.PRINTABLE: SignDecoder(_PRINTABLE_SIGN, _quoted_printable),
    Sign.BOX: SignDecoder(_BOX_SIGN, _boxes),
    Sign.WORD_DIFF: SignDecoder(rb"\[-[^\n]+-\]|\{\+[^\n]+\+\}", _compared),
}
"""A decoder is used if its sign occurs in the text."""
_PATTERNS: dict[Sign, bytes] = {
    # `FLAGS` expects a text in lower case, and this text may have capitals.
    Sign.FLAG: b"(?i)" + FLAGS.pattern,
    Sign.TAG: TAG_ENDS,
    Sign.TAIL: TAIL.pattern,
    **{sign: decoder.pattern for sign, decoder in DECODERS.items()},
}


@cache
def _signs() -> Any:
    found = re2.Set.SearchSet(_SET_OPTIONS)
    for pattern in _PATTERNS.values():
        found.Add(pattern)
    found.Compile()
    return found


def signs(data: bytes) -> frozenset[Sign]:
    numbers = tuple(_PATTERNS)
    return frozenset(numbers[index] for index in _signs().Match(data) or ())
