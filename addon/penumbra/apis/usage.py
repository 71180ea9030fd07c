"""This module reads the token counts of responses. A `UsageTable` names the places of the counts in an API,
and adds the counts of several turns.

`BilledTokens` has the billed tokens of a turn. `Ending` has the model of a turn and the reason why the model
stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw, Struct

from penumbra.wire.document import Document

_MOST, _LONGEST, _LEVELS = 100, 100, 4
"""The greatest number of counts, length of a name, and number of levels."""
Metrics = dict[str, dict[str, int]]
"""For each object with counts, its numbers by name. The name of a nested number is `outer.inner`."""


class UsageTable(Struct, frozen=True):
    """A `UsageTable` says where the token counts of an API are, and what they count. The client sees the
    output tokens of all turns, and the input tokens of the last turn."""

    inputs: tuple[str, ...]
    """The counts of input tokens, and the objects that divide them by kind."""
    outputs: tuple[str, ...]
    """Counts whose names, such as `outer.inner`, begin with one of these texts are summed over turns."""
    holders: tuple[str, ...] = ("usage",)
    """The members that contain counts. An empty name means the object itself."""
    within: tuple[str, ...] = ("",)
    """The members of an event that contain an object with counts. An empty name means the event itself."""
    total: str = ""
    in_total: tuple[str, ...] = ()
    """The input counts that the total includes."""
    beside: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Other numbers, such as times, that are summed over turns. The member that contains such numbers is
    mapped to the beginnings of their names."""
    names: tuple[str, ...] = ()
    """If other members are beside the counts, the names of the counts; otherwise empty."""
    repeated: tuple[str, ...] = ()
    """A stream states these input counts twice: when the first turn begins and when the last turn ends."""

    def read(self, document: Document, owner: Raw | None) -> Metrics:
        """Return the counts of an object and its members."""
        members = document.members(owner)
        counts = {
            name: document.plain(members.get(name) if name else owner)
            for name in (*self.holders, *self.beside)
        }
        metrics = {name: flat(value) for name, value in counts.items() if isinstance(value, dict)}
        return {name: only(each, self.names or ("",)) for name, each in metrics.items()}

    def of_turn(self, metrics: Metrics) -> dict[str, int]:
        """Return the provider's own counts of a turn."""
        return {name: number for holder in self.holders for name, number in metrics.get(holder, {}).items()}

    def summed(self, metrics: Metrics) -> Metrics:
        """Return those counts of a turn that the client sees as sums over all turns."""
        names = dict.fromkeys(self.holders, self.outputs) | dict(self.beside)
        return {holder: only(each, names[holder]) for holder, each in metrics.items()}

    def add(self, document: Document, owner: Raw | None, hidden: Metrics, last: Metrics) -> None:
        """Add the counts of hidden turns to an object with counts. `last` has the counts of the last turn."""
        members = document.members(owner)
        for name, extra in hidden.items():
            if not name:
                for key in extra.keys() & members.keys():
                    number = document.plain(members[key])
                    if extra[key] and isinstance(number, int):
                        document.replace(members[key], number + extra[key])
                continue
            usage, metrics = document.plain(members.get(name)), last.get(name, {})
            if isinstance(usage, dict):
                grown = self.grown(usage, extra) | {n: metrics[n] for n in self.repeated if n in metrics}
                if grown != usage:
                    document.replace(members[name], grown)

    def grown(self, usage: Mapping[str, Any], extra: Mapping[str, int]) -> dict[str, Any]:
        """Return a usage object with the counts of hidden turns added."""
        grown = added(usage, extra)
        if isinstance(total := usage.get(self.total), int):
            grown[self.total] = total + sum(extra.get(name, 0) for name in self.outputs if name in usage)
        return grown


def flat(usage: Any, levels: int = _LEVELS) -> dict[str, int]:
    """Return up to 100 whole numbers of a usage object. The name of a nested number is `outer.inner`."""
    found: dict[str, int] = {}
    for key, value in islice(usage.items(), _MOST) if isinstance(usage, dict) and levels else ():
        if len(key) > _LONGEST or not key.isprintable():
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            found[key] = value
        elif isinstance(value, dict):
            found |= {f"{key}.{inner}": number for inner, number in flat(value, levels - 1).items()}
    return dict(islice(found.items(), _MOST))


def only(metrics: Mapping[str, int], prefixes: tuple[str, ...]) -> dict[str, int]:
    return {name: number for name, number in metrics.items() if name.startswith(prefixes)}


