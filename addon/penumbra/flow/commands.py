"""`:penumbra.*` commands, for mitmproxy's console, mitmweb and other addons."""

from __future__ import annotations

from mitmproxy import command

from penumbra.metrics.asked_originals import ExpansionMetrics
from penumbra.metrics.totals import Metrics


class Commands:
    """A child addon: mitmproxy finds commands on addons only."""

    def __init__(self, metrics: Metrics, expansions: ExpansionMetrics) -> None:
        self._metrics = metrics
        self._expansions = expansions

    @command.command("penumbra.stats")
    def stats(self) -> str:
        """What Penumbra has done since it was started."""
        return "\n".join(self._metrics.lines())

    @command.command("penumbra.expansions")
    def expansions(self) -> str:
        """How often the model asked for what was left out, and what that cost."""
        return "\n".join(self._expansions.lines())
