"""What one request's results add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penumbra.metrics.shown import ShownResult


@dataclass(frozen=True, slots=True)
class Totals:
    """One request: its results as the client sent them, and as they were forwarded."""

    results: int
    changed: int
    bytes_before: int
    bytes_after: int
    tokens_before: int
    tokens_after: int
    redactions: int

    @classmethod
    def of(cls, shown: Iterable[ShownResult]) -> Totals:
        """The sums over a request's results, past decisions included."""
        facts = [entry.facts for entry in shown]
        return cls(
            results=len(facts),
            changed=sum(entry.how not in ("kept", "adopted") for entry in facts),
            bytes_before=sum(entry.bytes_before for entry in facts),
            bytes_after=sum(entry.bytes_after for entry in facts),
            tokens_before=sum(entry.tokens_before for entry in facts),
            tokens_after=sum(entry.tokens_after for entry in facts),
            redactions=sum(sum(entry.redactions.values()) for entry in facts),
        )
