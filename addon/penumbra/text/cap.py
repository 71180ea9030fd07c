"""The hard limit on a result's size.

Every gap holds a marker with the exact number of bytes that are missing there, and markers count
towards the limit. Text within the limit is not touched, so a capped text is never capped again.
"""

from __future__ import annotations

from penumbra.text import windows
from penumbra.text.size import encode, exceeds, head


def cap(text: str, limit: int, reserve: int = 0) -> str | None:
    """The text cut to `limit` minus `reserve` bytes, markers included; None if it is within `limit`.

    `reserve` is what the caller will put in front. Where there is no room for markers only the head
    is kept.
    """
    if not exceeds(text, limit):
        return None
    room = max(0, limit - reserve)
    if room < windows.LEAST:
        return head(text, room)
    data = encode(text)
    return windows.assemble(data, windows.choose(data, room), _marker)


def _marker(start: int, end: int) -> str:
    return f"[Tool output capped: {end - start} bytes removed]"
