"""What `penumbra doctor` says of one thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class State(IntEnum):
    """How a check came out."""

    OK = 0
    NOTE = 1
    BAD = 2


@dataclass(frozen=True, slots=True)
class Check:
    """One line."""

    state: State
    about: str
    """What was looked at, in a word, for programs."""
    told: str
    fix: str = ""
    """What helps: a command where there is one."""

    def __str__(self) -> str:
        words = ("ok", "note", "BAD")
        return f"{words[self.state]:<5} {self.told}" + (f": {self.fix}" if self.fix else "")
