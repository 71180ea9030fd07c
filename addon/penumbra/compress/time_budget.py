"""The time that the stages of one result may take.

All stages are linear, and bounded by counts, so only a very large or an unforeseen text takes long. The
stages that come too late are passed over and named in the decision, which the ledger keeps: the form is
final, although it depends on a clock. Smaller texts always get all stages, on any machine.

A stage under way gives up by itself: those that walk over lines, rows or nodes in Python call `check` between
pieces of work, and what they have done is thrown away. Work in C (one search, one decoding, one parse) is
linear and not interrupted. A stage in a process of its own could be ended anywhere, but would cost a copy of
every text and a second interpreter; an exception thrown into a running thread may strike where a lock is held
or a cache half written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

SMALL = 65_536
"""Characters of a text below which no clock is asked."""
_TURN_SECONDS = 0.005
"""Time that a thread works before it lets others run."""
_PAUSE_SECONDS = 0.0001
"""Time that is enough for a waiting thread to take Python's lock."""

T = TypeVar("T")
IsLate = Callable[[], bool]
Clock = Callable[[], float]
"""Seconds."""


def never() -> bool:
    """The budget that is never used up."""
    return False


def budget(
    text: str, seconds: float, clock: Clock = time.thread_time, around: Clock = time.monotonic
) -> IsLate:
    """True if `seconds` (0: any time) have gone since now; the default clock is this thread's work.

    `around`: a clock that no thread's work overtakes, and that costs less: a thread's own time is asked of
    the system, which may take the occasion to give its processor to somebody else.
    """
    return never if len(text) < SMALL else of_request(seconds, clock, around)


def of_request(seconds: float, clock: Clock = time.thread_time, around: Clock = time.monotonic) -> IsLate:
    """The budget for all results of one request, however small each is."""
    if not seconds:
        return never
    end, possible = clock() + seconds, around() + seconds
    return lambda: around() >= possible and clock() >= end


class Overrun(Exception):
    """A stage has noticed that the time is over."""


_watch = threading.local()


class Watched:
    """A context in which the stage that runs notices when it is late."""

    __slots__ = ("_before", "_is_late")

    def __init__(self, is_late: IsLate) -> None:
        self._is_late = is_late
        self._before = never

    def __enter__(self) -> None:
        self._before = getattr(_watch, "is_late", never)
        _watch.is_late = self._is_late

    def __exit__(self, *error: object) -> None:
        _watch.is_late = self._before


class Allowance:
    """Time for several pieces of work, in whatever threads. The first half of the time is wall time, so that
    the thread's own time is mostly not read."""

    def __init__(
        self, seconds: float, clock: Clock = time.thread_time, around: Clock = time.monotonic
    ) -> None:
        self._clock, self._around = clock, around
        self._any = self._own = seconds / 2

    def spend(self, work: Callable[[], T]) -> T:
        """Returns the result of `work`. Raises Overrun where the time is over, or if there was none left."""
        begun, own = self._around(), self._own
        possible = begun + self._any
        started: float | None = None

        def is_late() -> bool:
            nonlocal possible, started
            if (now := self._around()) < possible:
                return False
            spent = self._clock()
            started = spent if started is None else started
            # The budget can't be spent before so much time has gone by.
            possible = now + max(0.0, started + own - spent)
            return spent - started >= own

        try:
            if own <= 0:
                raise Overrun
            with Watched(is_late):
                return work()
        finally:
            self._any = max(0.0, self._any - (self._around() - begun))
            if started is not None:
                self._own -= self._clock() - started


def check() -> None:
    """Let other threads run between two pieces of a stage's work. Raises Overrun once the time is over.

    Python takes the lock from a thread that has not let it go for a while. RE2 lets go of it for some
    microseconds at each question, too short for another thread to wake up, and each time that while begins
    anew: without a pause here, an event loop waits for half a second.
    """
    if getattr(_watch, "is_late", never)():
        raise Overrun
    now = time.monotonic()
    if now >= getattr(_watch, "pause_at", 0.0):
        _watch.pause_at = now + _TURN_SECONDS
        if threading.current_thread() is not threading.main_thread():
            time.sleep(_PAUSE_SECONDS)


PIECE = 4_096
"""Lines, rows or nodes of one piece of work."""
