"""This module limits the time of the stages for one result.

When the time is over, the remaining stages are skipped. The form then depends on a clock, but the stored
decision makes the form final, and names the skipped stages.

Stages that visit lines, rows or nodes in Python call `check` between pieces of work. If `check` raises, the
output of the stage is discarded. Work in C (one search, decoding or parse) is not interrupted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

SMALL = 65_536
"""A text with fewer characters has no separate time limit."""
_TURN_SECONDS = 0.005
"""The time in seconds that a thread works before it lets other threads run."""
_PAUSE_SECONDS = 0.0001
"""After a pause of this number of seconds, a waiting thread has Python's global lock."""
T = TypeVar("T")
IsLate = Callable[[], bool] | None
"""A function that returns True after the time is over; None without a limit."""
Clock = Callable[[], float]
"""A function that returns seconds."""


def budget(
    text: str, seconds: float, clock: Clock = time.thread_time, around: Clock = time.monotonic
) -> IsLate:
    """Return a function that returns True once the thread has worked for `seconds`; None for a small text or
    if `seconds` is 0. `around` advances at least as fast as `clock`, and can be read in less time."""
    return None if len(text) < SMALL else of_request(seconds, clock, around)


def of_request(seconds: float, clock: Clock = time.thread_time, around: Clock = time.monotonic) -> IsLate:
    """Return what `budget` returns, but for all results of a request together, whatever their size."""
    if not seconds:
        return None
    end, possible = clock() + seconds, around() + seconds
    return lambda: around() >= possible and clock() >= end


class Overrun(Exception):
    """An `Overrun` is raised when the time is over."""


_watch = threading.local()


@contextmanager
def watched(is_late: IsLate) -> Iterator[None]:
    """Return a context in which `check` raises Overrun once `is_late` returns True."""
    before = getattr(_watch, "is_late", None)
    _watch.is_late = is_late
    try:
        yield
    finally:
        _watch.is_late = before


class Allowance:
    """An `Allowance` is an amount of time for several pieces of work in any threads. The first half is
    counted as wall time, because reading the time of a thread takes longer."""

    def __init__(
        self, seconds: float, clock: Clock = time.thread_time, around: Clock = time.monotonic
    ) -> None:
        self._clock, self._around = clock, around
        self._any = self._own = seconds / 2

    def spend(self, work: Callable[[], T]) -> T:
        """Return the result of `work`. Raises Overrun if the time is used up before or during the work."""
        begun, own = self._around(), self._own
        possible = begun + self._any
        started: float | None = None

        def is_late() -> bool:
            nonlocal possible, started
            if (now := self._around()) < possible:
                return False
            spent = self._clock()
            started = spent if started is None else started
            # The time of a thread is never longer than the wall time.
            possible = now + max(0.0, started + own - spent)
            return spent - started >= own

        try:
            if own <= 0:
                raise Overrun
            with watched(is_late):
                return work()
        finally:
            self._any = max(0.0, self._any - (self._around() - begun))
            if started is not None:
                self._own -= self._clock() - started


def check() -> None:
    """Let other threads run between two pieces of a stage's work. Raises Overrun if the time is over.

    RE2 releases Python's global lock too shortly for another thread to wake up. Without this pause, the event
    loop could wait for half a second.
    """
    is_late: IsLate = getattr(_watch, "is_late", None)
    if is_late is not None and is_late():
        raise Overrun
    now = time.monotonic()
    if now >= getattr(_watch, "pause_at", 0.0):
        _watch.pause_at = now + _TURN_SECONDS
        if threading.current_thread() is not threading.main_thread():
            time.sleep(_PAUSE_SECONDS)


PIECE = 4_096
"""The number of lines, rows or nodes in one piece of work."""
