"""Token figures of responses: where each API writes them, and what they are of several turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from msgspec import Raw

from penumbra.wire.document import Document

_MOST, _LONGEST, _LEVELS = 100, 100, 4
"""Figures, characters of a name, and objects in one another: far more than any provider tells."""

Metrics = dict[str, dict[str, int]]
"""Figures by the object that holds them, there flat; nested ones as `outer.inner`."""


@dataclass(frozen=True, slots=True)
class UsageTable:
    """Where an API writes its figures, and what they count.

    The client sees the output of all turns, and the input of the last one.
    """

    inputs: tuple[str, ...]
    """Members that count input tokens, or hold such counts by kind."""
    outputs: tuple[str, ...]
    """What is summed over turns: beginnings of flat names."""
    holders: tuple[str, ...] = ("usage",)
    """The members that hold figures; an empty one stands for the object itself."""
    within: tuple[str, ...] = ("",)
    """Members that such objects may stand in, beside the top."""
    total: str = ""
    in_total: tuple[str, ...] = ()
    """The inputs that the total contains."""
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other members with figures to be summed, by name: times, and figures of somebody between."""
    names: tuple[str, ...] = ()
    """The figures, where they stand among other things; otherwise all are."""
    repeated: tuple[str, ...] = ()
    """Figures of the input that the client has got of the first turn: the end says those of the last."""

    def read(self, document: Document, owner: Raw | None) -> Metrics:
        """The figures that an object has, or its members."""
        members = document.members(owner)
        counts = {name: document.plain(members.get(name) if name else owner) for name in self._all()}
        metrics = {name: flat(value) for name, value in counts.items() if isinstance(value, dict)}
        return {name: only(each, self.names or ("",)) for name, each in metrics.items()}

    def of_turn(self, metrics: Metrics) -> dict[str, int]:
        """The provider's own figures of a turn, flat."""
        return {name: number for holder in self.holders for name, number in metrics.get(holder, {}).items()}

    def summed(self, metrics: Metrics) -> Metrics:
        """Those of a turn that the client sees the sum of."""
        names = dict.fromkeys(self.holders, self.outputs) | dict(self.beside)
        return {holder: only(each, names[holder]) for holder, each in metrics.items()}

    def add(self, document: Document, owner: Raw | None, hidden: Metrics, last: Metrics) -> None:
        """Edit an object with figures: those of hidden turns are added to the numbers that it has.

        `last`: those of the turn that it ends.
        """
        members = document.members(owner)
        for name, extra in hidden.items():
            if not name:
                _add_each(document, members, extra)
                continue
            usage, metrics = document.plain(members.get(name)), last.get(name, {})
            if isinstance(usage, dict):
                grown = self.grown(usage, extra) | {n: metrics[n] for n in self.repeated if n in metrics}
                if grown != usage:
                    document.replace(members[name], grown)

    def grown(self, usage: Mapping[str, Any], extra: Mapping[str, int]) -> dict[str, Any]:
        """A usage object with the figures of hidden turns."""
        grown = added(usage, extra)
        if isinstance(total := usage.get(self.total), int):
            grown[self.total] = total + sum(extra.get(name, 0) for name in self.outputs if name in usage)
        return grown

    def _all(self) -> tuple[str, ...]:
        return (*self.holders, *self.beside)


def _add_each(document: Document, members: Mapping[str, Raw], extra: Mapping[str, int]) -> None:
    """The same where figures stand among other members."""
    for name in extra.keys() & members.keys():
        number = document.plain(members[name])
        if extra[name] and isinstance(number, int):
            document.replace(members[name], number + extra[name])


def flat(usage: Any, levels: int = _LEVELS) -> dict[str, int]:
    """The whole numbers of a provider's usage object; nested ones as `outer.inner`."""
    found: dict[str, int] = {}
    for key, value in islice(usage.items(), _MOST) if isinstance(usage, dict) and levels else ():
        if len(key) > _LONGEST or not key.isprintable():
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            found[key] = value
        elif isinstance(value, dict):
            found |= {f"{key}.{inner}": number for inner, number in flat(value, levels - 1).items()}
    return dict(islice(found.items(), _MOST))


_HELD = frozenset(
    (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
        "prompt_tokens",
        "completion_tokens",
        "promptTokenCount",
        "toolUsePromptTokenCount",
        "candidatesTokenCount",
        "thoughtsTokenCount",
        "prompt_eval_count",
        "eval_count",
        "inputTokens",
        "cacheReadInputTokens",
        "cacheWriteInputTokens",
        "outputTokens",
    )
)
"""Figures of every API that count each token of a turn once: what went in, and what came out."""


def held(metrics: Mapping[str, int]) -> int:
    """Tokens that a context holds once a turn with these figures (flat) stands in it; 0: not known."""
    return sum(number for name, number in metrics.items() if name in _HELD)


def only(metrics: Mapping[str, int], prefixes: tuple[str, ...]) -> dict[str, int]:
    """The figures whose names begin with one of the prefixes."""
    return {name: number for name, number in metrics.items() if name.startswith(prefixes)}


def plus(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Sums by name."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def together(first: Metrics, second: Metrics) -> Metrics:
    """Sums by holder and name."""
    return {holder: plus(first.get(holder, {}), second.get(holder, {})) for holder in {**first, **second}}


def added(
    usage: Mapping[str, Any], extra: Mapping[str, int], outer: str = "", levels: int = _LEVELS
) -> dict[str, Any]:
    """A usage object with `extra` (flat names) added to the numbers that it has; no new ones appear."""
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
