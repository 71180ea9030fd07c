"""What became of one request, or of all frames of a socket, in a line: for logs, comments and filters.

Names of tools and rules, sizes and counts; never content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from penumbra.errors import one_line
from penumbra.metrics.request_totals import SAME, Totals
from penumbra.metrics.shown import ShownResult

_MOST_NAMES = 8
_LONGEST_NAME = 60
"""Characters: a client may call its tools anything."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts that can be added up."""

    results: int = 0
    changed: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    """Of the results that changed."""
    stages: Counter[str] = field(default_factory=Counter)
    secrets: Counter[str] = field(default_factory=Counter)
    """Redactions by rule, within results and outside of them."""
    declared: str = ""
    """The name of the injected tool, if the request declares it."""
    put_back: int = 0
    """Hidden exchanges of earlier responses."""

    @classmethod
    def of(
        cls,
        shown: Iterable[ShownResult],
        outside: Mapping[str, int],
        declared: str = "",
        put_back: int = 0,
        totals: Totals | None = None,
    ) -> Summary:
        """`outside`: secrets that were found outside of tool results, by rule; `totals`: of these results, if
        they are known."""
        shown = list(shown)
        totals = totals or Totals.of(shown)
        # A long conversation has thousands of results, which are counted with every request.
        changed = [entry for entry in shown if entry.facts.how not in SAME]
        tools = Counter([entry.tool for entry in changed])
        # What was decided about whole calls has no stage.
        stages = Counter(chain.from_iterable([each.facts.stages or (each.facts.how,) for each in changed]))
        secrets = Counter(outside)
        for redactions in [entry.facts.redactions for entry in shown if entry.facts.redactions]:
            secrets.update(redactions)
        stages.pop("shortened", None)
        named: Counter[str] = Counter()
        for name, count in tools.items():
            named[_name(name) or "(unknown)"] += count
        return cls(
            totals.results,
            totals.changed,
            totals.tokens_before,
            totals.tokens_after,
            named,
            stages,
            secrets,
            _name(declared),
            put_back,
        )

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.results + other.results,
            self.changed + other.changed,
            self.tokens_before + other.tokens_before,
            self.tokens_after + other.tokens_after,
            self.tools + other.tools,
            self.stages + other.stages,
            self.secrets + other.secrets,
            other.declared or self.declared,
            self.put_back + other.put_back,
        )

    def line(self, new: Summary | None = None) -> str:
        """Such as `2 of 5 results changed (Bash 2), about 8,000 -> 2,000 tokens (-75%), by terminal 2,
        3 secrets redacted (password 3)`. With `new`, what is summed up of new results, only their names are
        named: a request carries all earlier results again, and would name more with every turn."""
        named, mark = (self, "") if new is None else (new, "new: ")
        parts = []
        if self.results:
            parts.append(f"{self.changed:,} of {self.results:,} results changed{_names(named.tools, mark)}")
        if self.tokens_after < self.tokens_before:
            share = (self.tokens_before - self.tokens_after) / self.tokens_before
            parts.append(f"about {self.tokens_before:,} -> {self.tokens_after:,} tokens (-{share:.0%})")
        # Of secrets it is said below.
        if stages := Counter({name: count for name, count in named.stages.items() if name != "redaction"}):
            parts.append(f"by {_counted(stages)}")
        if self.secrets:
            count = self.secrets.total()
            noun = "secret" if count == 1 else "secrets"
            parts.append(f"{count:,} {noun} redacted{_names(named.secrets, mark)}")
        if self.put_back:
            noun = "exchange" if self.put_back == 1 else "exchanges"
            parts.append(f"{self.put_back:,} hidden {noun} put back")
        if self.declared and not self.changed:
            parts.append(f"tool {self.declared} declared")
        return ", ".join(parts) or "changed"

    def metadata(self) -> dict[str, object]:
        """For mitmproxy's filters and saved flows."""
        return {
            "results": self.results,
            "results_changed": self.changed,
            "result_tokens": [self.tokens_before, self.tokens_after],
            "tools": dict(self.tools),
            "stages": dict(self.stages),
            "secrets": dict(self.secrets),
            "declared": self.declared,
            "put_back": self.put_back,
        }


def _name(text: str) -> str:
    """What a client calls something, fit for one line of a terminal."""
    text = one_line(text)
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"


def _names(counts: Counter[str], mark: str = "") -> str:
    return f" ({mark}{_counted(counts)})" if counts else ""


def _counted(counts: Counter[str]) -> str:
    """The most frequent first, those of one count by name, so that equal requests read alike."""
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    parts = [f"{name} {count:,}" for name, count in ordered[:_MOST_NAMES]]
    if len(ordered) > _MOST_NAMES:
        parts.append(f"{len(ordered) - _MOST_NAMES} more")
    return ", ".join(parts)
