"""Whether a shared store can be relied on now, and when it is tried again.

Requests never try a store that has failed: one task of the process does, after pauses that grow and differ
from proxy to proxy.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_LONGEST_HURRY = 0.1
_LONGEST_REST = 0.5
_HEARING = 1.5
"""Seconds after which every proxy hears again what others tell."""
_RECENT_SECONDS = 30.0


class Reach(Enum):
    """What a store does."""

    WHOLE = "whole"
    FULL = "full"
    """It reads, and writes nothing."""
    AWAY = "away"


@dataclass(slots=True)
class Outage:
    """State: how it is, and since when."""

    clock: Callable[[], float] = time.monotonic
    reach: Reach = Reach.WHOLE
    count: int = 0
    """Times that it failed after it had been whole."""
    _tries: int = 0
    _began: float = 0.0
    _tried: float = 0.0
    _ended: float = field(default=float("-inf"))
    _length: float = 0.0

    def worsen(self, reach: Reach) -> bool:
        """It failed. Whether that is new."""
        self._tried = self.clock()
        if self.reach is reach or self.reach is Reach.AWAY:
            return False
        if self.reach is Reach.WHOLE:
            self.count += 1
            self._began = self.clock()
        self.reach = reach
        return True

    def pause(self, *, hurries: bool = False) -> float:
        """Seconds until it is tried again. `hurries`: others may read there what does not hold."""
        longest = _LONGEST_HURRY if hurries else _LONGEST_PAUSE
        pause = min(longest, _FIRST_PAUSE * (1 << self._tries))
        self._tries = min(self._tries + 1, 10)
        return pause * random.uniform(0.5, 1.0)

    @property
    def is_tried_out(self) -> bool:
        """It was tried so short a time ago that no request has it tried again: the longer it fails, the
        rarer."""
        rest = min(_LONGEST_REST, (self.clock() - self._began) / 4)
        return self.clock() - self._tried < rest

    def improve(self, reach: Reach) -> None:
        """It was tried, and did that."""
        self.reach = reach
        self._tried = self.clock()
        if reach is Reach.WHOLE:
            self._tries = 0
            self._ended = self.clock()
            self._length = self._ended - self._began

    @property
    def is_settled(self) -> bool:
        """It is whole, and has been so for long enough that every proxy knows it: none pauses for longer than
        twice the time that it has been failing."""
        pause = min(_LONGEST_PAUSE, 2 * self._length) + _HEARING
        return self.reach is Reach.WHOLE and self.clock() - self._ended > pause

    @property
    def is_recent(self) -> bool:
        """It failed not long ago: other proxies may not have written yet what they sent meanwhile."""
        return self.reach is not Reach.WHOLE or self.clock() - self._ended < _RECENT_SECONDS
