"""Sums since the start: requests and results, calls of external strategies, and originals that the model
asked for.

Each original that is asked for is a sign of too much shortening. Calls of external strategies have a bill of
their own, which no client sees.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from penumbra.expand.hidden_exchanges import Answered
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.events import ShownResult
from penumbra.metrics.journal import Journal
from penumbra.redaction.ruleset import in_words


@dataclass(slots=True)
class ExternalMetrics:
    """Sums of external compressors since the start."""

    hits: int = 0
    """Texts with a known answer."""
    misses: int = 0
    """Texts that were sent."""
    shared: int = 0
    """Texts that waited for another request's question."""
    failures: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    """All calls, with any outcome."""
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0

    def lines(self) -> list[str]:
        """Figures as text, one fact a line; none without calls."""
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


class Metrics:
    """The journal and further counters."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when figures change."""
        self.journal = Journal(changed)
        self.stages: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.strategies = ExternalMetrics()
        self.observed = 0
        """Requests that were only observed: their figures are a projection."""

    def add(self, shown: Iterable[ShownResult]) -> None:
        """Count the stages of new results."""
        new = [entry.facts for entry in shown if entry.new]
        self.stages.update(chain.from_iterable(facts.stages for facts in new))
        self.skipped.update(chain.from_iterable(facts.skipped for facts in new))

    @property
    def saved_by_tool(self) -> Counter[str]:
        """Tokens saved by tool, each result counted once."""
        return Counter(
            {name: saved for name, sums in self.journal.tools.items() if (saved := sums.before - sums.after)}
        )

    def totals(self) -> dict[str, Any]:
        """Figures for programs."""
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
        }

    def lines(self) -> list[str]:
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
    """Savings less overhead, with their shares; none without savings."""
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
    """Return lines about requests that came after the cache had expired; none without such requests."""
    lines = []
    if sums.cold_turns:
        told = f"{sums.cold_turns.total():,} requests, whose cache was {_top(sums.cold_turns)}"
        lines.append(f"used pauses results sent before were shortened in {told}")
    if not (count := sums.pauses.total()):
        return lines
    line = f"expiry      {count:,} requests after the cache's life: {sums.expired:,} tokens read anew"
    if sums.dollars:
        line += f", ${sums.dollars_expired:,.2f}, {sums.dollars_expired / sums.dollars:.1%} of the bill"
    return [f"{line}; pauses {_top(sums.pauses)}", *lines]


def _top(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in Counter(counter).most_common(12))


def _change(before: int, after: int) -> str:
    share = f" (-{(before - after) / before:.1%})" if before > after else ""
    return f"{before:,} -> {after:,}{share}"


_MOST_FIGURES = 200


@dataclass(slots=True)
class ExpansionMetrics:
    """Sums over the responses in which the model asked for originals, and over recovered requests."""

    responses: int = 0
    asked: int = 0
    found: int = 0
    sent: int = 0
    calls: int = 0
    """Hidden calls of the provider."""
    tokens: Counter[str] = field(default_factory=Counter)
    """Tokens of hidden responses, by the providers' names."""
    recovered: Counter[str] = field(default_factory=Counter)
    """Requests that were refused as too large and then taken, by rule and by number of tries."""

    def add(self, answered: Sequence[Answered], calls: int, tokens: Sequence[Mapping[str, int]]) -> None:
        self.responses += 1
        self.asked += len(answered)
        self.found += sum(answer.found for answer in answered)
        self.sent += sum(answer.sent for answer in answered)
        self.calls += calls
        for turn in tokens:
            # Names come from the upstream.
            known = {name: count for name, count in turn.items() if name in self.tokens}
            self.tokens.update(turn if len(self.tokens) < _MOST_FIGURES else known)

    def lines(self, journal: Journal) -> list[str]:
        """Figures as text, one fact a line. `journal`: counts originals by tool and family."""
        lines = [f"recovered   {_top(self.recovered)}"] if self.recovered else []
        if not self.responses:
            return [*lines, "Penumbra: the model has not asked for an original yet."]
        tokens = ", ".join(f"{name} {count:,}" for name, count in self.tokens.most_common(6))
        lines.append(
            f"expansions  {self.asked:,} asked in {self.responses:,} responses, {self.found:,} found, "
            f"{self.asked - self.found:,} missed, {self.sent:,} bytes given, {self.calls:,} extra calls"
            + (f" ({tokens})" if tokens else "")
        )
        for title, groups in (("by tool", journal.tools), ("by family", journal.families)):
            asked = Counter({name: sums.asked for name, sums in groups.items() if sums.asked})
            lines.append(f"{title:<11} {_top(asked)}")
        return lines


def expansion_event(
    *,
    flow_id: str,
    conversation: bytes,
    answered: Sequence[Answered],
    calls: int,
    tokens: Sequence[Mapping[str, int]],
    sound: bool,
) -> dict[str, Any]:
    """The event of one response in which the model asked for originals."""
    return {
        "event": "expansion",
        "time": round(time.time(), 3),
        "flow": flow_id,
        "conversation": conversation.hex()[:8],
        "sound": sound,
        "extra_calls": calls,
        "extra_tokens": [dict(turn) for turn in tokens],
        "asked": [
            {
                "ref": answer.ref,
                "found": answer.found,
                "bytes": answer.sent,
                "tool": answer.tool,
                "family": answer.family,
            }
            for answer in answered
        ],
    }
