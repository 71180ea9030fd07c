"""Views of a text without its disguises.

Terminal sequences and characters of no width can stand inside of a secret; JSON, hexadecimal and
percent escapes can stand for its letters; a terminal may have wrapped it. A view is the text
without them, and knows for each of its bytes which stretch of the text it came from. `decoders.py` makes
views of the forms in which tools print bytes.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left, bisect_right
from collections.abc import Iterator, Sequence
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
_LETTER = (
    rb"\\+u00([2-7][0-9a-fA-F])|\\+x([2-7][0-9a-fA-F])"
    rb"|%([46][1-9a-fA-F]|[57][0-9aA]|5[fF]|2[dDeE]|3[0-9])"
    rb"|\\+((?:0[4-7]|1[0-7])[0-7]|012)"
    rb"|&(?:amp;){0,2}(?:#(?:10|3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6]|[xX](?:[2-7][0-9a-fA-F]|[aA]));"
    rb"|quot;|apos;|amp;|lt;|gt;)"
)
_OCTAL = 4
"""Number of the group of a letter in octal figures."""
_ENTITIES = {b"quot": b'"', b"apos": b"'", b"amp": b"&", b"lt": b"<", b"gt": b">"}
"""Characters of HTML's named entities."""
_ANY = rb"(?:" + _NO_WIDTH + rb"|" + _TERMINAL + rb")|" + _LETTER
DISGUISE = Linear(_ANY, _OPTIONS)
_DISGUISES = re.compile(_ANY.replace(rb"\\+", rb"\\++"))
"""Matches a disguise at a place where `_BEGIN` matches: faster in texts that are full of them."""
_BEGIN = re.compile(
    rb"\x1b|\x08|\\(?=[\\01eux])|%(?=[2-7])|&(?=[#aglq])"
    rb"|\xe2(?=[\x80\x81])|\xef(?=[\xb8\xbb])|\xc2(?=\xad)|\xcd(?=\x8f)|\xd8(?=\x9c)|\xe1(?=\xa0)"
)
"""Matches the beginning of a disguise with what follows it, since other scripts have many such bytes; or a
backspace."""
_BACKSPACE, _BACKSLASH = 0x08, 0x5C
_BACKSLASHES = re.compile(rb"\\+")
_LONGEST_LETTER = 40
_FULL, _SAMPLE = 64, 32
"""A text is full of disguises if `_SAMPLE` of them stand within `_FULL` bytes each."""
_LETTERS = re.compile(_LETTER)
GLUE = -1
"""Length of a piece of a view that has no bytes of the text."""
AROUND = 300
"""Bytes on either side of decoded bytes that the view shows as well: a name may stand there."""
FAR = 8_192
"""Bytes that may stand between two places of one long secret, such as a private key."""
_KEPT = b'"\\'
"""Letters that stay escaped: bare ones would end their string."""
_QUOTE = re.compile(rb"\\+(?:u00|x)22")
"""Matches a quote as .NET writes it within JSON, with more backslashes in strings within strings."""


