"""Recognises what is a binary in disguise within a text, and says how large it was."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penumbra.compress.critical_lines import is_critical
from penumbra.compress.size import encode

_SHORTEST = 64
"""Bytes below which nothing is taken for binary."""
_SHARE = 15
"""Per cent of the characters (NULs aside) that must be unreadable."""
_SOME = 2
"""The limit for lines within a binary, NULs included."""
_WORD = 3
"""Characters of a line that can be read as a whole."""
_CONTROLS_AND_NUL = bytes(range(7)) + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"
"""The first UTF-8 bytes of the unreadable characters: a fast no for most texts."""
_UNREADABLE = re.compile("[\ufffd\x80-\x9f\ud800-\udfff]")


def suppress(text: str) -> str | None:
    """The text with a marker for each of its binary regions; None for text.

    A NUL alone is no sign: `find -print0` writes them, and a log may hold one. Form feeds, bells
    and escapes are no sign either. Control characters, decoding failures (U+FFFD, lone
    surrogates) and 8-bit controls are, when there are many; so is a text of almost only NULs.
    Lines that can be read stay, and garbled ones that tell of a failure.
    """
    if len(text) < _SHORTEST or not _is_binary(text):
        return None
    lines = text.split("\n")
    kept: list[str] = []
    done = 0
    for start, end in _regions(lines):
        size = len(encode("\n".join(lines[start:end])))
        if size >= _SHORTEST:
            kept += [*lines[done:start], f"[Binary output suppressed: {size} bytes]"]
            done = end
    return "\n".join([*kept, *lines[done:]]) if done else None


def _regions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """(first, after the last) of the lines that can't be read, with what stands between them."""
    start = end = -1
    for position, line in enumerate(lines):
        binary, some = _judged(line)
        if binary:
            start, end = (position if start < 0 else start), position + 1
        elif not some and start >= 0:
            yield start, end
            start = -1
    if start >= 0:
        # A line end after the last one is its own.
        yield start, len(lines) if not "".join(lines[end:]) else end


def _judged(line: str) -> tuple[bool, bool]:
    """True if a line is binary; and true if it may lie within a binary."""
    unreadable, nuls = _unreadable(line, encode(line))
    if not unreadable and not nuls:
        return False, len(line.strip()) < _WORD
    if 2 * (unreadable + nuls) < len(line) and is_critical(line):
        return False, False
    return _is_binary(line), (unreadable + nuls) * 100 > len(line) * _SOME


def _is_binary(text: str) -> bool:
    unreadable, nuls = _unreadable(text, encode(text))
    rest = len(text) - nuls
    return bool(text) and (rest * 10 < len(text) or unreadable * 100 > rest * _SHARE)


def _unreadable(text: str, data: bytes) -> tuple[int, int]:
    """The number of unreadable characters without NULs, and the number of NULs."""
    unreadable = len(data) - len(data.translate(None, _CONTROLS_AND_NUL))
    nuls = text.count("\x00") if unreadable else 0
    unreadable -= nuls
    if not text.isascii() and (b"\xc2" in data or b"\xed" in data or b"\xef\xbf\xbd" in data):
        unreadable += sum(1 for _ in _UNREADABLE.finditer(text))
    return unreadable, nuls
