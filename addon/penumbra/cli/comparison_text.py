"""Conversations that were shortened beside those that were not, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penumbra.cli.counts import counted
from penumbra.metrics.comparison import Compared


def lines(compared: Compared) -> Iterator[str]:
    """What `comparison.compare` gave."""
    arms, halves, least = compared["arms"], compared["halves"], compared["least"]
    counts = zip(arms["conversations"], arms["names"], strict=True)
    yield "compared    " + ", ".join(f"{counted(count, 'conversation')} {name}" for count, name in counts)
    if not arms["measures"]:
        yield f"            too few for a number: {least} of each are needed"
        return
    yield from _table(arms)
    if halves["measures"]:
        yield "the same between two halves of those held out, where all that differs is chance"
        yield from _table(halves)
    else:
        yield f"too few held out to show what chance does: {least} of each half are needed"
    yield compared["method"]


def _table(sides: Compared) -> Iterator[str]:
    first, second = sides["names"]
    yield f"{'means':<26}{first:>19}{second:>19}{'change':>10}   95 % interval        medians"
    for each in sides["measures"]:
        if each["means"] is None:
            yield f"{each['name']:<26}{'not known of enough conversations':>38}"
            continue
        one, other = map(_number, each["means"])
        medians = ", ".join(map(_number, each["medians"]))
        change = "unknown" if each["change"] is None else f"{each['change']:+.1%}"
        yield f"{each['name']:<26}{one:>19}{other:>19}{change:>10}   {_range(each['interval']):<21}{medians}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _range(interval: Sequence[float] | None) -> str:
    return "unknown" if interval is None else f"{interval[0]:+.1%} to {interval[1]:+.1%}"
