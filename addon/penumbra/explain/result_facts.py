"""This module stores the outcomes of results for display: sizes and names, never content. The facts are
stored in the metadata of the flow in which the result was new, and in a `ResultMemory` for requests that
repeat the result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec
from cachetools import LRUCache

from penumbra.metrics.events import ShownResult

_MOST = 20_000
_REDACTION = "redaction"
"""Name of a stage that is not shown, since the list of secrets shows its effect."""
MOST_IN_FLOW = 1_000
"""Greatest number of results that are listed in a flow. The names in these results are searched for secrets
before they are listed."""
Key = tuple[str, str, str, bytes | int]


class ResultFacts(msgspec.Struct, frozen=True):
    """A `ResultFacts` has the outcome of one result. `tool` and `call_id` are safe to show."""

    call_id: str = msgspec.field(name="call")
    tool: str
    how: str
    kept: str
    """Reason why the result is unchanged; empty if it was changed."""
    bytes: tuple[int, int]
    tokens: tuple[int, int]
    stages: tuple[str, ...] = ()
    family: str = ""
    secrets: dict[str, int] = {}
    ref: str = ""

    @classmethod
    def of(cls, shown: ShownResult, kept: str) -> ResultFacts:
        facts = shown.facts
        return cls(
            shown.call_id,
            shown.tool,
            facts.how,
            kept,
            (facts.bytes_before, facts.bytes_after),
            (facts.tokens_before, facts.tokens_after),
            facts.stages,
            facts.family,
            dict(facts.redactions),
            facts.ref,
        )

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = msgspec.to_builtins(self)
        return record | {name: list(record[name]) for name in ("bytes", "tokens", "stages")}

    @classmethod
    def read(cls, record: Any) -> ResultFacts | None:
        """Return the facts in a record of unknown origin; None if it is malformed."""
        try:
            return msgspec.convert(record, cls)
        except (msgspec.ValidationError, ValueError, TypeError):
            return None

    @property
    def is_as_it_came(self) -> bool:
        return bool(self.kept) and not self.secrets and self.bytes[0] == self.bytes[1]

    def sizes(self) -> str:
        (before, after), (tokens_before, tokens_after) = self.bytes, self.tokens
        parts = [f"{before:,} bytes" if before == after else f"{before:,} -> {after:,} bytes"]
        if tokens_after < tokens_before:
            share = (tokens_before - tokens_after) / tokens_before
            parts.append(f"about {tokens_before:,} -> {tokens_after:,} tokens (-{share:.0%})")
        return "; ".join(parts)

    def done(self) -> str:
        """Return how the result was changed, or why it is unchanged, and its secrets by rule."""
        if self.kept:
            done = f"as it came: {self.kept}"
        else:
            stages = ", ".join(
                stage.replace("_", " ") for stage in self.stages if stage not in (self.how, _REDACTION)
            )
            done = f"{self.how} by {stages}" if stages else self.how
        parts = [done]
        if self.secrets:
            secrets = ", ".join(f"{rule} {count}" for rule, count in sorted(self.secrets.items()))
            parts.append(f"secrets redacted: {secrets}")
        return "; ".join(parts)


def read_all(records: Any) -> list[ResultFacts]:
    listed = records[:MOST_IN_FLOW] if isinstance(records, list | tuple) else ()
    return [facts for record in listed if (facts := ResultFacts.read(record)) is not None]


class ResultMemory:
    """A `ResultMemory` stores the outcomes of results by session, call and sent text."""

    def __init__(self) -> None:
        self._sent: LRUCache[Key, ResultFacts] = LRUCache(_MOST)
        self._numbers: LRUCache[Key, int] = LRUCache(_MOST)
        self._saved: LRUCache[Key, ResultFacts | None] = LRUCache(_MOST)
        """Outcomes from saved flows. The key has the size of the sent text in place of its hash. The value is
        None if two different outcomes have the same key."""
        self._sessions: LRUCache[str, None] = LRUCache(_MOST)

    def knows(self, session: str) -> bool:
        return session in self._sessions

    def put(self, session: str, facts: ResultFacts, sent: str, number: int = 0) -> None:
        """Store the outcome of a sent result. `number` is its number in the journal; 0 without one."""
        key = session, facts.call_id, facts.tool, _digest(sent)
        self._sessions[session] = None
        self._sent[key] = facts
        if number:
            self._numbers[key] = number

    def learn(self, session: str, results: Iterable[ResultFacts], *, is_observed: bool = False) -> None:
        """Add the outcomes in a saved flow. `is_observed` is true if the results were sent unchanged."""
        for facts in results:
            key = session, facts.call_id, facts.tool, facts.bytes[0 if is_observed else 1]
            self._saved[key] = facts if self._saved.get(key, facts) == facts else None

    def get(self, session: str, call_id: str, tool: str, sent: str) -> tuple[ResultFacts | None, int]:
        """Return a result's outcome (None if unknown) and number in the journal (0 if there is none)."""
        key = session, call_id, tool, _digest(sent)
        if (facts := self._sent.get(key)) is not None:
            return facts, self._numbers.get(key, 0)
        return self._saved.get((session, call_id, tool, _size(sent))), 0

    def references(self) -> dict[str, int]:
        """Map the reference of each stored original to the number of its result in the journal."""
        named = ((facts.ref, self._numbers.get(key, 0)) for key, facts in self._sent.items() if facts.ref)
        return {ref: number for ref, number in named if number}

    def clear(self) -> None:
        for each in (self._sent, self._numbers, self._saved, self._sessions):
            each.clear()


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def listed(results: Iterable[ResultFacts], before: Any = ()) -> list[dict[str, Any]]:
    """Return the records of `before`, which a flow already lists, and then those of `results`."""
    earlier = list(before) if isinstance(before, list | tuple) else []
    space = max(0, MOST_IN_FLOW - len(earlier))
    return [*earlier[:MOST_IN_FLOW], *(facts.record() for facts in islice(results, space))]
