"""How much of an original may be put behind a turn: what the context of its conversation still holds.

When the model asks for an original, the size of the context is known: the turn that asked says what it
took. What is left is known from what refusals have taught, or from what the model's clients believe in.
Half of that may be given, since the model has to answer, and other results follow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from penumbra.apis.usage import held
from penumbra.compress import token_estimate as tokens
from penumbra.compress.size import size
from penumbra.conversation import context_windows
from penumbra.expand.loop import Ask
from penumbra.expand.query import LEAST_BYTES
from penumbra.retry.refusals import Kind, Refusal
from penumbra.store.conversations import LearnedLimits, learned_from

TRIES = 3
"""How often a question is answered once more with less, the last time with nothing but a sentence."""
_BYTES_PER_TOKEN = 3
"""Of most texts; of those that have fewer, a half still fits."""
_OVER_BYTES_PER_TOKEN = 4
"""Of most texts that have to shrink by so many tokens."""
_OTHERS_BYTES = 1_000
"""Room for the rest of a message that is put behind a body."""

Learn = Callable[[LearnedLimits], Awaitable[None]]
"""Remembers what a refusal has taught of a conversation."""


@dataclass(frozen=True, slots=True)
class Room:
    """What fits into a request; 0: not known."""

    tokens: int = 0
    """Of a request and its answer, by the provider's own count."""
    body_bytes: int = 0
    """Of the body."""
    again: bool = True
    """A request of ours that was refused as too large may be sent again smaller."""
    learn: Learn | None = None

    def left(self, usage: Mapping[str, int], body: bytes, *, elsewhere: bool) -> int | None:
        """Bytes of text that may be put behind a turn; None: nothing is known that forbids anything.

        `usage`: the turn's; `body`: of its request, whose history may be `elsewhere`.
        """
        bounds = []
        taken = held(usage) or (0 if elsewhere else len(body) // _BYTES_PER_TOKEN)
        # Where more was taken than should fit, the limit is another one.
        if 0 < taken < self.tokens:
            bounds.append((self.tokens - taken) * _BYTES_PER_TOKEN // 2)
        if len(body) < self.body_bytes:
            bounds.append(max(0, self.body_bytes - len(body) - _OTHERS_BYTES) // 2)
        return min(bounds, default=None)

    def is_near(self, body: bytes) -> bool:
        """Whether a request, all of whose history is in its body, is within reach of its limit."""
        limit = self.tokens or context_windows.table()["assumed"]
        return 2 * len(body) > limit * _BYTES_PER_TOKEN or 0 < self.body_bytes < 2 * len(body)

    def after(self, refusal: Refusal) -> Room:
        """What is known once a request has been refused."""
        if not refusal.limit:
            return self
        if refusal.kind is Kind.BYTES:
            return replace(self, body_bytes=refusal.limit)
        return replace(self, tokens=refusal.limit) if refusal.kind in (Kind.INPUT, Kind.RESERVE) else self


NOT_KNOWN = Room()


def of(
    lesson: LearnedLimits, window: context_windows.Window, *, again: bool, learn: Learn | None = None
) -> Room:
    """What is known of a conversation's room before anything is asked for."""
    limits = (lesson.window, window.tokens or window.believed)
    return Room(min((one for one in limits if one), default=0), lesson.bytes, again, learn)


@dataclass
class Portions:
    """How much the model may get of what it asks for within one answer."""

    room: Room = NOT_KNOWN
    ask: Ask | None = None
    """What was asked for last."""
    provided: frozenset[str] = frozenset()
    """What had been given before that."""
    lesson: LearnedLimits = field(default_factory=LearnedLimits)
    """What is learned if the provider takes the next request."""
    _tries: int = 0
    _given: int = 0
    """Bytes of the texts that were given last."""
    _most: int | None = None
    """Bytes that all further texts may have, once something was refused."""
    _named: bool = False
    """A refusal has told the limit."""

    def limit(
        self, ask: Ask, provided: set[str], usage: Mapping[str, int], body: bytes, *, elsewhere: bool
    ) -> int | None:
        """Bytes that the texts for a question may have together; None: any number. See Room.left."""
        self.ask, self.provided, self._tries = ask, frozenset(provided), 0
        left = self.room.left(usage, body, elsewhere=elsewhere)
        if left is not None and self._named and held(usage):
            return left
        return min((one for one in (left, self._most) if one is not None), default=None)

    def gave(self, texts: list[str]) -> None:
        """These texts are sent."""
        self._given = sum(map(size, texts))
        if self._most is not None:
            self._most = max(0, self._most - self._given)

    def less(self, refusal: Refusal, body: bytes, *, elsewhere: bool) -> int | None:
        """The same for the same question, whose answer was refused; None: nothing would help."""
        if not self.room.again or self.ask is None or self._tries >= TRIES or refusal.kind is Kind.BINDING:
            return None
        self._tries += 1
        limit = 0
        if self._tries < TRIES:
            share = 2 ** (2 * self._tries - 1)
            limit = min(self._given // share, (self._given - _over(refusal, body)) // 2)
        estimated = 0 if elsewhere else tokens.estimate(body.decode("utf-8", "replace"))
        known = self.room.after(refusal)
        self._named |= known.tokens != self.room.tokens
        self.room = known
        self.lesson = self.lesson.learned(learned_from(refusal, estimated))
        if limit < LEAST_BYTES:
            limit, self._tries = 0, TRIES
        self._most = limit
        return limit


def _over(refusal: Refusal, body: bytes) -> int:
    """Bytes by which a refused body has to shrink at least, as far as that was said."""
    if refusal.kind is Kind.BYTES:
        return len(body) - refusal.limit if refusal.limit else 0
    if refusal.kind is Kind.FIELD:
        return 0
    return (refusal.over or 0) * _OVER_BYTES_PER_TOKEN
