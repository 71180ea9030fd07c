"""Patterns of `re` that are compiled when they are asked first, and the parts that many of them share.

Compiling them all took a third of a start, and most texts ask few of those behind an anchor.
"""

from __future__ import annotations

import re
from typing import Any, cast

from penumbra.redaction import fronts

QUOTE = rb"(?:\\{0,31}[\"'`])"
BREAK = rb"(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)"
LEAD = rb"(?:" + fronts.ANY + rb")?"
_PARTS = {b"{QUOTE}": QUOTE, b"{BREAK}": BREAK, b"{LEAD}": LEAD}


class _Late:
    def __init__(self, pattern: bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        # From here on they are found before this is asked.
        for method in ("match", "search", "fullmatch", "finditer", "split", "sub"):
            self.__dict__[method] = getattr(compiled, method)
        return getattr(compiled, name)


def late(pattern: bytes, flags: int = 0) -> re.Pattern[bytes]:
    """`re.compile`, when it is needed. What is wrong with the pattern shows no earlier.

    `{QUOTE}` in it is a quote and what escapes it, `{BREAK}` a line's end, within a string, too, and `{LEAD}`
    what tools put in front of a line.
    """
    for name, part in _PARTS.items():
        pattern = pattern.replace(name, part)
    return cast("re.Pattern[bytes]", _Late(pattern, flags))
