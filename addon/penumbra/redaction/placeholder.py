"""What stands in a text where a secret was."""

from __future__ import annotations

import base64
import hmac
import re

_BODY = r"REDACTED:[a-z0-9][a-z0-9-]{0,39}:[a-z2-7]{6}"
PATTERN = re.compile(rf"\[{_BODY}\]")
"""A placeholder in a text."""
PATTERN_BYTES = re.compile(rf"\[{_BODY}\]".encode())
MAX_LENGTH = len("[REDACTED::]") + 40 + 6
"""Characters of the longest placeholder."""
_MARK = b"[REDACTED:"


def fingerprint(key: bytes, value: bytes) -> str:
    """Six base32 characters of a keyed hash: equal values have equal fingerprints."""
    digest = hmac.digest(key, value, "sha256")
    return base64.b32encode(digest[:5])[:6].decode("ascii").lower()


def make(label: str, key: bytes, value: bytes) -> str:
    """`[REDACTED:<label>:<fingerprint>]`."""
    return f"[REDACTED:{label}:{fingerprint(key, value)}]"


def ends(data: bytes, at: int) -> bool:
    """Whether a placeholder ends at `at`."""
    start = data.rfind(_MARK, max(0, at - MAX_LENGTH), at)
    return start >= 0 and PATTERN_BYTES.fullmatch(data, start, at) is not None


def spans(data: bytes) -> list[tuple[int, int]]:
    """Where placeholders stand already, in order."""
    if _MARK not in data:
        return []
    return [match.span() for match in PATTERN_BYTES.finditer(data)]
