"""What a client is told of a request's size, where the provider takes less than the client believes.

Clients compact their conversations when the usage that they are told comes near the window that they
believe in. Where a refusal has shown another limit, they would learn of it only by further refusals; and
where results were cut so that a request fits, the usage hides that the conversation doesn't. So they are
told their usage in parts of what they believe in. Nothing is told differently before a limit was learned.
"""

from __future__ import annotations

from dataclasses import dataclass

from penumbra.conversation import context_windows
from penumbra.conversation.model import Head, Request, Rewritten
from penumbra.conversation.shrink_order import SLACK
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


def scale(request: Request, rewritten: Rewritten, limits: LearnedLimits, head: Head) -> UsageScale | None:
    """What the client is told of a request's size; None: what the provider says."""
    if request.settings.context_guard == "off" or request.api.kind != "messages":
        return None
    if not limits.window:
        return None
    cut = any(shown.facts.how == "recovered" for shown in rewritten.shown)
    window = context_windows.of(request.conversation.model, head.headers, head.path)
    return of(limits, window.believed, cut)


def of(limits: LearnedLimits, believed: int, cut: bool) -> UsageScale | None:
    """How usage is told; None: as it is.

    `believed`: the window that the client believes in, 0 if unknown. `cut`: results were shortened so that
    the request fits.
    """
    if not limits.window or not believed or believed > limits.window * context_windows.table()["most"]:
        return None
    # Cuts bring a request below its limit by this much, so that its usage would never come nearer.
    limit = int(limits.window * SLACK) if cut else limits.window
    return UsageScale(limit, believed) if believed > limit else None
