"""This module limits the texts that answer the model's questions about originals. A client does not know
about a hidden request, and can't help if the provider refuses the request as too large. Penumbra therefore
answers the question again with a smaller part, and at last with only a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penumbra.apis.usage import context_tokens
from penumbra.compress import token_estimate as tokens
from penumbra.compress.size import size
from penumbra.conversation.context_windows import NOT_KNOWN, Bounds
from penumbra.expand.loop import Ask
from penumbra.expand.query import LEAST_BYTES
from penumbra.retry.refusals import Cause, Refusal, bounds_after, learned_from
from penumbra.store.conversations import LearnedLimits

TRIES = 3
"""A question is answered again at most this number of times. The last answer is only a sentence."""
_OVER_BYTES_PER_TOKEN = 4
"""For each token above the limit, this number of bytes of text is removed."""


@dataclass
class Portions:
    """A `Portions` bounds the texts that the model gets within one response."""

    bounds: Bounds = NOT_KNOWN
    ask: Ask | None = None
    """The last question."""
    provided: frozenset[str] = frozenset()
    """Queries that were answered before the last question."""
    limits: LearnedLimits = field(default_factory=LearnedLimits)
    """Limits that are remembered when the provider accepts the next request."""
    _tries: int = 0
    """The number of times that the last question was answered again."""
    _sent: int = 0
    """The number of bytes of the last texts."""
    _most: int | None = None
    """The limit in bytes for all later texts together; None if no request was refused."""
    _named: bool = False
    """True if a refusal has named the limit."""

    def limit(
        self, ask: Ask, provided: set[str], usage: Mapping[str, int], body: bytes, *, elsewhere: bool
    ) -> int | None:
        """Return the limit in bytes for the answer to a question, all its texts together; None if there is no
        limit. The arguments after `provided` are those of `Bounds.left`."""
        self.ask, self.provided, self._tries = ask, frozenset(provided), 0
        left = self.bounds.left(usage, body, elsewhere=elsewhere)
        if left is not None and self._named and context_tokens(usage):
            return left
        return min((limit for limit in (left, self._most) if limit is not None), default=None)

    def gave(self, texts: list[str]) -> None:
        """Count the texts that answer the last question."""
        self._sent = sum(map(size, texts))
        if self._most is not None:
            self._most = max(0, self._most - self._sent)

    def less(self, refusal: Refusal, body: bytes, *, elsewhere: bool) -> int | None:
        """Return the limit in bytes for another answer to the last question, since `body` was refused; None
        if no answer would help."""
        if not self.bounds.again or self.ask is None or self._tries >= TRIES or refusal.kind is Cause.BINDING:
            return None
        self._tries += 1
        limit = 0
        if self._tries < TRIES:
            share = 2 ** (2 * self._tries - 1)
            limit = min(self._sent // share, (self._sent - _over(refusal, body)) // 2)
        estimated = 0 if elsewhere else tokens.estimate(body.decode("utf-8", "replace"))
        left = bounds_after(self.bounds, refusal)
        self._named |= left.tokens != self.bounds.tokens
        self.bounds = left
        self.limits = self.limits.learned(learned_from(refusal, estimated))
        if limit < LEAST_BYTES:
            limit, self._tries = 0, TRIES
        self._most = limit
        return limit

    async def learn(self) -> None:
        """Remember the limits of the last refusals, since a smaller request was accepted."""
        limits, self.limits = self.limits, LearnedLimits()
        if limits != LearnedLimits() and self.bounds.learn is not None:
            await self.bounds.learn(limits)


def _over(refusal: Refusal, body: bytes) -> int:
    """Return the number of bytes by which a refused body must shrink; 0 if unknown."""
    if refusal.kind is Cause.BYTES:
        return len(body) - refusal.limit if refusal.limit else 0
    if refusal.kind is Cause.FIELD:
        return 0
    return (refusal.over or 0) * _OVER_BYTES_PER_TOKEN
