"""Writes that nobody waits for: those that come in quick succession are one piece of work."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock

_PAUSE = 0.005
"""Seconds. A request goes on its way before what it has decided is packed: both want the interpreter."""
Write = Callable[[sqlite3.Connection], object]


class WriteBehind:
    """State: what waits to be written, and what is being written."""

    def __init__(self, submit: Callable[[Sequence[Write]], Future[None]]) -> None:
        """`submit` has writes done in another thread, in their order and behind those before."""
        self._submit = submit
        self._waiting: list[Write] = []
        self._writing: Future[None] | None = None
        self._lock = Lock()
        self._size = 0
        """Of what waits."""
        self.bytes = 0
        """That all take which are not done yet, roughly."""

    def add(self, write: Write, size: int = 0) -> None:
        """One more, which holds so many bytes. For the event loop."""
        with self._lock:
            self._waiting.append(write)
            self._size += size
            self.bytes += size
            is_first = len(self._waiting) == 1
        if is_first:
            asyncio.get_running_loop().call_later(_PAUSE, self.begin)

    def begin(self) -> Future[None] | None:
        """Have all of them done from now on; what tells when they are. None: there never were any."""
        with self._lock:
            if self._waiting:
                waiting, self._waiting = self._waiting, []
                size, self._size = self._size, 0
                self._writing = self._submit(waiting)
                written = self._writing
            else:
                return self._writing
        # It may be done already, and then this is called at once: not under the lock.
        written.add_done_callback(lambda done: self._done(size))
        return written

    def _done(self, size: int) -> None:
        with self._lock:
            self.bytes -= size
