"""What was done since the start, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from penumbra.errors import one_line
from penumbra.metrics import comparison
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.external_calls import ExternalMetrics
from penumbra.metrics.journal import Journal
from penumbra.metrics.shown import ShownResult
from penumbra.redaction.ruleset import in_words

_MOST_TOOLS, _LONGEST_NAME = 1_000, 100


class Metrics:
    """The journal, and what else is counted."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when there are new figures."""
        self.journal = Journal(changed)
        self.stages: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.strategies = ExternalMetrics()
        self.observed = 0
        """Requests that were only looked at: what is counted of them would have been."""

    def add(self, shown: Iterable[ShownResult]) -> None:
        """Count what was done to the new ones of a request's results."""
        new = [entry.facts for entry in shown if entry.new]
        self.stages.update(chain.from_iterable(facts.stages for facts in new))
        self.skipped.update(chain.from_iterable(facts.skipped for facts in new))

    @property
    def saved_by_tool(self) -> Counter[str]:
        """Tokens, each result counted once."""
        return Counter(
            {name: saved for name, sums in self.journal.tools.items() if (saved := sums.before - sums.after)}
        )

    def totals(self) -> dict[str, Any]:
        """The figures for programs; counts, and estimated tokens."""
        sums = self.journal.amounts
        return {
            "requests": sums.requests,
            "observed": self.observed,
            "changed": sums.changed,
            "refused": sums.refused,
            "responses": sums.responses,
            "input_tokens": sums.input,
            "sent_tokens": [sums.sent_before, sums.sent_after],
            "new_results": sums.new_results,
            "new_tokens": [sums.new_before, sums.new_after],
            "overhead_tokens": sums.overhead,
            "milliseconds": round(sums.seconds * 1000, 1),
            "dollars": round(sums.dollars_saved, 6),
            "dollars_spent": round(sums.dollars_spent, 6),
            "unpriced": sums.unpriced,
            "prefix": {"compared": sums.compared, "broken": sums.broken},
            "stages": dict(self.stages),
            "saved_by_tool": dict(self.saved_by_tool),
            "redactions": dict(sums.secrets),
            "untouched": dict(self.journal.untouched),
            "arms": {name: comparison.counted_sums(amounts) for name, amounts in self.journal.arms.items()},
        }

    def lines(self) -> list[str]:
        """The figures as text, one fact a line."""
        sums = self.journal.amounts
        if not sums.requests:
            return ["Penumbra: no LLM requests yet."]
        lines = [
            f"requests    {sums.requests:,} read, {sums.changed:,} changed, {sums.refused:,} refused",
            f"tokens sent {_change(sums.sent_before, sums.sent_after)} (results of all requests, estimated)",
            f"new results {sums.new_results:,}: {_change(sums.new_before, sums.new_after)} tokens",
            *net_lines(sums),
            f"time        {sums.seconds * 1000 / sums.requests:.1f} ms a request",
        ]
        if self.observed:
            told = (
                f"{self.observed:,} of these requests were not changed: the figures say what would have been"
            )
            lines.insert(0, f"observed    {told}")
        lines += expiry_lines(sums)
        if sums.compared:
            lines.append(
                f"prefix      broken by Penumbra {sums.broken:,} times in {sums.compared:,} comparisons"
            )
        for title, counter in (
            ("stages", self.stages),
            ("out of time", self.skipped),
            ("saved by", self.saved_by_tool),
            ("redacted", {in_words(kind): count for kind, count in sums.secrets.items()}),
            ("untouched", self.journal.untouched),
            ("cache misses", sums.misses),
            ("errors", sums.errors),
        ):
            if counter:
                lines.append(f"{title:<11} {_top(counter)}")
        return lines + self.strategies.lines()


def net_lines(sums: Amounts) -> list[str]:
    """What was saved less what that took, with what it is a part of; none if nothing was saved."""
    if not sums.saved:
        return []
    line = f"net         {sums.net:,} tokens fewer, less {sums.overhead:,} for the tool, originals, repeats"
    if sums.responses and sums.input + sums.net > 0:
        line += f": {sums.net / (sums.input + sums.net):.1%} of input tokens"
    if sums.dollars + sums.dollars_net > 0:
        part = sums.dollars_net / (sums.dollars + sums.dollars_net)
        line += f"; about ${sums.dollars_net:,.2f}, {part:.1%} of the bill"
    return [line]


def expiry_lines(sums: Amounts) -> list[str]:
    """Return a line about requests that came after the cache had expired; none without such requests."""
    if not (count := sums.pauses.total()):
        return []
    line = f"expiry      {count:,} requests after the cache's life: {sums.expired:,} tokens read anew"
    if sums.dollars:
        line += f", ${sums.dollars_expired:,.2f}, {sums.dollars_expired / sums.dollars:.1%} of the bill"
    return [f"{line}; pauses {_top(sums.pauses)}"]


def _top(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in Counter(counter).most_common(12))


def counted_as(counter: Counter[str], tool: str) -> str:
    """The name that a tool is counted under: a client may call its tools anything, and have any number."""
    name = one_line(tool[:_LONGEST_NAME]) or "(unknown)"
    return name if name in counter or len(counter) < _MOST_TOOLS else "(others)"


def _change(before: int, after: int) -> str:
    share = f" (-{(before - after) / before:.1%})" if before > after else ""
    return f"{before:,} -> {after:,}{share}"
