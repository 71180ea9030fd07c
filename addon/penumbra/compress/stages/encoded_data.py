"""The stage that replaces encoded data (hex or base64) by its kind, its size and a hash."""

from __future__ import annotations

import hashlib
import re

from penumbra.compress.size import encode

_LEAST = 1_200
"""The length in characters of the longest text that stays unchanged."""
_BLOB = re.compile(r"(?<![A-Za-z0-9+/_\-])[A-Za-z0-9+/_\-]{256,}={0,2}")
_HEX = re.compile(r"[0-9a-fA-F]+")


def named(text: str) -> str | None:
    """Return the text with a description in place of each run of encoded data; None if there is none."""
    if len(text) <= _LEAST:
        return None
    short = _BLOB.sub(_name, text)
    return short if short != text else None


def _name(match: re.Match[str]) -> str:
    """Return the description of a run of encoded data. Words and paths are returned unchanged."""
    blob = match[0]
    digest = hashlib.sha256(encode(blob)).hexdigest()[:12]
    if _HEX.fullmatch(blob):
        return f"[hex: {len(blob)} characters, sha256 {digest}]"
    sample = blob[:256]
    mixed = any(map(str.isdigit, sample)) and any(map(str.isupper, sample)) and any(map(str.islower, sample))
    if not mixed or max(map(len, re.split(r"[/_\-]", sample))) < 24:
        return blob
    return f"[base64: {len(blob)} characters, sha256 {digest}]"
