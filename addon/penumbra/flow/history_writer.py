"""What the journal has counted, written into the store from time to time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future

from penumbra.flow.engines import Lease
from penumbra.metrics.journal import Journal

SECONDS = 5.0
"""It is written at most this often."""
_log = logging.getLogger(__name__)


class HistoryWriter:
    """State: when it is written next."""

    def __init__(self, journal: Journal, lease: Callable[[], Lease], written: Callable[[], None]) -> None:
        """`written` is called when something was handed to the store."""
        self._journal = journal
        self._lease = lease
        self._written = written
        self._due: asyncio.TimerHandle | None = None

    def changed(self) -> None:
        """There is something to be written."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(SECONDS, self._write_if_it_answers)

    def _write_if_it_answers(self) -> None:
        """While the disk hangs, what is counted is added up here."""
        self._due = None
        with self._lease() as lease:
            hangs = lease.engine.database.hangs
        if hangs:
            self.changed()
        else:
            self.write()

    def write(self) -> None:
        """Write it now; the database does so behind what it has to do already."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        pending = self._journal.take()
        sums = pending.all.record()
        if not sums:
            return
        conversations = {
            name: {
                **amounts.record(),
                "agent": pending.agents.get(name, ""),
                "project": pending.projects.get(name, ""),
            }
            for name, amounts in pending.conversations.items()
        }
        with self._lease() as lease:
            lease.engine.history.add(sums, conversations, pending.tools.take()).add_done_callback(_report)
        self._written()


def _report(written: Future[None]) -> None:
    if (error := written.exception()) is not None:
        # Nobody's request waits for this.
        _log.debug("Penumbra could not write its history: %s", error)
