"""What a text is by its looks: JSON, a diff, or plain text."""

from __future__ import annotations

import re

from penumbra.compress.stage import Shape
from penumbra.compress.stages import json_minify

_BEGINNING = 20_000
"""Characters in which a diff must show itself."""
_DIFF = re.compile(r"^(?:diff --git |@@ -[0-9]|--- \S.*\n\+\+\+ \S)", re.MULTILINE)


def shape_of(text: str) -> Shape:
    """What the text looks like, by its beginning."""
    if text[:1] in ("{", "[") or text[:1].isspace():
        start = text.strip()
        if start[:1] in ("{", "[") and (
            json_minify.is_json(start)
            or json_minify.is_json(start.split("\n", 1)[0])
            or json_minify.are_values(start)
        ):
            return Shape.JSON
    beginning = text[:_BEGINNING]
    if any(sign in beginning for sign in ("diff --git ", "@@ -", "\n+++ ")) and _DIFF.search(beginning):
        return Shape.DIFF
    return Shape.PLAIN
