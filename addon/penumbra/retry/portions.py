"""Texts for the model's questions about originals: within the limits, and smaller after a refusal.

A client can't help with a hidden request that is refused as too large, since it does not know of it. So the
same question is answered again with a smaller part, and finally with a sentence alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penumbra.apis.usage import held
from penumbra.compress import token_estimate as tokens
from penumbra.compress.size import size
from penumbra.conversation.context_windows import NOT_KNOWN, Room
from penumbra.expand.expansions import Expansions
from penumbra.expand.hidden_exchanges import Answered, Find, Prepared
from penumbra.expand.loop import Ask, ToolLoop
from penumbra.expand.query import LEAST_BYTES
from penumbra.retry.refusals import Kind, Refusal, learned_from, room_after
from penumbra.store.conversations import LearnedLimits

TRIES = 3
"""Tries with less content; the last one gives only a sentence."""
_OVER_BYTES_PER_TOKEN = 4
"""Bytes of text for each token that must go."""


@dataclass
class Portions:
    """The size of the answers that the model may get within one response."""

    room: Room = NOT_KNOWN
    ask: Ask | None = None
    """The last question."""
    provided: frozenset[str] = frozenset()
    """Content given before it."""
    limits: LearnedLimits = field(default_factory=LearnedLimits)
    """Limits to be learned if the provider takes the next request."""
    _tries: int = 0
    _given: int = 0
    """Bytes of the last texts."""
    _most: int | None = None
    """Bytes of all further texts, after a refusal."""
    _named: bool = False
    """A refusal has named the limit."""

    def limit(
        self, ask: Ask, provided: set[str], usage: Mapping[str, int], body: bytes, *, elsewhere: bool
    ) -> int | None:
        """Bytes that the texts for a question may have together; None: any number. See Room.left."""
        self.ask, self.provided, self._tries = ask, frozenset(provided), 0
        left = self.room.left(usage, body, elsewhere=elsewhere)
        if left is not None and self._named and held(usage):
            return left
        return min((limit for limit in (left, self._most) if limit is not None), default=None)

    def gave(self, texts: list[str]) -> None:
        self._given = sum(map(size, texts))
        if self._most is not None:
            self._most = max(0, self._most - self._given)

    def less(self, refusal: Refusal, body: bytes, *, elsewhere: bool) -> int | None:
        """Portions for the same question after a refusal; None: nothing would help."""
        if not self.room.again or self.ask is None or self._tries >= TRIES or refusal.kind is Kind.BINDING:
            return None
        self._tries += 1
        limit = 0
        if self._tries < TRIES:
            share = 2 ** (2 * self._tries - 1)
            limit = min(self._given // share, (self._given - _over(refusal, body)) // 2)
        estimated = 0 if elsewhere else tokens.estimate(body.decode("utf-8", "replace"))
        left = room_after(self.room, refusal)
        self._named |= left.tokens != self.room.tokens
        self.room = left
        self.limits = self.limits.learned(learned_from(refusal, estimated))
        if limit < LEAST_BYTES:
            limit, self._tries = 0, TRIES
        self._most = limit
        return limit


def _over(refusal: Refusal, body: bytes) -> int:
    """Bytes by which a refused body must shrink, as far as known."""
    if refusal.kind is Kind.BYTES:
        return len(body) - refusal.limit if refusal.limit else 0
    if refusal.kind is Kind.FIELD:
        return 0
    return (refusal.over or 0) * _OVER_BYTES_PER_TOKEN


class Asked(Protocol):
    """One response in which the model asks for originals."""

    prepared: Prepared
    provided: set[str]
    answered: list[Answered]
    portions: Portions

    @property
    def expansions(self) -> Expansions: ...

    @property
    def find(self) -> Find: ...


async def texts(asked: Asked, exchange: ToolLoop, ask: Ask) -> list[str]:
    """The texts for a question, which shows that the request before was taken."""
    await learned(asked.portions)
    usage, elsewhere = exchange.turns[-1].usage, asked.prepared.threaded
    limit = asked.portions.limit(ask, asked.provided, usage, exchange.request, elsewhere=elsewhere)
    return await _give(asked, ask, limit)


async def smaller(asked: Asked, exchange: ToolLoop, refusal: Refusal) -> bytes | None:
    """The refused request with smaller texts; None: nothing would help."""
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
    """Limits to remember, once a smaller request was taken."""
    limits, learn = portions.limits, portions.room.learn
    if limits != LearnedLimits() and learn is not None:
        portions.limits = LearnedLimits()
        await learn(limits)
