"""What the model gets when it asks for originals: no more than fits, and less if that was refused.

A hidden request that is refused as too large can't be helped by the client, which does not know of it. So
the same question is answered again with a smaller part, and last with a sentence alone.
"""

from __future__ import annotations

from typing import Protocol

from penumbra.expand.expansions import Answered, Expansions, Find, Prepared
from penumbra.expand.loop import Ask, ToolLoop
from penumbra.expand.room import Portions
from penumbra.retry.refusals import Refusal
from penumbra.store.conversations import LearnedLimits


class Asked(Protocol):
    """One response in which the model asks."""

    prepared: Prepared
    provided: set[str]
    answered: list[Answered]
    portions: Portions

    @property
    def expansions(self) -> Expansions:
        """Who looks originals up."""
        ...

    @property
    def find(self) -> Find:
        """Finds an original."""
        ...


async def texts(asked: Asked, exchange: ToolLoop, ask: Ask) -> list[str]:
    """The texts for a question. That it was asked shows that the request before was taken."""
    await learned(asked.portions)
    usage, elsewhere = exchange.turns[-1].usage, asked.prepared.threaded
    limit = asked.portions.limit(ask, asked.provided, usage, exchange.request, elsewhere=elsewhere)
    return await _give(asked, ask, limit)


async def smaller(asked: Asked, exchange: ToolLoop, refusal: Refusal) -> bytes | None:
    """The same request with less of what was asked for, since it was refused as too large; None: nothing
    would help."""
    portions = asked.portions
    limit = portions.less(refusal, exchange.request, elsewhere=asked.prepared.threaded)
    if limit is None or portions.ask is None:
        return None
    asked.provided.clear()
    asked.provided |= portions.provided
    del asked.answered[len(asked.answered) - len(portions.ask.calls) :]
    step = exchange.reanswered(await _give(asked, portions.ask, limit))
    return step.request if step is not None else None


async def _give(asked: Asked, ask: Ask, limit: int | None) -> list[str]:
    given, answered = await asked.expansions.texts(asked.prepared, asked.find, ask, asked.provided, limit)
    asked.answered += answered
    asked.portions.gave(given)
    return given


async def learned(portions: Portions) -> None:
    """What refusals have taught is remembered once a smaller request was taken."""
    lesson, learn = portions.lesson, portions.room.learn
    if lesson != LearnedLimits() and learn is not None:
        portions.lesson = LearnedLimits()
        await learn(lesson)
