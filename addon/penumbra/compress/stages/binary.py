"""Recognises text that is a binary in disguise, and says how large it was."""

from __future__ import annotations

import re

from penumbra.compress.size import encode

_SHORTEST = 64
"""Characters below which nothing is taken for binary."""
_SHARE = 15
"""Per cent of the characters (NULs aside) that must be unreadable."""
_CONTROLS_AND_NUL = bytes(range(7)) + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"
"""How the UTF-8 bytes of the unreadable characters begin: a fast no for most texts."""
_UNREADABLE = re.compile("[\ufffd\x80-\x9f\ud800-\udfff]")


def suppress(text: str) -> str | None:
    """The marker for a binary; None for text.

    A NUL alone is no sign: `find -print0` writes them, and a log may hold one. Form feeds, bells
    and escapes are no sign either. Control characters, decoding failures (U+FFFD, lone
    surrogates) and 8-bit controls are, when there are many; so is a text of almost only NULs.
    """
    if len(text) < _SHORTEST:
        return None
    data = encode(text)
    unreadable = len(data) - len(data.translate(None, _CONTROLS_AND_NUL))
    nuls = text.count("\x00") if unreadable else 0
    unreadable -= nuls
    if not text.isascii() and (b"\xc2" in data or b"\xed" in data or b"\xef\xbf\xbd" in data):
        unreadable += sum(1 for _ in _UNREADABLE.finditer(text))
    rest = len(text) - nuls
    if rest * 10 >= len(text) and unreadable * 100 <= rest * _SHARE:
        return None
    return f"[Binary output suppressed: {len(data)} bytes]"