def plus(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def together(first: Metrics, second: Metrics) -> Metrics:
    return {holder: plus(first.get(holder, {}), second.get(holder, {})) for holder in {**first, **second}}


def added(
    usage: Mapping[str, Any], extra: Mapping[str, int], outer: str = "", levels: int = _LEVELS
) -> dict[str, Any]:
    """Return a usage object with `extra` added to its numbers. Names that are only in `extra` are ignored."""
    result: dict[str, Any] = {}
    for key, value in usage.items():
        name = outer + key
        if isinstance(value, dict) and levels:
            result[key] = added(value, extra, f"{name}.", levels - 1)
        elif isinstance(value, int) and not isinstance(value, bool):
            result[key] = value + extra.get(name, 0)
        else:
            result[key] = value
    return result


_WITH_CACHED = ("prompt_tokens", "promptTokenCount")
"""The names of input counts that include tokens from the cache."""
_CACHED_WITHIN = (
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "prompt_cache_hit_tokens",
    "cachedContentTokenCount",
)
_INPUTS = (*_WITH_CACHED, "input_tokens", "toolUsePromptTokenCount", "prompt_eval_count", "inputTokens")
_CACHED_BESIDE = ("cache_read_input_tokens", "cacheReadInputTokens")
_WRITTEN = ("cache_creation_input_tokens", "cacheWriteInputTokens")
_OUTPUTS = (
    *("output_tokens", "completion_tokens", "candidatesTokenCount", "thoughtsTokenCount"),
    *("eval_count", "outputTokens"),
)
_IN_CONTEXT = frozenset((*_INPUTS, *_CACHED_BESIDE, *_WRITTEN, *_OUTPUTS))
"""The names of counts in all APIs that, in one turn, together count each token once."""


def context_tokens(metrics: Mapping[str, int]) -> int:
    """Return the number of tokens in the context after a turn with these counts; 0 if unknown."""
    return sum(number for name, number in metrics.items() if name in _IN_CONTEXT)


class BilledTokens(Struct, frozen=True):
    """A `BilledTokens` has the numbers of tokens of one turn. No token is counted in two fields."""

    uncached: int = 0
    cached: int = 0
    """Tokens that were read from the provider's cache."""
    written: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        return self.uncached + self.cached + self.written

    @classmethod
    def of(cls, usage: Mapping[str, int]) -> BilledTokens | None:
        """Return the billed tokens of a turn with these counts; None if the counts have no input."""
        if usage.keys().isdisjoint(_INPUTS):
            return None
        tables = (_INPUTS, _CACHED_WITHIN, _CACHED_BESIDE, _WRITTEN, _OUTPUTS)
        put, within, beside, written, got = ([usage.get(name, 0) for name in names] for names in tables)
        cached = max(within)
        return cls(max(0, sum(put) - cached), cached or max(beside), max(written), sum(got))


_MOST_REASONS = 16
"""The greatest number of reasons that are stored for one response."""


class Ending(Struct, frozen=True):
    """The model and the stop reasons of one turn; unknown fields are empty."""

    model: str = ""
    reasons: tuple[str, ...] = ()
    """The provider's names of the reasons, one for each choice."""


NOT_READ = Ending()


class EndingTable(Struct, frozen=True):
    """The places where an API states the model and the stop reasons. Paths begin at the object with the
    counts."""

    reasons: tuple[tuple[str, ...], ...]
    """Paths to a stop reason. The first path that exists counts."""
    model: str = "model"
    choices: str = ""
    """The name of the list of choices, each with a reason; empty if the API has no choices."""


class EndingReader:
    """An `EndingReader` reads the model and the stop reasons from the events of one turn."""

    def __init__(self, table: EndingTable) -> None:
        self._table = table
        self._model = ""
        self._reasons: dict[int, str] = {}

    def note(self, document: Document, owner: Raw | None) -> None:
        """Read an object. A later reason of a choice replaces an earlier reason."""
        members = document.members(owner)
        self._model = document.string(members.get(self._table.model)) or self._model
        for number, holder in self._holders(document, owner, members):
            for path in self._table.reasons:
                if reason := document.string(_at(document, holder, path)):
                    if number in self._reasons or len(self._reasons) < _MOST_REASONS:
                        self._reasons[number] = reason
                    break

    def ending(self) -> Ending:
        """Return the ending that was read so far."""
        return Ending(self._model, tuple(reason for _, reason in sorted(self._reasons.items())))

    def _holders(
        self, document: Document, owner: Raw | None, members: dict[str, Raw]
    ) -> Iterator[tuple[int, Raw | None]]:
        if not self._table.choices:
            yield 0, owner
            return
        for place, choice in enumerate(document.items(members.get(self._table.choices))):
            index = document.plain(document.members(choice).get("index"))
            yield index if isinstance(index, int) else place, choice


def _at(document: Document, owner: Raw | None, path: tuple[str, ...]) -> Raw | None:
    for name in path:
        owner = document.members(owner).get(name)
    return owner
