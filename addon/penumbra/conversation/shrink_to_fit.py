"""What to shorten, and how far, so that a request that was refused fits.

Each step allows less than the one before it: old results keep their head, tail and critical lines, then
less of them; the unread tail comes last and keeps the most. The ladder stops as soon as enough is saved. What
a later result has made useless makes room first, then the fattest results that the model has answered, those
that later results refer to behind the others. Ties: the older one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from penumbra.compress import token_estimate as tokens
from penumbra.compress.size import size
from penumbra.conversation import shrink_result

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


@dataclass(frozen=True, slots=True)
class Need:
    """How much smaller a request has to be. Nothing at all where everything is zero."""

    tokens: int = 0
    """Estimated tokens to save."""
    bytes: int = 0
    """UTF-8 bytes to save."""
    most: int = 0
    """Characters that any result may have."""


@dataclass(frozen=True, slots=True)
class Text:
    """One result text of the request."""

    part: Part
    original: str
    """All of it, without secrets."""
    forwarded: str
    """What was sent."""
    prefix: str = ""
    """What stands in front of it if something is left out."""


@dataclass(frozen=True, slots=True)
class _Step:
    unread: bool
    limit: int
    """Bytes of a text."""
    only_superseded: bool = False


_STEPS = (
    _Step(False, 400, only_superseded=True),
    _Step(False, 4_000),
    _Step(False, 1_000),
    _Step(True, 16_000),
    _Step(False, 400),
    _Step(True, 4_000),
    _Step(True, 1_500),
)


def plan(texts: Sequence[Text], needed: Need) -> dict[int, str]:
    """New forms by the texts' index, each smaller than what was sent; prefix included."""
    if needed.most:
        return _capped(texts, needed.most)
    measure: Callable[[str], int] = size if needed.bytes else tokens.estimate
    missing = needed.bytes or needed.tokens
    reasons: dict[int, str] = {}
    for step in _STEPS:
        for text in _ranked(texts, step):
            if missing <= 0:
                return reasons
            current = reasons.get(text.part.index, text.forwarded)
            form = shortened(text, step.limit)
            if form is not None and size(form) < size(current) and measure(form) < measure(current):
                missing -= measure(current) - measure(form)
                reasons[text.part.index] = form
    return reasons


def shortened(text: Text, limit: int) -> str | None:
    """The text in at most `limit` bytes, its prefix included; None if there is no smaller form."""
    form = shrink_result.shorten(text.original, limit - size(text.prefix))
    return None if form is None else text.prefix + form


def _ranked(texts: Sequence[Text], step: _Step) -> list[Text]:
    by_index = {text.part.index: text for text in texts}
    parts = [
        text.part
        for text in texts
        if text.part.unread == step.unread and (text.part.superseded or not step.only_superseded)
    ]
    return [by_index[part.index] for part in order(parts)]


def _capped(texts: Sequence[Text], most: int) -> dict[int, str]:
    """Every text that has more than `most` characters, in at most so many bytes."""
    reasons: dict[int, str] = {}
    for text in texts:
        if len(text.forwarded) > most:
            form = shortened(text, most)
            if form is not None and size(form) < size(text.forwarded):
                reasons[text.part.index] = form
    return reasons
