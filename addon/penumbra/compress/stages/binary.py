"""This module has the stages that replace binary, hex or base64 data by the size of the data."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from penumbra.compress.critical_lines import is_critical
from penumbra.linear import utf8

_SHORTEST = 64
"""The size in bytes of the smallest binary region."""
_SHARE = 15
"""A text with a greater percentage of unreadable characters, not counting NULs, is binary."""
_SOME = 2
"""A line with a greater percentage of unreadable characters and NULs may be within a binary region."""
_WORD = 3
"""A readable line with at least this number of characters ends a binary region."""
_CONTROLS_AND_NUL = bytes(range(7)) + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"
"""NUL, and control characters that count as unreadable."""
_UNREADABLE = re.compile("[\ufffd\x80-\x9f\ud800-\udfff]")
_LONG_ENOUGH = 1_200
"""Encoded data stays in a text of at most this number of characters."""
_BLOB = re.compile(r"(?<![A-Za-z0-9+/_\-])[A-Za-z0-9+/_\-]{256,}={0,2}")
_HEX = re.compile(r"[0-9a-fA-F]+")


def suppress(text: str) -> str | None:
    """Return the text with a marker in place of each binary region; None if there are none.

    A binary region has almost only NULs, or many control characters, 8-bit controls or decoding failures
    (U+FFFD, lone surrogates). Form feeds, bells, escapes and single NULs (as `find -print0` prints) don't
    count. Readable lines stay. Garbled lines that report a failure also stay.
    """
    if len(text) < _SHORTEST or not _is_binary(text):
        return None
    lines = text.split("\n")
    kept: list[str] = []
    done = 0
    for start, end in _regions(lines):
        size = len(utf8("\n".join(lines[start:end])))
        if size >= _SHORTEST:
            kept += [*lines[done:start], f"[Binary output suppressed: {size} bytes]"]
            done = end
    return "\n".join([*kept, *lines[done:]]) if done else None


def _regions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield, for each binary region, its first line and the line after its last line."""
    start = end = -1
    for position, line in enumerate(lines):
        binary, some = _judged(line)
        if binary:
            start, end = (position if start < 0 else start), position + 1
        elif not some and start >= 0:
            yield start, end
            start = -1
    if start >= 0:
        # Empty lines at the end of the text belong to the last region.
        yield start, len(lines) if not "".join(lines[end:]) else end


def _judged(line: str) -> tuple[bool, bool]:
    """Return whether a line is binary, and whether a binary region may include the line."""
    unreadable, nuls = _unreadable(line, utf8(line))
    if not unreadable and not nuls:
        return False, len(line.strip()) < _WORD
    if 2 * (unreadable + nuls) < len(line) and is_critical(line):
        return False, False
    return _is_binary(line), (unreadable + nuls) * 100 > len(line) * _SOME


def _is_binary(text: str) -> bool:
    unreadable, nuls = _unreadable(text, utf8(text))
    rest = len(text) - nuls
    return bool(text) and (rest * 10 < len(text) or unreadable * 100 > rest * _SHARE)


def _unreadable(text: str, data: bytes) -> tuple[int, int]:
    """Return the number of unreadable characters other than NULs, and the number of NULs."""
    unreadable = len(data) - len(data.translate(None, _CONTROLS_AND_NUL))
    nuls = text.count("\x00") if unreadable else 0
    unreadable -= nuls
    if not text.isascii() and (b"\xc2" in data or b"\xed" in data or b"\xef\xbf\xbd" in data):
        unreadable += sum(1 for _ in _UNREADABLE.finditer(text))
    return unreadable, nuls


def named(text: str) -> str | None:
    """Return the text with a description in place of each run of encoded data; None if there is none."""
    if len(text) <= _LONG_ENOUGH:
        return None
    short = _BLOB.sub(_name, text)
    return short if short != text else None


def _name(match: re.Match[str]) -> str:
    """Return the description of a run of encoded data. A word or path is returned unchanged."""
    blob = match[0]
    digest = hashlib.sha256(utf8(blob)).hexdigest()[:12]
    if _HEX.fullmatch(blob):
        return f"[hex: {len(blob)} characters, sha256 {digest}]"
    sample = blob[:256]
    mixed = any(map(str.isdigit, sample)) and any(map(str.isupper, sample)) and any(map(str.islower, sample))
    if not mixed or max(map(len, re.split(r"[/_\-]", sample))) < 24:
        return blob
    return f"[base64: {len(blob)} characters, sha256 {digest}]"
