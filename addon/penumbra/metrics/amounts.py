"""The sums that are shown and kept: of all, a day, a conversation, an agent. Counts, never content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

_MOST_NAMES = 60
"""Of a counter that is kept: names come from rules, from providers' statuses and from us."""


@dataclass(slots=True)
class Amounts:
    """Tokens of results are estimated; those that are billed are the provider's own count.

    `sent` counts a result in every request that carries it, `new` only once.
    """

    requests: int = 0
    changed: int = 0
    turns: int = 0
    """Requests for a message that the provider has taken; no counting of tokens, no tries that failed."""
    refused: int = 0
    """Not sent, because they can't be searched for secrets."""
    responses: int = 0
    """With the provider's figures."""
    seconds: float = 0.0
    """Added to requests."""
    new_results: int = 0
    new_before: int = 0
    new_after: int = 0
    sent_before: int = 0
    sent_after: int = 0
    # What it costs in tokens that is not in the above.
    declared: int = 0
    """Of the injected tool's declaration, in every request that has it."""
    put_back: int = 0
    """Of hidden exchanges, in every request that has them."""
    asked: int = 0
    """Originals that the model asked for."""
    found: int = 0
    hidden_calls: int = 0
    hidden_tokens: int = 0
    """Input of the calls behind the client's."""
    read_again: int = 0
    """New results of calls that gave the same before, of which something was left out."""
    read_again_tokens: int = 0
    files_again: int = 0
    """New results that show a file which the conversation had read before, whichever part of it."""
    waited: float = 0.0
    """Seconds from requests to the ends of their responses; of WebSockets it is not known."""
    # The bill, as the provider counts.
    uncached: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    missed: int = 0
    """Input that should have come from the cache, and did not."""
    compared: int = 0
    """Prompts that the provider itself compared with the ones before them."""
    broken: int = 0
    """Of these, prompts whose earlier part Penumbra changed without meaning to."""
    dollars: float = 0.0
    """Of the bill, at list prices, as far as they are known."""
    dollars_saved: float = 0.0
    """By smaller results, in requests that the provider has taken; so with the two others."""
    dollars_spent: float = 0.0
    """For all that `declared`, `put_back`, `hidden_tokens` and `read_again` count."""
    dollars_missed: float = 0.0
    expired: int = 0
    """Part of `missed`: input of requests after a pause that was longer than the cache's life."""
    dollars_expired: float = 0.0
    """Part of `dollars_missed`."""
    unpriced: int = 0
    """Requests that were taken, of models whose price is not known: no dollars are counted for them."""
    misses: Counter[str] = field(default_factory=Counter)
    """By cause."""
    pauses: Counter[str] = field(default_factory=Counter)
    """Requests whose cache had expired, by the length of the pause."""
    secrets: Counter[str] = field(default_factory=Counter)
    """Newly found, by rule."""
    errors: Counter[str] = field(default_factory=Counter)
    """By the provider's status, or what else went wrong."""

    @property
    def saved(self) -> int:
        """Tokens by which results were smaller, in all requests that carried them."""
        return self.sent_before - self.sent_after

    @property
    def overhead(self) -> int:
        """Tokens that would not have been sent without Penumbra."""
        return self.declared + self.put_back + self.hidden_tokens + self.read_again_tokens

    @property
    def net(self) -> int:
        """Tokens saved, less what it took; negative if it took more."""
        return self.saved - self.overhead

    @property
    def input(self) -> int:
        """Input tokens by the provider's count."""
        return self.uncached + self.cached + self.written

    @property
    def dollars_net(self) -> float:
        """Dollars saved, less what it took."""
        return self.dollars_saved - self.dollars_spent

    def parts(self) -> list[tuple[str, Any]]:
        """What is not 0, by name."""
        return [(name, value) for name in NAMES if (value := getattr(self, name))]

    def add(self, parts: Iterable[tuple[str, Any]]) -> None:
        """Add the `parts` of another one to these."""
        for name, value in parts:
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def record(self) -> dict[str, Any]:
        """For JSON: what is not 0."""
        return {
            name: dict(value.most_common(_MOST_NAMES)) if isinstance(value, Counter) else value
            for name, value in self.parts()
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Amounts:
        """What `record` gave, by any release: what is not known is left out."""
        made = cls()
        for name in NAMES:
            value = record.get(name)
            if isinstance(value, Mapping):
                setattr(made, name, Counter(value))
            elif value is not None:
                setattr(made, name, value)
        return made


NAMES = tuple(member.name for member in fields(Amounts))
