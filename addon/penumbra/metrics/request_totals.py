"""What one request's results add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penumbra.metrics.shown import ShownResult

SAME = ("kept", "adopted")
"""How results came to the form that they had."""


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
        results = changed = bytes_before = bytes_after = tokens_before = tokens_after = redactions = 0
        for entry in shown:
            facts = entry.facts
            results += 1
            changed += facts.how not in SAME
            bytes_before += facts.bytes_before
            bytes_after += facts.bytes_after
            tokens_before += facts.tokens_before
            tokens_after += facts.tokens_after
            if facts.redactions:
                redactions += sum(facts.redactions.values())
        return cls(results, changed, bytes_before, bytes_after, tokens_before, tokens_after, redactions)
