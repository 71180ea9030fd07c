"""What bounds all calls of one process: how many at once, how many a second, and when to stop asking."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Clock = Callable[[], float]


class Limits:
    """`concurrency` calls at once; a bucket of `burst` calls that fills by `rate` a second.

    Who waits is served in order. A waiter that is cancelled takes nothing with it.
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
    for what becomes of it: another failure opens it again."""

    limit: int = 5
    pause: float = 30.0
    clock: Clock = time.monotonic
    failures: int = 0
    opened: float | None = None
    trying: bool = False
    times: int = field(default=0)
    """How often it has opened."""

    def admits(self) -> bool:
        """Whether a call may be made now; a call that is admitted must report what became of it."""
        if self.opened is None:
            return True
        if self.trying or self.clock() - self.opened < self.pause:
            return False
        self.trying = True
        return True

    def succeeded(self) -> None:
        """An admitted call got its response."""
        self.failures, self.opened, self.trying = 0, None, False

    def failed(self) -> None:
        """An admitted call failed. Failures of calls that began before it opened don't hold it open."""
        if self.opened is None:
            self.failures += 1
        if self.trying or (self.opened is None and self.failures >= self.limit):
            self.opened, self.trying = self.clock(), False
            self.times += 1

    def abandoned(self) -> None:
        """An admitted call ended without a word on the service."""
        self.trying = False
