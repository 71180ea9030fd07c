"""Patterns of `re` that are compiled when they are asked first.

Compiling them all took a third of a start, and most texts ask few of those behind an anchor.
"""

from __future__ import annotations

import re
from typing import Any, cast


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
    """`re.compile`, when it is needed. What is wrong with the pattern shows no earlier."""
    return cast("re.Pattern[bytes]", _Late(pattern, flags))
