"""Which results make room first, where a request has to become smaller.

First what a later result has made useless, then the fattest results that the model has answered, those
that later results refer to behind the others, and last the unread tail. Ties: the older one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SLACK = 0.85
"""A request that has to shrink shrinks to this part of its limit: cuts come in batches, not every turn."""


@dataclass(frozen=True, slots=True)
class Part:
    """One result text, as far as its rank goes. Sizes in the unit of the limit."""

    index: int
    """Its place among the request's texts."""
    size: int
    unread: bool = False
    superseded: bool = False
    referred: bool = False
    """A later result says what it says by referring to this one."""


def order(parts: Iterable[Part]) -> list[Part]:
    """The parts, those that make room first in front."""
    return sorted(
        parts,
        key=lambda part: (
            part.unread,
            not part.superseded,
            part.referred and not part.superseded,
            -part.size,
            part.index,
        ),
    )


def excess(sizes: Iterable[int], limit: int) -> int:
    """How much the results have to shrink together; 0 while they are within the limit, or without one."""
    total = sum(sizes)
    return total - int(limit * SLACK) if 0 < limit < total else 0
