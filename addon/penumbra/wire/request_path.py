"""A request's path as servers may read it: for recognising calls only, never for what is sent.

Routers differ in what they take for the same path, so everything that some of them undo is undone:
whoever spells a path oddly must not get past the search for secrets.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from penumbra.short_texts import remembered

_ROUNDS = 3
"""As often percent escapes may stand inside of one another."""
_BEHIND = re.compile(r"[?#]")
_PARAMETERS = re.compile(r";[^/]*")


@remembered(1_024)
def normal(path: str) -> str:
    """The path without query and fragment, escapes, parameters, empty and relative segments, and a
    closing slash."""
    path = _BEHIND.split(path, maxsplit=1)[0]
    for _ in range(_ROUNDS):
        if (plain := unquote(path)) == path:
            break
        path = _BEHIND.split(plain, maxsplit=1)[0]
    kept: list[str] = []
    for segment in _PARAMETERS.sub("", path.replace("\\", "/")).split("/"):
        segment = segment.strip()
        if segment == "..":
            kept = kept[:-1]
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)
