"""A text with references, written out again from what they refer to."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penumbra.conversation.back_references import _read


def expand(text: str, earlier: Mapping[str, str], *, is_file: bool = False) -> str:
    """What `with_references` was given, line numbers aside, from the earlier texts by name."""
    sources = {name: _read(source, is_file)[:2] for name, source in earlier.items()}
    lines: list[str] = []
    for line in _read(text, is_file)[1]:
        found = _REFERENCE.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        count, name, first = int(found[1]), found[2] or found[4], int(found[3] or 1)
        numbers, source = sources[name]
        place = list(numbers).index(first)
        lines += source[place : place + count]
    return "\n".join(lines)


_REFERENCE = re.compile(
    r"\[([0-9]+) lines?: same as (?:in (.+), lines? ([0-9]+)(?: to [0-9]+)?(?: of its output)?"
    r"|in (.+))\]"
)
