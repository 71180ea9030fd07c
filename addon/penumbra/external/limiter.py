"""What bounds all calls of one process: how many at once, how many a second, and when to stop asking."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

Clock = Callable[[], float]


class Limits:
    """`concurrency` calls at once; a bucket of `burst` calls that fills by `rate` a second.

    Waiters are served in order. A waiter that is cancelled takes nothing with it.
    """

    def __init__(
        self, concurrency: int = 10, rate: float = 20.0, burst: int = 20, clock: Clock = time.monotonic
    ) -> None:
        self._places = asyncio.Semaphore(concurrency)
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._level = float(burst)
        self._filled = clock()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place for one call: waits for it, and gives it back."""
        async with self._places:
            yield

    async def token(self) -> None:
        """Wait until the call may be made; to be asked for in a place."""
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._filled) * self._rate)
        self._filled = now
        # Taken at once, so that those behind wait the longer: nobody has to wake anybody.
        self._level -= 1
        if self._level < 0:
            try:
                await asyncio.sleep(-self._level / self._rate)
            except asyncio.CancelledError:
                self._level += 1
                raise


@dataclass(slots=True)
class Breaker:
    """Opens after `limit` failures in a row for `pause` seconds; then one call tries, and the rest waits
    for its outcome: another failure opens the breaker again.

    An admission names the period in which its call began: a stretch of being closed, or one trial. The
    outcome of a call from an earlier period says nothing of the service as it is now, and changes nothing.
    """

    limit: int = 5
    pause: float = 30.0
    clock: Clock = time.monotonic
    times: int = 0
    """How often it has opened."""
    _failures: int = 0
    _opened: float | None = None
    _period: int = 0
    _trying: bool = False

    def admit(self) -> int | None:
        """An admission, with which the call's outcome is reported; None: no call may be made now."""
        if self._opened is not None:
            if self._trying or self.clock() - self._opened < self.pause:
                return None
            self._trying = True
            self._period += 1
        return self._period

    def succeeded(self, admission: int) -> None:
        """A call got its response."""
        if admission == self._period:
            self._failures, self._opened, self._trying = 0, None, False

    def failed(self, admission: int) -> None:
        """A call failed by the service's fault."""
        if admission != self._period:
            return
        self._failures += 1
        if self._trying or self._failures >= self.limit:
            self._opened, self._trying = self.clock(), False
            self._period += 1
            self.times += 1

    def abandoned(self, admission: int) -> None:
        """A call ended without a word on the service."""
        if admission == self._period:
            self._trying = False
