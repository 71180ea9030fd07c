"""`:penumbra.*` commands, for mitmproxy's console, mitmweb and other addons."""

from __future__ import annotations

from mitmproxy import command

from penumbra.insight.figures import Figures


class Commands:
    """A child addon: mitmproxy finds commands on addons only."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    @command.command("penumbra.stats")
    def stats(self) -> str:
        """What Penumbra has done since it was started."""
        return "\n".join(self._figures.lines())
