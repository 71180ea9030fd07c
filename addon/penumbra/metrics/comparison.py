"""Conversations that were shortened beside those that went as they came: means, medians, how sure they are.

The interval is Welch's on the logarithm of the ratio of both means: each side has a spread of its own, and a
ratio can't fall below nothing. Few conversations decide such means, so medians stand beside them, and the
same comparison is made between two halves of those that went as they came: what differs there is chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from statistics import NormalDist, fmean, median, variance
from typing import Any

from penumbra.metrics.amounts import Amounts
from penumbra.store.records import HELD_OUT, SHORTENED

LEAST = 20
"""Conversations of a side; with fewer, no number is given."""
METHOD = (
    "means per conversation; the change is the ratio of means, its 95 % interval Welch's on the logarithm of "
    "that ratio (delta method)"
)
_Z = NormalDist().inv_cdf(0.975)
Record = Mapping[str, Any]
Values = tuple[float, ...]
Compared = dict[str, Any]
"""For JSON."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a conversation."""

    name: str
    of: Callable[[Record], float]
    needs: str = ""
    """A sum that is 0 where the figure is not known."""


def _sum(*names: str) -> Callable[[Record], float]:
    return lambda record: sum(float(record.get(name, 0)) for name in names)


MEASURES = (
    Measure("turns", _sum("turns"), "turns"),
    Measure("input tokens", _sum("uncached", "cached", "written"), "responses"),
    Measure("of these, from the cache", _sum("cached"), "responses"),
    Measure("output tokens", _sum("output"), "responses"),
    Measure("dollars", _sum("dollars"), "dollars"),
    Measure("originals asked for", _sum("asked")),
    Measure("files read again", _sum("files_again")),
    Measure("seconds waited", _sum("waited"), "waited"),
)
SUMS = ("requests", "turns", "responses", "uncached", "cached", "written", "output", "dollars", "asked",
        "files_again", "waited", "new_results")  # fmt: skip
"""What is kept of a conversation."""


def counted_sums(amounts: Amounts) -> dict[str, float]:
    """What is kept of a conversation's sums: those that are not 0."""
    return {name: value for name, value in amounts.parts() if name in SUMS}


def compare(conversations: Mapping[bytes, Record]) -> Compared:
    """Both comparisons. Of conversations by hash, those that had a tool result."""
    counted = [each for each in sorted(conversations.items()) if each[1].get("new_results", 0) > 0]
    shortened = [record for _, record in counted if record.get("arm") == SHORTENED]
    held_out = [each for each in counted if each[1].get("arm") == HELD_OUT]
    halves = [[record for name, record in held_out if name[-1] % 2 == half] for half in (0, 1)]
    return {
        "method": METHOD,
        "least": LEAST,
        "arms": _side_by_side((SHORTENED, HELD_OUT), shortened, [record for _, record in held_out]),
        "halves": _side_by_side(("one half held out", "the other half"), *halves),
    }


def _side_by_side(names: tuple[str, str], first: Sequence[Record], second: Sequence[Record]) -> Compared:
    counts = (len(first), len(second))
    measures = [_measured(measure, first, second) for measure in MEASURES] if min(counts) >= LEAST else []
    return {"names": names, "conversations": counts, "measures": measures}


def _measured(measure: Measure, first: Sequence[Record], second: Sequence[Record]) -> Compared:
    sides = [_values(measure, side) for side in (first, second)]
    counts = [len(side) for side in sides]
    if min(counts) < LEAST:
        return {"name": measure.name, "conversations": counts, "means": None, "medians": None,
                "change": None, "interval": None}  # fmt: skip
    means = [fmean(side) for side in sides]
    change = means[0] / means[1] - 1 if means[1] else None
    return {
        "name": measure.name,
        "conversations": counts,
        "means": means,
        "medians": [median(side) for side in sides],
        "change": change,
        "interval": interval(*sides) if change is not None else None,
    }


def _values(measure: Measure, side: Sequence[Record]) -> Values:
    return tuple(measure.of(record) for record in side if not measure.needs or record.get(measure.needs))


def interval(first: Values, second: Values) -> tuple[float, float] | None:
    """By how much the first mean differs from the second, as a part of it: the ends of the interval; None
    where a mean is 0."""
    means = [fmean(side) for side in (first, second)]
    if min(means) <= 0:
        return None
    parts = [
        variance(side, mean) / len(side) / mean**2 for side, mean in zip((first, second), means, strict=True)
    ]
    whole, ratio = sum(parts), means[0] / means[1]
    if not whole:
        return ratio - 1, ratio - 1
    rest = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (first, second), strict=True))
    half = _quantile(whole**2 / rest) * sqrt(whole)
    return ratio * exp(-half) - 1, ratio * exp(half) - 1


def _quantile(freedom: float) -> float:
    """Student's, which 2.5 % lie above, from the normal one by the first terms of its expansion."""
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    return _Z + first / freedom + second / freedom**2
