"""How much of an original may be put behind a turn: what the context of its conversation still holds.

When the model asks for an original, the size of the context is known: the turn that asked says what it
took. What is left is known from what refusals have taught, or from what the model's clients believe in.
Half of that may be given, since the model has to answer, and other results follow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from penumbra.apis.usage import held
from penumbra.conversation import context_windows
from penumbra.conversation.model import Head, Request
from penumbra.store.conversations import LearnedLimits

_BYTES_PER_TOKEN = 3
"""Of most texts; of those that have fewer, a half still fits."""
_OTHERS_BYTES = 1_000
"""Room for the rest of a message that is put behind a body."""

Learn = Callable[[LearnedLimits], Awaitable[None]]
"""Remembers what a refusal has taught of a conversation."""


@dataclass(frozen=True, slots=True)
class Room:
    """What fits into a request; 0: not known."""

    tokens: int = 0
    """Of a request and its response, by the provider's own count."""
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


NOT_KNOWN = Room()


def of_request(request: Request, limits: LearnedLimits, head: Head, learn: Learn) -> Room:
    """How much may be put behind the responses to a request."""
    window = context_windows.of(request.conversation.model, head.headers, head.path)
    return of(limits, window, again=request.settings.recover == "auto", learn=learn)


def of(
    limits: LearnedLimits, window: context_windows.Window, *, again: bool, learn: Learn | None = None
) -> Room:
    """What is known of a conversation's room before anything is asked for."""
    tokens = (limits.window, window.tokens or window.believed)
    return Room(min((limit for limit in tokens if limit), default=0), limits.bytes, again, learn)
