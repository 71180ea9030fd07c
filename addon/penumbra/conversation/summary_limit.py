"""A request that has its history summarised, bounded before it is sent."""

from __future__ import annotations

from penumbra.compress import token_estimate
from penumbra.compress.token_estimate import BYTES_PER_TOKEN
from penumbra.conversation import context_windows, summary_requests
from penumbra.conversation.budget import may_shorten
from penumbra.conversation.model import Head, Request
from penumbra.conversation.shrink_order import SLACK
from penumbra.store.conversations import LearnedLimits
from penumbra.wire.document import Document


def bounded(request: Request, body: bytes, head: Head, limits: LearnedLimits) -> bytes | None:
    """The body, bounded where it would not fit, and where nothing of it is cached; None: it stays as it is.

    `body`: as it would be sent.
    """
    if request.api.kind not in ("messages", "compact") or not may_shorten(request.settings):
        return None
    # Looked for in what has been read already: nearly all requests are none.
    summary = summary_requests.recognise(request.document, request.api.format, head.path, head.headers)
    if summary is None:
        return None
    size = summary_requests.size_of(Document(body), request.api.format)
    window = context_windows.of(request.conversation.model, head.headers, head.path)
    budget = size
    if not summary.shares_cache:
        wanted = request.settings.compaction_budget_bytes
        budget = wanted or max(summary_requests.BUDGET, int(window.believed * BYTES_PER_TOKEN / 2))
    limit = _limit(limits, window)
    if 0 < limit < len(body):
        # A token has more than one byte: most requests need no counting.
        estimated = token_estimate.estimate(body.decode("utf-8", "replace"))
        if estimated > limit:
            missing = (estimated - int(limit * SLACK)) * len(body) // estimated
            budget = min(budget, max(0, size - missing))
    if budget >= size:
        return None
    return summary_requests.bound(body, request.api.format, budget, prompted=summary.prompted)


def _limit(limits: LearnedLimits, window: context_windows.Window) -> int:
    """Estimated tokens that a request may have, as far as that is known for sure; 0: not known."""
    return min((limit for limit in (limits.tokens, limits.window, window.tokens) if limit), default=0)
