"""What strategies were asked, what came of it, and what that cost: the bill that no client sees."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class ExternalMetrics:
    """Running sums since the start."""

    hits: int = 0
    """Texts whose answer was there already."""
    misses: int = 0
    """Texts that were shortened by asking."""
    shared: int = 0
    """Texts that waited for the same question of somebody else."""
    failures: Counter[str] = field(default_factory=Counter)
    """Texts that got no answer, by kind."""
    calls: int = 0
    """Calls made, whatever became of them."""
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0

    def lines(self) -> list[str]:
        """The figures as text, one fact a line; none if nobody was asked."""
        if not (self.hits or self.misses or self.failures):
            return []
        unanswered = sum(self.failures.values())
        spent = f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out, about ${self.dollars:.4f}"
        lines = [
            f"strategy    {self.hits:,} hits, {self.misses:,} misses, {unanswered:,} without an answer",
            f"its cost    {self.calls:,} calls ({self.shared:,} shared), {spent}",
        ]
        if self.failures:
            top = ", ".join(f"{kind} {count:,}" for kind, count in self.failures.most_common(12))
            lines.append(f"no answer   {top}")
        return lines
