"""The file of events that the settings in force name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penumbra.metrics.events import EventLog


class EventFile:
    """State: the file that is open."""

    def __init__(self, path: Callable[[], str]) -> None:
        """`path` is the setting; empty: nothing is written."""
        self._path = path
        self._log: EventLog | None = None

    def write(self, make: Callable[[], dict[str, Any]]) -> None:
        """One line, if any are written."""
        self.follow()
        if self._log is not None:
            self._log.write(make())

    def follow(self) -> None:
        """Open what the setting names now."""
        path = self._path()
        if self._log is not None and self._log.path != path:
            self.close()
        if self._log is None and path:
            self._log = EventLog(path)

    def close(self) -> None:
        """Write what is waiting."""
        log, self._log = self._log, None
        if log is not None:
            log.close()
