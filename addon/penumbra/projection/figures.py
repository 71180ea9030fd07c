"""This module adds up a projection by tool, command family and agent, in tokens and in dollars. Tokens are
estimates, except for counts of whole requests in logs. A result is new in the first request that contains it,
and resent in each later request."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, fields
from itertools import count
from typing import Any

from penumbra.store.decisions import Facts

_MOST_LARGEST = 15
_MOST_ROWS = 10_000
"""The greatest number of `Figures.rows`. Results beyond these rows count under `(others)`."""


@dataclass(slots=True)
class Sums:
    """A `Sums` adds up results: tokens before and after, and saved dollars where the price is known."""

    results: int = 0
    changed: int = 0
    before: int = 0
    after: int = 0
    resent_before: int = 0
    resent_after: int = 0
    dollars: float = 0.0

    @property
    def saved(self) -> int:
        """Return the tokens saved in all requests."""
        return self.before - self.after + self.resent_before - self.resent_after

    def add(self, facts: Facts, resent: int, each: float, *, is_new: bool) -> None:
        """Add a result. `resent` is the number of counted requests that repeat the result. One token of the
        result costs `each` dollars in all counted requests together."""
        before, after = facts.tokens_before, facts.tokens_after
        if is_new:
            self.results += 1
            self.changed += facts.how not in ("kept", "adopted")
            self.before += before
            self.after += after
        self.resent_before += before * resent
        self.resent_after += after * resent
        self.dollars += (before - after) * each


@dataclass(frozen=True, slots=True)
class Requests:
    """A `Requests` adds up whole requests."""

    count: int = 0
    input: int = 0
    counted_input: int = 0
    """The part of `input` that a provider counted. The other tokens are estimates."""
    dollars: float = 0.0
    """Dollars for the prompts, at the prices of cached and uncached tokens."""
    declared: int = 0
    """Tokens of the injected tool's declaration, in all requests."""
    declared_dollars: float = 0.0
    unpriced: int = 0

    def __add__(self, other: Requests) -> Requests:
        return Requests(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class LargeResult:
    """A `LargeResult` is one of the largest results, without secrets."""

    tool: str
    kind: str
    call: str
    """Beginning of the command or path of the call."""
    source: str
    """The name of the file that contains the result."""
    facts: Facts
    form: str
    """Beginning of the text that would have been sent."""


@dataclass(slots=True)
class Figures:
    """A `Figures` has the sums over everything that was projected."""

    rows: dict[tuple[str, str], Sums] = field(default_factory=dict)
    """Sums by tool and command family, such as `("Bash", "git")`. The family is empty if the tool runs no
    commands."""
    agents: dict[str, tuple[Requests, Sums]] = field(default_factory=dict)
    secrets: Counter[str] = field(default_factory=Counter)
    """Redactions in new results, calls and other texts, by rule."""
    values: set[str] = field(default_factory=set)
    conversations: int = 0
    failed: int = 0
    """Conversations, or requests of a file, that could not be projected."""
    _largest: list[tuple[int, int, LargeResult]] = field(default_factory=list)
    _order: count[int] = field(default_factory=count)

    @property
    def results(self) -> Sums:
        all_sums = [sums for _, sums in self.agents.values()]
        return Sums(*(sum(getattr(sums, each.name) for sums in all_sums) for each in fields(Sums)))

    @property
    def requests(self) -> Requests:
        return sum((requests for requests, _ in self.agents.values()), Requests())

    def add_requests(self, agent: str, requests: Requests) -> None:
        before, sums = self.agents.get(agent, (Requests(), Sums()))
        self.agents[agent] = (before + requests, sums)

    def add_result(
        self, agent: str, row: tuple[str, str], facts: Facts, resent: int, each: float, *, is_new: bool
    ) -> None:
        if row not in self.rows and len(self.rows) >= _MOST_ROWS:
            row = ("(others)", "")
        for sums in (self.rows.setdefault(row, Sums()), self.agents[agent][1]):
            sums.add(facts, resent, each, is_new=is_new)

    def is_large(self, tokens: int) -> bool:
        """Return whether a result of this size is one of the largest so far."""
        return len(self._largest) < _MOST_LARGEST or tokens > self._largest[0][0]

    def add_large(self, large: LargeResult) -> None:
        entry = (large.facts.tokens_before, -next(self._order), large)
        (heapq.heappush if len(self._largest) < _MOST_LARGEST else heapq.heappushpop)(self._largest, entry)

    @property
    def ranked(self) -> list[tuple[tuple[str, str], Sums]]:
        """Return the rows, sorted by savings. The largest savings come first."""
        return sorted(self.rows.items(), key=lambda row: (-row[1].saved, -row[1].before, row[0]))

    @property
    def largest(self) -> list[LargeResult]:
        return [large for _, _, large in sorted(self._largest, key=lambda each: each[:2], reverse=True)]


NOTE = (
    "A projection: the results as a proxy would have sent them. System prompts and declarations of tools are "
    "in recorded requests, not in session logs; requests of the model for originals are not known."
)


def summary(figures: Figures, read: dict[str, int]) -> dict[str, Any]:
    """Return the figures as an object for JSON. `read` counts files and lines of logs."""
    return {
        "projection": NOTE,
        "read": {**read, "conversations": figures.conversations, "failed": figures.failed},
        "results": _sums(figures.results),
        "requests": _requests(figures.requests),
        "agents": {
            name: {"requests": _requests(requests), "results": _sums(sums)}
            for name, (requests, sums) in figures.agents.items()
        },
        "tools": [{"tool": tool, "kind": kind, **_sums(sums)} for (tool, kind), sums in figures.ranked],
        "secrets": {"by_rule": dict(figures.secrets), "different_values": len(figures.values)},
        "largest": [
            {
                "tool": large.tool,
                "kind": large.kind,
                "call": large.call,
                "source": large.source,
                "how": large.facts.how,
                "stages": list(large.facts.stages),
                "tokens": [large.facts.tokens_before, large.facts.tokens_after],
            }
            for large in figures.largest
        ],
    }


def _sums(sums: Sums) -> dict[str, Any]:
    return {
        "count": sums.results,
        "changed": sums.changed,
        "tokens": [sums.before, sums.after],
        "resent_tokens": [sums.resent_before, sums.resent_after],
        "dollars_saved": round(sums.dollars, 6),
    }


def _requests(requests: Requests) -> dict[str, Any]:
    return {
        "count": requests.count,
        "input_tokens": requests.input,
        "input_tokens_counted_by_provider": requests.counted_input,
        "input_dollars": round(requests.dollars, 6),
        "injected_tool_tokens": requests.declared,
        "injected_tool_dollars": round(requests.declared_dollars, 6),
        "without_known_price": requests.unpriced,
    }
