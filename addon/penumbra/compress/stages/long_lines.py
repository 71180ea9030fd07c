"""Lines too long to be read: encoded data named, sized and hashed, other long lines clipped.

[base64: 5120 characters, sha256 9f86d081884c]
{"type":"event", ... [7613 characters left out] ... }
{"type":"event", ... [7613 characters left out, in them: "err":"FATAL disk full"] ... }
"""

from __future__ import annotations

import hashlib
import re

from penumbra.compress import failure_lines
from penumbra.compress.size import encode

LIMIT = 1_200
"""Characters of a line above which its middle is left out."""
_READABLE = 256
"""Characters of a line up to which it holds nothing that is worth a name."""
_HEAD = 700
_TAIL = 200
_SHORT_HEAD = 300
"""The same where failures stand in the middle."""
_FAILURES = 3
"""Kinds of failures that are told of a line; one with more is left whole."""
_LINK = 300
"""A line with so many characters for each address, or less, is a list of links."""
_BLOB = re.compile(r"(?<![A-Za-z0-9+/_\-])[A-Za-z0-9+/_\-]{256,}={0,2}")
_HEX = re.compile(r"[0-9a-fA-F]+")


def clip(text: str) -> str | None:
    """The text with its long lines shortened; None if it has none.

    A line that was clipped is below the limit, so it is never clipped again.
    """
    if len(text) <= LIMIT:
        return None
    lines = text.split("\n")
    if max(map(len, lines)) <= _READABLE:
        return None
    changed = False
    for position, line in enumerate(lines):
        if len(line) > _READABLE:
            short = _clip_line(_BLOB.sub(_name, line))
            changed |= short != line
            lines[position] = short
    return "\n".join(lines) if changed else None


def _name(match: re.Match[str]) -> str:
    """What stands for a run of encoded data; a run of words, dashes or path parts stays."""
    blob = match[0]
    digest = hashlib.sha256(encode(blob)).hexdigest()[:12]
    if _HEX.fullmatch(blob):
        return f"[hex: {len(blob)} characters, sha256 {digest}]"
    sample = blob[:256]
    mixed = any(map(str.isdigit, sample)) and any(map(str.isupper, sample)) and any(map(str.islower, sample))
    if not mixed or max(map(len, re.split(r"[/_\-]", sample))) < 24:
        return blob
    return f"[base64: {len(blob)} characters, sha256 {digest}]"


def _clip_line(line: str) -> str:
    # A line of links is read link by link.
    if len(line) <= LIMIT or line.count("://") * _LINK >= len(line):
        return line
    found = failure_lines.within(line[_HEAD:-_TAIL], _FAILURES)
    if found is None:
        return line
    if not found:
        left_out = len(line) - _HEAD - _TAIL
        return f"{line[:_HEAD]} ... [{left_out} characters left out] ... {line[-_TAIL:]}"
    left_out = len(line) - _SHORT_HEAD - _TAIL
    told = f"[{left_out} characters left out, in them: {' ... '.join(found)}]"
    return f"{line[:_SHORT_HEAD]} ... {told} ... {line[-_TAIL:]}"
