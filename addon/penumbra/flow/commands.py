"""`:penumbra.*` commands, for mitmproxy's console, mitmweb and other addons."""

from __future__ import annotations

import contextlib
import logging
import signal
from asyncio import get_running_loop
from collections.abc import Callable

from mitmproxy import command, ctx

from penumbra.metrics.totals import ExpansionMetrics, Metrics

_log = logging.getLogger(__name__)


class Commands:
    """A child addon: mitmproxy finds commands on addons only."""

    def __init__(
        self,
        metrics: Metrics,
        expansions: ExpansionMetrics,
        changed: Callable[[], None],
        is_paused: Callable[[], bool],
    ) -> None:
        """`changed` is called when there is something new to be told."""
        self._metrics = metrics
        self._expansions = expansions
        self._changed = changed
        self._is_paused = is_paused

    def running(self) -> None:
        """From now on, signals do what commands do; not on systems that have none, or in another thread."""
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError, AttributeError):
            loop = get_running_loop()
            loop.add_signal_handler(signal.SIGUSR1, self._toggle)
            loop.add_signal_handler(signal.SIGUSR2, self.resume)

    @command.command("penumbra.pause")
    def pause(self) -> None:
        """Have requests go through as they come, but for secrets."""
        self.switch(is_on=True)

    @command.command("penumbra.resume")
    def resume(self) -> None:
        """End a pause."""
        self.switch(is_on=False)

    def switch(self, *, is_on: bool) -> None:
        """Begin or end a pause."""
        ctx.options.update(penumbra_pause="true" if is_on else "false")
        _log.warning("Penumbra pauses: only secrets are taken out." if is_on else "Penumbra goes on.")
        self._changed()

    def _toggle(self) -> None:
        self.switch(is_on=not self._is_paused())

    @command.command("penumbra.stats")
    def stats(self) -> str:
        """What Penumbra has done since it was started."""
        return "\n".join(self._metrics.lines())

    @command.command("penumbra.expansions")
    def expansions(self) -> str:
        """How often the model asked for what was left out, and what that cost."""
        return "\n".join(self._expansions.lines())
