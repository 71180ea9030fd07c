"""A clock that a test sets."""

from dataclasses import dataclass


@dataclass
class Clock:
    """A `Clock` shows `now` in seconds, and advances by `step` with each call."""

    now: float = 1_000_000.0
    step: float = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now
