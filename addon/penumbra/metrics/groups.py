"""Results by tool and by family: how many, how much smaller, how often asked back."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from penumbra.errors import one_line

MOST, _LONGEST = 200, 60
OTHERS = "(others)"


@dataclass(slots=True)
class ResultSums:
    """New results of one kind; tokens are estimated."""

    results: int = 0
    changed: int = 0
    before: int = 0
    after: int = 0
    asked: int = 0
    """Originals that the model asked for."""
    missing: int = 0
    """Those of them that were not there any more."""
    read_again: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    """Results that went as they came, by reason."""

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "results": self.results,
            "changed": self.changed,
            "before": self.before,
            "after": self.after,
            "asked": self.asked,
            "missing": self.missing,
            "read_again": self.read_again,
            "kept": dict(self.kept),
        }


class Groups:
    """Sums by name; names come from clients, so there is a bound to them."""

    def __init__(self) -> None:
        self._sums = defaultdict[str, ResultSums](ResultSums)

    def of(self, name: str) -> ResultSums:
        """The sums of a name, to be counted on."""
        name = label(name)
        if name not in self._sums and len(self._sums) >= MOST:
            name = OTHERS
        return self._sums[name]

    def items(self) -> list[tuple[str, ResultSums]]:
        """The largest first."""
        return sorted(self._sums.items(), key=lambda each: -each[1].before)


def label(name: str) -> str:
    """A name of somebody else's, fit to be shown."""
    return one_line(name[:_LONGEST]) or "(unknown)"
