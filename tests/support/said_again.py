"""The inverse of back-references."""

import re
from collections.abc import Mapping

from penumbra.conversation.line_index import read


def expand(text: str, earlier: Mapping[str, str], *, is_file: bool = False) -> str:
    """Replace back-references in a text by the lines of the earlier texts, by name. Line numbers are
    ignored."""
    sources = {name: read(source, None, is_numbered=is_file) for name, source in earlier.items()}
    lines: list[str] = []
    for line in read(text, None, is_numbered=is_file).lines:
        found = _REFERENCE.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        count, name, first = int(found[1]), found[2] or found[4], int(found[3] or 1)
        source = sources[name]
        place = list(source.numbers).index(first) if source.numbers else first - 1
        lines += source.lines[place : place + count]
    return "\n".join(lines)


_REFERENCE = re.compile(
    r"\[([0-9]+) lines?: same as (?:in (.+), lines? ([0-9]+)(?: to [0-9]+)?(?: of its output)?"
    r"|in (.+))\]"
)
