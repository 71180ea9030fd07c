"""How often the model asked for what was left out: every time is a sign of too much shortening."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penumbra.expand.prepared import Answered
from penumbra.metrics.totals import counted_as

_CONVERSATIONS = 200

_MOST_FIGURES = 200


@dataclass(slots=True)
class Counts:
    """Sums over responses."""

    responses: int = 0
    """Answers in which the model asked at least once."""
    asked: int = 0
    found: int = 0
    sent: int = 0
    """Bytes given to the model."""
    calls: int = 0
    """Upstream calls that the client did not make."""
    tokens: Counter[str] = field(default_factory=Counter)
    """Token figures of the responses that the client did not see, by the providers' names."""

    def add(self, answered: Sequence[Answered], calls: int, tokens: Sequence[Mapping[str, int]]) -> None:
        """Count one response."""
        self.responses += 1
        self.asked += len(answered)
        self.found += sum(answer.found for answer in answered)
        self.sent += sum(answer.sent for answer in answered)
        self.calls += calls
        for turn in tokens:
            # Names come from the upstream.
            known = {name: count for name, count in turn.items() if name in self.tokens}
            self.tokens.update(turn if len(self.tokens) < _MOST_FIGURES else known)

    def line(self) -> str:
        """The sums as text."""
        tokens = ", ".join(f"{name} {count:,}" for name, count in self.tokens.most_common(6))
        return (
            f"{self.asked:,} asked in {self.responses:,} responses, {self.found:,} found, "
            f"{self.asked - self.found:,} missed, {self.sent:,} bytes given, {self.calls:,} extra calls"
            + (f" ({tokens})" if tokens else "")
        )


@dataclass(slots=True)
class ExpansionMetrics:
    """Counts of all conversations, of the latest ones each, and by tool and family."""

    all: Counts = field(default_factory=Counts)
    conversations: OrderedDict[str, Counts] = field(default_factory=OrderedDict)
    """By the first letters of the conversation's keyed hash."""
    by_tool: Counter[str] = field(default_factory=Counter)
    by_family: Counter[str] = field(default_factory=Counter)
    recovered: Counter[str] = field(default_factory=Counter)
    """Requests that were refused as too large and then taken, by rule and by how often they were sent."""

    def add(
        self,
        conversation: bytes,
        answered: Sequence[Answered],
        calls: int,
        tokens: Sequence[Mapping[str, int]],
    ) -> None:
        """Count one response."""
        name = conversation.hex()[:8]
        counts = self.conversations.pop(name, None) or Counts()
        self.conversations[name] = counts
        while len(self.conversations) > _CONVERSATIONS:
            self.conversations.popitem(last=False)
        for target in (self.all, counts):
            target.add(answered, calls, tokens)
        for answer in answered:
            self.by_tool[counted_as(self.by_tool, answer.tool)] += 1
        self.by_family.update(answer.family or "(none)" for answer in answered)

    def lines(self) -> list[str]:
        """The figures as text, one fact a line; the latest conversations last."""
        recovered = ", ".join(f"{name} {count:,}" for name, count in self.recovered.most_common(12))
        lines = [f"recovered   {recovered}"] if recovered else []
        if not self.all.responses:
            return [*lines, "Penumbra: the model has not asked for an original yet."]
        lines.append(f"expansions  {self.all.line()}")
        for title, counter in (("by tool", self.by_tool), ("by family", self.by_family)):
            top = ", ".join(f"{name} {count:,}" for name, count in counter.most_common(12))
            lines.append(f"{title:<11} {top}")
        latest = list(self.conversations.items())[-20:]
        return [*lines, "the latest conversations:", *(f"{name:<11} {one.line()}" for name, one in latest)]


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
