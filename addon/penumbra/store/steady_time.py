"""The time, as far as it has passed while this process ran: a clock that is put forward makes nothing old."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds since 1970."""
_SLEEPS_TOO: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def passed() -> float:
    """Seconds since some beginning, those included in which the machine slept."""
    return time.monotonic() if _SLEEPS_TOO is None else time.clock_gettime(_SLEEPS_TOO)


class SteadyTime:
    """Like the clock, but never more than what has passed since the beginning. It may be put back."""

    def __init__(self, clock: Clock = time.time, passed: Clock = passed) -> None:
        self._clock, self._passed = clock, passed
        self._offset = clock() - passed()

    def __call__(self) -> float:
        return min(self._clock(), self._offset + self._passed())


STEADY = SteadyTime()
"""Since the process began."""
