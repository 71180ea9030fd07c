"""The engine in force, and those that requests in flight go on to use.

A request begins with a lease: the settings and the engine of that moment, which stay its own until it has
ended, whatever is reloaded meanwhile. An engine that is in force no longer closes with its last lease.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from penumbra import short_texts
from penumbra.config.settings import Settings
from penumbra.conversation.engine import Engine
from penumbra.conversation.engine_settings import EngineSettings
from penumbra.metrics.totals import ExternalMetrics


@dataclass(eq=False)
class _Held:
    """An engine and those who use it."""

    engine: Engine
    leases: int = 0
    is_retired: bool = False


# Of the process, not of the addon: a reload of the script makes a new addon while responses go on.
_DRAINING: set[_Held] = set()
"""Engines that are in force no longer, and have leases."""


class Lease:
    """What a request works with from its beginning to its end."""

    def __init__(self, held: _Held, settings: Settings) -> None:
        self._held: _Held | None = held
        self.engine = held.engine
        self.settings = settings
        held.leases += 1

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def share(self) -> Lease:
        """Another lease of the same: for work that may take longer."""
        if self._held is None:
            raise ValueError("the lease has ended")
        return Lease(self._held, self.settings)

    def end(self) -> None:
        """It is used no more. What has ended may end again."""
        held, self._held = self._held, None
        if held is not None:
            held.leases -= 1
            if held.is_retired:
                _close_unused(held)


class Engines:
    """State: the engine in force. All on the event loop."""

    def __init__(self, metrics: ExternalMetrics, listening: Callable[[], Collection[int]]) -> None:
        """See `Engine`."""
        self._metrics = metrics
        self._listening = listening
        self._current: _Held | None = None

    def lease(self, settings: Settings, made_with: EngineSettings) -> Lease:
        """The engine that these settings want; it is made if it is not there."""
        if self._current is None or self._current.engine.settings != made_with:
            self._current = self._replaced(self._current, made_with)
        return Lease(self._current, settings)

    def _replaced(self, old: _Held | None, made_with: EngineSettings) -> _Held:
        """What is stored stays within reach: of one place there is one database, also in memory."""
        same = old is not None and old.engine.settings.database == made_with.database
        database = old.engine.database if old is not None and same else None
        shares = old is not None and old.engine.settings.shared == made_with.shared
        shared = old.engine.shared if old is not None and shares else None
        engine = Engine(made_with, self._metrics, self._listening, database, shared)
        if old is not None:
            _retire(old)
        return _Held(engine)

    def forget(self) -> None:
        """Empty the database, but for what has no content, and all that the engine in force remembers."""
        if (old := self._current) is not None:
            old.engine.forget()
            short_texts.forget()
            # All other memories are the engine's own: another one has none.
            self._current = self._replaced(old, old.engine.settings)

    def close(self, *, at_once: bool) -> None:
        """There will be no more requests. `at_once`: those in flight will not end either."""
        if self._current is not None:
            _retire(self._current)
            self._current = None
        while at_once and _DRAINING:
            _DRAINING.pop().engine.close()


def _retire(held: _Held) -> None:
    held.is_retired = True
    _DRAINING.add(held)
    _close_unused(held)


def _close_unused(held: _Held) -> None:
    if not held.leases and held in _DRAINING:
        _DRAINING.discard(held)
        held.engine.close()
