"""What was typed below a prompt: `Enter password:`, and alone in the next line the password."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penumbra.redaction.finders.value_reading import Value
from penumbra.redaction.values import Style

_BEGINS = (b"", b" ", b"\n", b"n", b"\\", b'"')
_TYPED = re.compile(
    rb"(?::|\xef\xbc\x9a)[ \t]{0,4}(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)(?![a-z0-9]{0,60}_[a-z0-9_]{0,60}\b)"
    rb"([^\s\"'`<>\\:=]{4,128})(?=[ \t]{0,8}(?:\r?\n|\\{1,31}[nr]|\\{0,31}\"|\Z))"
)


def typed(data: bytes, begin: int, end: int) -> Iterator[Value]:
    """The line below the prompt whose last word stands at `begin` to `end`."""
    if data[begin - 1 : begin] in _BEGINS and b"_" not in data[begin:end]:
        line = _TYPED.match(data, end)
        if line is not None:
            yield Value(*line.span(1), Style.PROSE)
