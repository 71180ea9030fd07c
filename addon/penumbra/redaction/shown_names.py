"""Names that clients, models and upstreams give to things, as logs, events and figures show them.

A name may be anything, a secret or a screenful of text, too.
"""

from __future__ import annotations

from collections.abc import Callable

from penumbra.compress.result import Redacted
from penumbra.errors import RedactionError, one_line
from penumbra.short_texts import LONGEST, remembered

_MOST = 100
"""Characters that are shown."""
ShowName = Callable[[str], str]


def shown_names(redact: Callable[[str, str], Redacted]) -> ShowName:
    """Return what makes of a name what may be shown: one line, cut, without secrets."""

    def show(name: str) -> str:
        try:
            clean = one_line(redact(name, "").text)
        except RedactionError:
            return "(not searched)"
        return clean if len(clean) <= _MOST else f"{clean[:_MOST]}…"

    short = remembered(4_096)(show)

    # What is cut before it is searched might show half a secret.
    return lambda name: short(name) if len(name) <= LONGEST else f"(a name of {len(name)} characters)"
