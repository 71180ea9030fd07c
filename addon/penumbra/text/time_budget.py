"""How much time the stages of one result may take.

All stages are linear, so only a text that is very large, or of a kind that nobody has thought of, takes
long. A stage under way can't be stopped; those behind it are passed over and named in the decision,
which the ledger keeps: the form is final, although it depends on a clock. Smaller texts always get all
stages, on any machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SMALL = 65_536
"""Characters of a text below which no clock is asked."""

IsLate = Callable[[], bool]


def never() -> bool:
    """The budget that is never used up."""
    return False


def budget(text: str, seconds: float, clock: Callable[[], float] = time.thread_time) -> IsLate:
    """Whether `seconds` (0: any time) have gone since now; the default clock is this thread's work."""
    if not seconds or len(text) < SMALL:
        return never
    end = clock() + seconds
    return lambda: clock() >= end


def of_request(seconds: float, clock: Callable[[], float] = time.thread_time) -> IsLate:
    """The same for all results of one request, however small each is."""
    if not seconds:
        return never
    end = clock() + seconds
    return lambda: clock() >= end
