"""Why a result went as it came, in words."""

from __future__ import annotations

from penumbra.compress.calls import tools
from penumbra.config.settings import Settings
from penumbra.store.decisions import Facts

SEEN = "the provider had it already"
LATE = "out of time"
SKIPPED = "its tool is skipped"
OFF = "switched off"
SMALL = "small"
QUOTED = "quoted later: only what loses nothing"
NOTHING = "nothing to leave out"


def reason(tool: str, facts: Facts, settings: Settings) -> str:
    """Why nothing of a result was left out; empty if something was done to it."""
    if facts.how == "adopted":
        return SEEN
    if facts.how != "kept":
        return ""
    if "request_budget" in facts.skipped:
        return LATE
    if not settings.shortens:
        return OFF
    if tools.skips(tool, settings.skip_tools):
        return SKIPPED
    if facts.bytes_before <= settings.min_bytes:
        return SMALL
    if tools.category(tool) in ("read", "edit"):
        return QUOTED
    return LATE if facts.skipped else NOTHING