@dataclass(frozen=True, slots=True)
class View:
    """A text without its disguises, and where each byte of it came from."""

    data: bytes
    _starts: list[int]
    _origins: list[int]
    _lengths: list[int]
    joints: Sequence[int] | None = None
    """Places in the view where pieces meet that stand apart in the text. A secret is new only if it reaches
    across one; None if every secret is."""
    reach: int = 0
    """Greatest number of bytes between a joint and a secret that it makes new."""
    apart: bool = False
    """True if each piece is a line or a cell of its own, and stays one."""

    def is_news(self, start: int, end: int) -> bool:
        """Return whether the bytes from `start` to `end` of the view stand apart in the text."""
        return self.joints is None or bisect(self.joints, start - self.reach) < bisect_left(self.joints, end)

    def stretches(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the stretches of the text that `start` to `end` of the view came from: one, or one for each
        line where lines stay apart."""
        if not self.apart:
            return [self.origin(start, end)]
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1) - 1
        bounds = [start, *self._starts[first + 1 : last + 1], end]
        pieces = enumerate(pairwise(bounds), first)
        return [self.origin(*bound) for index, bound in pieces if self._lengths[index] != GLUE]

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return the stretch of the text that `start` to `end` of the view came from."""
        return self._place(start)[0], self._place(end - 1)[1]

    def is_quote_in_letters(self, at: int) -> bool:
        """Return whether a quote stands at `at` that the text spells with several letters: `%22`,
        `&quot;`."""
        if at < 0 or self.data[at] not in b"\"'":
            return False
        return self._lengths[bisect_right(self._starts, at) - 1] > 1

    def _place(self, at: int) -> tuple[int, int]:
        """Return where the byte at `at` in the view begins and ends in the text."""
        index = bisect_right(self._starts, at) - 1
        offset = at - self._starts[index]
        if self._lengths[index] == GLUE:
            return self._origins[index], self._origins[index]
        if self._lengths[index]:
            return self._origins[index], self._origins[index] + self._lengths[index]
        return self._origins[index] + offset, self._origins[index] + offset + 1


def undisguised(data: bytes) -> Iterator[View]:
    """Yield the view of a text that holds disguises."""
    if DISGUISE.search(data) is not None:
        yield from _build(data, _disguises(data), FAR)


def _disguises(data: bytes) -> Iterator[re.Match[bytes] | Found]:
    at = sampled = 0
    for number, match in enumerate(DISGUISE.finditer(data), 1):
        yield match
        at = match.end()
        if not number % _SAMPLE:
            if at - sampled < _SAMPLE * _FULL:
                yield from _many(data, at)
                return
            sampled = at


def _many(data: bytes, at: int = 0) -> Iterator[re.Match[bytes] | Found]:
    """Yield the disguises after `at` in a text that is full of them."""
    run = at
    for begin in _BEGIN.finditer(data, at):
        start = begin.start()
        if start < at or start < run:
            continue
        # A backspace ends its disguise.
        first = max(at, start - 1) if data[start] == _BACKSPACE else start
        match = _DISGUISES.match(data, first)
        if match is None and first < start:
            match = _DISGUISES.match(data, start)
        if match is not None:
            yield match
            at = match.end()
        elif data[start] == _BACKSLASH:
            # Where no disguise begins at the first of several backslashes, none begins at a later one.
            backslashes = _BACKSLASHES.match(data, start)
            run = backslashes.end() if backslashes else start


def without(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[View]:
    """Yield the view of a text without what matches a pattern, if anything does."""
    return _build(data, pattern.finditer(data), len(data))


@lru_cache(maxsize=1024)
def _letter(escape: bytes) -> bytes | None:
    """Return the letter that a disguise stands for; nothing if it stands for none, None if its letter must
    stay escaped."""
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
    """A view that is being put together."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self._origins: list[int] = []
        self._lengths: list[int] = []
        self.size = 0

    def piece(self, piece: bytes, origin: int, length: int) -> None:
        """Append a piece that stands for `length` bytes of the text; 0 for as many as the piece has; GLUE:
        for none."""
        self._starts.append(self.size)
        self._origins.append(origin)
        self._lengths.append(length)
        self._pieces.append(piece)
        self.size += len(piece)

    def stretch(self, start: int, end: int) -> None:
        """Append the text from `start` to `end` as it is."""
        if end > start:
            self.piece(self._data[start:end], start, 0)

    def near(self, start: int, end: int, reach: int = AROUND) -> None:
        """Append the text between two decoded places. Of a long one, append only the beginning and the end,
        from the start of a line if possible."""
        if end - start > 2 * reach:
            self.stretch(start, start + reach if start else 0)
            start = max(end - reach, self._data.find(b"\n", end - reach, end - reach // 2))
            self.piece(b"\n", start, GLUE)
        self.stretch(start, end)

    def view(self, joints: Sequence[int] | None = None, reach: int = 0, *, apart: bool = False) -> View:
        return View(b"".join(self._pieces), self._starts, self._origins, self._lengths, joints, reach, apart)


def _build(data: bytes, disguises: Iterator[re.Match[bytes] | Found], reach: int) -> Iterator[View]:
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


_NEW_LINE = rb"(?:\\?\r?\n|\\+n)"
_JOINT = (
    rb"(?:" + _NEW_LINE + rb"?[ \t]*(?:\+|\.\.|&|\|\|)[ \t]*" + _NEW_LINE + rb"?[ \t]*"
    rb"|" + _NEW_LINE + rb"?[ \t]+\.[ \t]+|\.|" + _NEW_LINE + rb"[ \t]+)"
)
JOINTS = Linear(
    b"|".join(
        rb"\\*" + quote + rb"[ \t]*" + _JOINT + rb"[bfr]?\\*" + quote  # of one kind
        for quote in (b'"', b"'")
    ),
    _OPTIONS,
)
"""Matches between two halves of a text that a program puts together: a sign that joins them, or the end of a
line."""
_KEY = re.compile(rb"[^\"'\\\n]{1,80}\\*[\"']:")
"""Matches the name of a member, which is no second half."""


def _is_of_one_depth(joint: bytes) -> bool:
    """Return whether both quotes of a joint are escaped alike; if not, one stands within the text that the
    other ends."""
    closing = len(joint) - len(joint.lstrip(b"\\"))
    opening = joint[:-1]
    return closing == len(opening) - len(opening.rstrip(b"\\"))


def joined(data: bytes) -> Iterator[View]:
    """Yield the view of halves that a program puts together, in one piece and with their surroundings."""
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
    """Return a text without the line breaks inside of its words."""
    return _WRAP.sub(b"", data)


QUOTED = Linear(
    rb"%0[aA][^\s%]|%22(?:[^\s%]{1,60})%22|%3[aAdD]%20|%20%3[aAdD]|%3[dD]%22|%3[aA]%22|%3[dD]%27|%27%3[aA]",
    _OPTIONS,
)
"""Matches escapes of a text that was quoted for an address: ends of lines, quotes, blanks."""
_QUOTED_RUN = re.compile(rb"(?:[A-Za-z0-9_.~!*()'+/-]|%[0-9A-Fa-f]{2}){16,}")
_QUOTED_PIECE = re.compile(rb"%[0-9A-Fa-f]{2}|\+|[^%+]+")


def unquoted(data: bytes) -> Iterator[View]:
    """Yield the view of a text with its quoted parts as they were before."""
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
                made.piece(bytes((int(piece[0][1:], 16),)), start, 3)
            elif piece[0] == b"+":
                made.piece(plus, start, 1)
            else:
                made.piece(piece[0], start, 0)
        at = run.end()
    if at:
        made.stretch(at, len(data))
        yield made.view()
