"""What was done since the start, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penumbra.errors import one_line
from penumbra.metrics.external_calls import ExternalMetrics
from penumbra.metrics.shown import ShownResult

_MOST_TOOLS, _LONGEST_NAME = 1_000, 100


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


@dataclass(slots=True)
class Metrics:
    """Running sums. Sent tokens count a result in every request that carries it; new ones only once."""

    requests: int = 0
    changed: int = 0
    refused: int = 0
    passed: Counter[str] = field(default_factory=Counter)
    """Recognised requests that went through untouched, by reason."""
    sent_before: int = 0
    sent_after: int = 0
    new_results: int = 0
    new_before: int = 0
    new_after: int = 0
    stages: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    saved_by_tool: Counter[str] = field(default_factory=Counter)
    redactions: Counter[str] = field(default_factory=Counter)
    milliseconds: float = 0.0
    dollars: float = 0.0
    """Saved at list prices, as far as they are known; what stood in earlier requests counts as cached."""
    unpriced: int = 0
    """Requests that were made smaller, of models whose price is not known."""
    strategies: ExternalMetrics = field(default_factory=ExternalMetrics)

    def add(self, shown: Iterable[ShownResult], totals: Totals, milliseconds: float, changed: bool) -> None:
        """Count one rewritten request."""
        self.requests += 1
        self.changed += changed
        self.sent_before += totals.tokens_before
        self.sent_after += totals.tokens_after
        self.milliseconds += milliseconds
        for entry in shown:
            if not entry.new:
                continue
            self.new_results += 1
            self.new_before += entry.facts.tokens_before
            self.new_after += entry.facts.tokens_after
            self.stages.update(entry.facts.stages)
            self.skipped.update(entry.facts.skipped)
            self.redactions.update(entry.facts.redactions)
            saved = entry.facts.tokens_before - entry.facts.tokens_after
            if saved:
                self.saved_by_tool[counted_as(self.saved_by_tool, entry.tool)] += saved

    def add_saving(self, dollars: float | None) -> None:
        """What a request costs less; None: the price is not known."""
        if dollars is None:
            self.unpriced += 1
        else:
            self.dollars += dollars

    def totals(self) -> dict[str, Any]:
        """The figures for programs; counts, and estimated tokens."""
        return {
            "requests": self.requests,
            "changed": self.changed,
            "refused": self.refused,
            "sent_tokens": [self.sent_before, self.sent_after],
            "new_results": self.new_results,
            "new_tokens": [self.new_before, self.new_after],
            "milliseconds": round(self.milliseconds, 1),
            "dollars": round(self.dollars, 6),
            "unpriced": self.unpriced,
            "stages": dict(self.stages),
            "saved_by_tool": dict(self.saved_by_tool),
            "redactions": dict(self.redactions),
            "untouched": dict(self.passed),
        }

    def lines(self) -> list[str]:
        """The figures as text, one fact a line."""
        if not self.requests:
            return ["Penumbra: no LLM requests yet."]
        lines = [
            f"requests    {self.requests:,} read, {self.changed:,} changed, {self.refused:,} refused",
            f"tokens sent {_change(self.sent_before, self.sent_after)} (results of all requests, estimated)",
            f"new results {self.new_results:,}: {_change(self.new_before, self.new_after)} tokens",
            f"time        {self.milliseconds / self.requests:.1f} ms a request",
        ]
        for title, counter in (
            ("stages", self.stages),
            ("out of time", self.skipped),
            ("saved by", self.saved_by_tool),
            ("redacted", self.redactions),
            ("untouched", self.passed),
        ):
            if counter:
                top = ", ".join(f"{name} {count:,}" for name, count in counter.most_common(12))
                lines.append(f"{title:<11} {top}")
        return lines + self.strategies.lines()


def counted_as(counter: Counter[str], tool: str) -> str:
    """The name that a tool is counted under: a client may call its tools anything, and have any number."""
    name = one_line(tool[:_LONGEST_NAME]) or "(unknown)"
    return name if name in counter or len(counter) < _MOST_TOOLS else "(others)"


def _change(before: int, after: int) -> str:
    share = f" (-{(before - after) / before:.1%})" if before > after else ""
    return f"{before:,} -> {after:,}{share}"
