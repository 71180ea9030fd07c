"""This module has the prices of models, and the sums that are shown and stored, for example for each day or
agent. Sums contain counts, never content. `rules/dollars.yaml` copies the prices from the providers'
lists."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from penumbra import rules
from penumbra.errors import one_line

T = TypeVar("T")
_MOST_NAMES = 60
"""The greatest number of names (of rules, statuses or errors) that are stored for one counter."""


@dataclass
class Amounts:
    """An `Amounts` adds up requests. Tokens of results are estimates; billed tokens are the provider's count.
    Fields that begin with `sent` count a result in every request that contains the result. Fields that begin
    with `new` count each result once.
    """

    requests: int = 0
    changed: int = 0
    turns: int = 0
    """Requests for a message that the provider accepted, without requests to count tokens."""
    refused: int = 0
    """Requests and frames that Penumbra refused to send."""
    responses: int = 0
    """Responses with the provider's count of tokens."""
    seconds: float = 0.0
    """The seconds by which Penumbra delayed requests."""
    new_results: int = 0
    new_before: int = 0
    new_after: int = 0
    sent_before: int = 0
    sent_after: int = 0
    # Costs in tokens that the figures above do not include.
    declared: int = 0
    """Tokens of the injected tool's declaration, in every request that declares the tool."""
    put_back: int = 0
    """Tokens of hidden exchanges, in every request into which they were put back."""
    asked: int = 0
    found: int = 0
    hidden_calls: int = 0
    hidden_tokens: int = 0
    """Input tokens of the requests that Penumbra sends after a call of the tool."""
    read_again: int = 0
    """Results of calls that repeat an earlier call whose result had been shortened."""
    read_again_tokens: int = 0
    # Tokens by the provider's count.
    uncached: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    missed: int = 0
    """Input tokens that should have come from the cache but did not."""
    compared: int = 0
    broken: int = 0
    """Compared prompts whose earlier part Penumbra changed by mistake."""
    dollars: float = 0.0
    """Dollars for billed tokens at list prices. Tokens without a known price add nothing."""
    dollars_saved: float = 0.0
    """Dollars saved by smaller results, in requests that the provider accepted."""
    dollars_spent: float = 0.0
    """Dollars for `declared`, `put_back`, `hidden_tokens` and `read_again_tokens`, and for the output of all
    turns of a response except the last turn."""
    dollars_missed: float = 0.0
    expired: int = 0
    """Input tokens, included in `missed`, of requests after a pause that was longer than the cache's life."""
    dollars_expired: float = 0.0
    """Dollars for `expired`, which `dollars_missed` includes."""
    unpriced: int = 0
    """Accepted requests for models without a known price, which add no dollars."""
    misses: Counter[str] = field(default_factory=Counter)
    pauses: Counter[str] = field(default_factory=Counter)
    """Requests whose cache had expired, by the length of the pause."""
    cold_turns: Counter[str] = field(default_factory=Counter)
    """Requests that changed earlier results because the cache seemed to have expired, by the cache's real
    state."""
    secrets: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """Errors by the provider's status, or by kind."""

    @property
    def saved(self) -> int:
        """Return the tokens by which results became smaller, in all requests that contain the results."""
        return self.sent_before - self.sent_after

    @property
    def overhead(self) -> int:
        """Return the tokens that would not have been sent without Penumbra."""
        return self.declared + self.put_back + self.hidden_tokens + self.read_again_tokens

    @property
    def net(self) -> int:
        """Return the tokens saved minus the overhead, which may be negative."""
        return self.saved - self.overhead

    @property
    def input(self) -> int:
        """Return the input tokens by the provider's count."""
        return self.uncached + self.cached + self.written

    @property
    def dollars_net(self) -> float:
        return self.dollars_saved - self.dollars_spent

    def parts(self) -> list[tuple[str, Any]]:
        """Return the sums that are not 0, by name."""
        return [(name, value) for name, value in vars(self).items() if value]

    def add(self, parts: Iterable[tuple[str, Any]]) -> None:
        sums = vars(self)
        for name, value in parts:
            sums[name] += value

    def record(self) -> dict[str, Any]:
        """Return the sums that are not 0, for JSON."""
        return {
            name: dict(value.most_common(_MOST_NAMES)) if isinstance(value, Counter) else value
            for name, value in self.parts()
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Amounts:
        """Return the sums in a stored record of any release. Unknown names are ignored."""
        made = cls()
        for name in NAMES:
            value = record.get(name)
            if isinstance(value, Mapping):
                setattr(made, name, Counter(value))
            elif value is not None:
                setattr(made, name, value)
        return made


NAMES = tuple(member.name for member in fields(Amounts))


@dataclass(slots=True)
class ExternalMetrics:
    """An `ExternalMetrics` adds up the use of external compressors since the start."""

    hits: int = 0
    """Texts whose response was already stored, so that nothing was sent."""
    misses: int = 0
    """Texts that were sent to a compressor."""
    shared: int = 0
    """Texts that another request was already having compressed, so that no second call was made."""
    failures: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    """Calls, whether they succeeded or failed."""
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0


_MOST_GROUPS, _LONGEST = 200, 60
OTHERS = "(others)"


@dataclass(slots=True)
class ResultSums:
    """A `ResultSums` adds up the new results of one tool or command family. Tokens are estimates."""

    results: int = 0
    changed: int = 0
    before: int = 0
    after: int = 0
    asked: int = 0
    missing: int = 0
    """Originals that the model asked for but that were no longer stored."""
    read_again: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    """Results that were sent unchanged, by reason."""

    def record(self) -> dict[str, Any]:
        # `asdict` would make a new counter from the pairs of each counter, and so count the pairs.
        return {name: getattr(self, name) for name in self.__slots__}


class Groups(Generic[T]):
    """A `Groups` maps names to sums. Clients choose the names, so their number is limited. Further names
    share the sums of `OTHERS`."""

    def __init__(self, make: Callable[[], T], size: Callable[[T], int]) -> None:
        self._sums = defaultdict[str, T](make)
        self._size = size

    def of(self, name: str) -> T:
        name = label(name)
        if name not in self._sums and len(self._sums) >= _MOST_GROUPS:
            name = OTHERS
        return self._sums[name]

    def items(self) -> list[tuple[str, T]]:
        """Return names and sums, the largest first."""
        return sorted(self._sums.items(), key=lambda each: -self._size(each[1]))


def label(name: str) -> str:
    """Return a name from outside in a form that is safe to show."""
    return one_line(name[:_LONGEST]) or "(unknown)"


_MILLION = 1_000_000


class Rates(Struct, frozen=True):
    """A `Rates` has the dollars for one token of each kind; 0 if unknown."""

    input: float = 0.0
    output: float = 0.0
    cached: float = 0.0
    written: float = 0.0
    long: Rates | None = None
    """Rates of requests whose prompt has more than `above` tokens; None if all prompts have the same
    rates."""
    above: int = 0

    def at(self, prompt: int) -> Rates:
        """Return the rates of a request whose prompt has `prompt` tokens."""
        return self.long if self.long is not None and prompt > self.above else self

    def with_cache(self, read: float, write: float) -> Rates:
        """Return the rates, completed by the rates of a cache: `read` and `write` times the input rate."""
        long = self.long.with_cache(read, write) if self.long is not None else None
        return structs.replace(self, cached=self.input * read, written=self.input * write, long=long)


table = partial(rules.table, "dollars.yaml")


@lru_cache(256)
def price(model: str) -> Rates | None:
    """Return the list price of a model, without the rates of a cache; None if unknown."""
    entry = next((each for each in table()["models"] if fnmatchcase(model.lower(), each["glob"])), None)
    if entry is None:
        return None
    longer = entry.get("long")
    if longer is None:
        return _listed(entry)
    return structs.replace(_listed(entry), long=_listed(longer), above=longer["above"])


def _listed(prices: Mapping[str, float]) -> Rates:
    return Rates(prices["input"] / _MILLION, prices["output"] / _MILLION)


def as_of() -> str:
    """Return a text with the first and the last date on which list prices were read."""
    dates = sorted(str(each["date"]) for each in table()["sources"].values())
    return f"list prices of {dates[0]} to {dates[-1]}"
