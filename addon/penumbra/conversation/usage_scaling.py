"""What a client is told of a request's size, where the provider takes less than the client believes.

Clients compact their conversations when the usage that they are told comes near the window that they
believe in. Where a refusal has shown another limit, they would learn of it only by further refusals; and
where results were cut so that a request fits, the usage hides that the conversation doesn't. So they are
told their usage in parts of what they believe in. Nothing is told differently before a limit was learned.
"""

from __future__ import annotations

from dataclasses import dataclass

from penumbra.conversation import context_windows
from penumbra.conversation.budget import SLACK
from penumbra.store.conversations import LearnedLimits


@dataclass(frozen=True, slots=True)
class UsageScale:
    """How input tokens are told. All in the provider's own tokens."""

    limit: int
    """What requests of the conversation are kept to."""
    believed: int
    """What the client takes for it."""

    def count(self, tokens: int) -> int:
        """What the client is told instead of so many tokens; never fewer."""
        return -(-tokens * self.believed // self.limit)


def told(lesson: LearnedLimits, believed: int, cut: bool) -> UsageScale | None:
    """How a request's usage is told; None: as it is.

    `believed`: the window that the client believes in, 0 if unknown. `cut`: results were shortened so that
    the request fits.
    """
    if not lesson.window or not believed or believed > lesson.window * context_windows.table()["most"]:
        return None
    # Cuts bring a request below its limit by this much, so that its usage would never come nearer.
    limit = int(lesson.window * SLACK) if cut else lesson.window
    return UsageScale(limit, believed) if believed > limit else None
