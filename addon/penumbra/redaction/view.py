"""This module makes views of a text: copies of a text in which disguised secrets are readable.

A secret may contain terminal sequences or zero-width characters. The letters of a secret may be written as
escapes of JSON or URLs, or in hexadecimal. A program may have split the secret. A view maps each of its bytes
to a range of the text. `decoders.py` makes further views.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from penumbra.linear import Found, Linear, latin1

_OPTIONS = latin1()
_ESCAPED_ESC = rb"\\+(?:u001[bB]|x1[bB]|033|e)"
_NO_WIDTH = (
    rb"\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xa4\xa6-\xaf]|\xef\xbb\xbf|\xc2\xad|\xcd\x8f|\xd8\x9c|\xe1\xa0\x8e"
    rb"|\xef\xb8[\x80-\x8f]|\\+u(?:200[b-fB-F]|206[0-4]|[fF][eE][fF][fF]|00[aA][dD])"
)
_TERMINAL = (
    rb"(?:\x1b|" + _ESCAPED_ESC + rb")(?:\[[0-?]*[ -/]*[@-~]"
    rb"|\][^\x07\x1b\\\n]*(?:\x07|\x1b\\|\\+(?:u0007|a|x07)|" + _ESCAPED_ESC + rb"\\+)"
    rb"|[()*+#%][0-9A-Za-z]|[=>78cDEHMNOZ])|[^\n]\x08"
)
_PERCENT = rb"%(?:25){0,4}"
"""The beginning of a percent escape, which may itself be escaped several times."""
_LETTER = (
    rb"\\+u00([2-7][0-9a-fA-F])|\\+x([2-7][0-9a-fA-F])"
    rb"|" + _PERCENT + rb"([46][1-9a-fA-F]|[57][0-9aA]|5[fF]|2[dDeE]|3[0-9])"
    rb"|\\+((?:0[4-7]|1[0-7])[0-7]|012)"
    rb"|&(?:amp;){0,2}(?:#(?:10|3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6]|[xX](?:[2-7][0-9a-fA-F]|[aA]));"
    rb"|quot;|apos;|amp;|lt;|gt;)"
)
_OCTAL = 4
"""The number of the group in `_LETTER` that matches octal digits."""
_ENTITIES = {b"quot": b'"', b"apos": b"'", b"amp": b"&", b"lt": b"<", b"gt": b">"}
"""The characters of named HTML entities."""
# Without groups, RE2 finds a match in a fraction of the time.
DISGUISE = Linear(_NO_WIDTH + rb"|" + _TERMINAL + rb"|" + re.sub(rb"\((?!\?)", b"(?:", _LETTER), _OPTIONS)
_LONGEST_LETTER = 40
_LETTERS = re.compile(_LETTER)
GLUE = -1
"""The `length` of a piece of a view that stands for no bytes of the text."""
PAIRS = -2
"""The `length` of a piece of a view in which each byte stands for two bytes of the text."""
AROUND = 300
"""A view also contains this number of bytes on each side of decoded bytes, because a name may be there."""
FAR = 8_192
"""In views for long secrets, such as private keys, the number of bytes around decoded bytes."""
_KEPT = b'"\\'
"""These characters stay escaped in a view, because they would end or change their string."""
_QUOTE = re.compile(rb"\\+(?:u00|x)22")
"""This pattern matches an escaped quote such as `\\u0022`. A quote in nested strings has more backslashes."""


@dataclass(frozen=True, slots=True)
class View:
    """A `View` is a text without disguises, and maps each byte of this text to a range of the original."""

    data: bytes
    _starts: list[int]
    _origins: list[int]
    _lengths: list[int]
    joints: Sequence[int] | None = None
    """The offsets where two separate parts of the text meet in the view. Only secrets across a joint are new.
    If `joints` is None, every secret is new."""
    reach: int = 0
    """A secret that begins at most this number of bytes after a joint is also new."""
    apart: bool = False
    """True if the pieces are lines or cells that are redacted separately."""

    def is_news(self, start: int, end: int) -> bool:
        """Return whether only this view shows the secret from `start` to `end`."""
        return self.joints is None or bisect(self.joints, start - self.reach) < bisect_left(self.joints, end)

    def stretches(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of the text from which `start` to `end` of the view came. If `apart` is true,
        each piece has its own range. Otherwise there is one range."""
        if not self.apart:
            return [self.origin(start, end)]
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1) - 1
        bounds = [start, *self._starts[first + 1 : last + 1], end]
        pieces = enumerate(pairwise(bounds), first)
        return [self.origin(*bound) for index, bound in pieces if self._lengths[index] != GLUE]

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of the text from which `start` to `end` of the view came."""
        return self._place(start)[0], self._place(end - 1)[1]

    def is_quote_in_letters(self, at: int) -> bool:
        """Return whether the byte at `at` is a quote that the text encodes, such as `%22` or `&quot;`."""
        if at < 0 or self.data[at] not in b"\"'":
            return False
        return self._lengths[bisect_right(self._starts, at) - 1] not in (GLUE, 0, 1)

    def _place(self, at: int) -> tuple[int, int]:
        """Return the range in the text for the byte at `at` in the view."""
        index = bisect_right(self._starts, at) - 1
        offset = at - self._starts[index]
        if self._lengths[index] == GLUE:
            return self._origins[index], self._origins[index]
        if self._lengths[index] > 0:
            return self._origins[index], self._origins[index] + self._lengths[index]
        width = -self._lengths[index] or 1
        return self._origins[index] + offset * width, self._origins[index] + (offset + 1) * width


def undisguised(data: bytes) -> Iterator[View]:
    """Yield the view of a text without its disguises, if it has any."""
    return _build(data, DISGUISE.finditer(data), FAR)


def without(data: bytes, matches: Iterable[re.Match[bytes]]) -> Iterator[View]:
    """Yield the view of a text without these matches, if there are any."""
    return _build(data, matches, len(data))


@lru_cache(maxsize=1024)
def _letter(escape: bytes) -> bytes | None:
    """Return the character that a disguise means; empty if it means none, and None if the character must stay
    escaped."""
    match = _LETTERS.fullmatch(escape)
    if match is None:
        return b""
    if _QUOTE.fullmatch(escape):
        return b"\\" * (2 * escape.count(b"\\") - 1) + b'"'
    if escape[:1] == b"&":
        return _entity(escape[1:-1].rpartition(b";")[2].lower())
    letter = bytes((int(match[match.lastindex or 0], 8 if match.lastindex == _OCTAL else 16),))
    return None if letter in _KEPT else letter


def _entity(name: bytes) -> bytes:
    if name[:1] != b"#":
        return _ENTITIES[name]
    return bytes((int(name[2:], 16) if name[1:2] == b"x" else int(name[1:]),))


class Making:
    """A `Making` builds a view piece by piece."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self._origins: list[int] = []
        self._lengths: list[int] = []
        self.size = 0

    def piece(self, piece: bytes, origin: int, length: int) -> None:
        """Append a piece that replaces `length` bytes of the text at `origin`. If `length` is 0, the piece
        equals the text there. If `length` is GLUE, the piece replaces no bytes. If `length` is PAIRS, each
        byte of the piece replaces two bytes."""
        self._starts.append(self.size)
        self._origins.append(origin)
        self._lengths.append(length)
        self._pieces.append(piece)
        self.size += len(piece)

    def stretch(self, start: int, end: int) -> None:
        """Append the unchanged text from `start` to `end`."""
        if end > start:
            self.piece(self._data[start:end], start, 0)

    def near(self, start: int, end: int, reach: int = AROUND) -> None:
        """Append the text between two decoded ranges. Of a long text, append only the beginning and the end.
        The end begins at a line break near its start, if there is one."""
        if end - start > 2 * reach:
            self.stretch(start, start + reach if start else 0)
            start = max(end - reach, self._data.find(b"\n", end - reach, end - reach // 2))
            self.piece(b"\n", start, GLUE)
        self.stretch(start, end)

    def view(self, joints: Sequence[int] | None = None, reach: int = 0, *, apart: bool = False) -> View:
        return View(b"".join(self._pieces), self._starts, self._origins, self._lengths, joints, reach, apart)


def _build(data: bytes, disguises: Iterable[re.Match[bytes] | Found], reach: int) -> Iterator[View]:
    made, at = Making(data), 0
    for match in disguises:
        start, end = match.span()
        letter = _letter(data[start:end]) if end - start < _LONGEST_LETTER else b""
        if letter is None:
            continue
        made.near(at, start, reach)
        if letter:
            made.piece(letter, start, end - start)
        at = end
    if at:
        made.stretch(at, min(len(data), at + reach))
        yield made.view()


_NEW_LINE = (
    rb"(?:(?:\\?\r?\n|\\+n)"
    # Before the line, a tool may write a line number, a file and a number, or the sign of a diff.
    rb"(?:[ \t]{0,8}[0-9]{1,7}(?:\xe2\x86\x92|\t|\\+(?:t|u2192))|[^\s:\"'\\]{1,200}[:-][0-9]{1,7}[:-]|\+)?)"
)
_JOINT = (
    rb"(?:" + _NEW_LINE + rb"?[ \t]*(?:\+|\.\.|&|\|\|)[ \t]*" + _NEW_LINE + rb"?[ \t]*"
    rb"|" + _NEW_LINE + rb"?[ \t]+\.[ \t]+|\.|" + _NEW_LINE + rb"[ \t]+)"
)
JOINTS = Linear(
    b"|".join(
        rb"\\*" + quote + rb"[ \t]*" + _JOINT + rb"[bfr]?\\*" + quote  # The two quotes are equal.
        for quote in (b'"', b"'")
    ),
    _OPTIONS,
)
"""This pattern matches the text between two string literals that a program concatenates. This text has the
two quotes, and an operator or a line break."""
_KEY = re.compile(rb"[^\"'\\\n]{1,80}\\*[\"']:")
"""This pattern matches the text after the opening quote of a member's name. A name is not concatenated with
the string before it."""


def _is_of_one_depth(joint: bytes) -> bool:
    """Return whether both quotes of a joint have the same number of backslashes. Otherwise the quotes belong
    to strings of different levels."""
    closing = len(joint) - len(joint.lstrip(b"\\"))
    opening = joint[:-1]
    return closing == len(opening) - len(opening.rstrip(b"\\"))


def joined(data: bytes) -> Iterator[View]:
    """Yield the view in which concatenated string literals form one string, with the text around them."""
    joints = [
        joint.span()
        for joint in JOINTS.finditer(data)
        if _is_of_one_depth(joint[0]) and not _KEY.match(data, joint.end())
    ]
    made = Making(data)
    meet = []
    at = 0
    for start, end in joints:
        made.near(at, start)
        meet.append(made.size)
        at = end
    if joints:
        made.stretch(at, min(len(data), at + AROUND))
        yield made.view(meet)


_WRAP = re.compile(
    rb"(?<=[A-Za-z0-9+/_=.-])(?:\\?\r?\n|=\r?\n|\\{1,31}n)[ \t]{0,8}(?:[>|+] ?)?(?=[A-Za-z0-9+/_=.-])"
)


def flat(data: bytes) -> bytes:
    """Return the text without line breaks inside words."""
    return _WRAP.sub(b"", data)


QUOTED = Linear(
    (
        rb"%0[aA][^\s%]|%22(?:[^\s%]{1,60})%22|%3[aAdD]%20|%20%3[aAdD]|%3[dD]%22|%3[aA]%22|%3[dD]%27|%27%3[aA]"
        # A user and a password before a host.
        rb"|%3[aA]%2[fF]%2[fF][^\s%/?]{0,60}%3[aA][^\s/?]{1,200}?%40"
    )
    .replace(rb"%", _PERCENT)
    .replace(rb"\s" + _PERCENT, rb"\s%"),
    _OPTIONS,
)
"""This pattern matches percent escapes. A match shows that the text was escaped for a URL."""
_QUOTED_RUN = re.compile(rb"(?:[A-Za-z0-9_.~!*()'+/{}:,\[\]-]|%[0-9A-Fa-f]{2}){16,}")
_QUOTED_PIECE = re.compile(_PERCENT + rb"[0-9A-Fa-f]{2}|\+|[^%+]+")


def unquoted(data: bytes) -> Iterator[View]:
    """Yield the view of a text in which the parts escaped for a URL are decoded."""
    made = Making(data)
    at = 0
    for run in _QUOTED_RUN.finditer(data):
        if QUOTED.search(run[0]) is None:
            continue
        made.stretch(at, run.start())
        plus = b"+" if b"%20" in run[0] else b" "
        for piece in _QUOTED_PIECE.finditer(run[0]):
            start = run.start() + piece.start()
            if piece[0][:1] == b"%":
                made.piece(bytes((int(piece[0][-2:], 16),)), start, len(piece[0]))
            elif piece[0] == b"+":
                made.piece(plus, start, 1)
            else:
                made.piece(piece[0], start, 0)
        at = run.end()
    if at:
        made.stretch(at, len(data))
        yield made.view()
