"""What a refusal asks of the request that takes its place, and of the conversation's later ones."""

from __future__ import annotations

from dataclasses import replace

from penumbra.conversation.room import Room
from penumbra.conversation.shrink_order import SLACK
from penumbra.conversation.shrink_to_fit import Need
from penumbra.retry.refusals import Kind, Refusal
from penumbra.store.conversations import LearnedLimits

RESENDS = 2
_SHARES = (0.35, 0.65)
"""What the results have to give, of all that is sent, where a refusal has no numbers; by resend."""
_FIELD = 100_000
"""Characters of a text that may stay where the provider does not say how many."""


def need(refusal: Refusal, estimated: int, sent: int, resend: int, *, elsewhere: bool = False) -> Need | None:
    """What a refusal asks for; None if shortening can't answer it.

    `estimated`: tokens and `sent`: bytes of the request that was refused; `resend` counts from 0.
    `elsewhere`: its history is at the provider, and counts with it.
    """
    if refusal.leave or resend >= RESENDS:
        return None
    share = _SHARES[resend]
    if refusal.kind is Kind.FIELD:
        return Need(most=(refusal.limit or _FIELD) >> (2 * resend if not refusal.limit else 0))
    if refusal.kind is Kind.BYTES:
        if refusal.limit and refusal.limit < sent:
            return Need(bytes=sent - int(refusal.limit * SLACK))
        return Need(bytes=int(sent * share))
    if elsewhere:
        # What is here can't make up for all that is there: enough for this request has to do.
        over = refusal.over or int(estimated * share)
        return Need(tokens=max(1, min(estimated, over + (resend + 1) * over // 2)))
    if refusal.over is None:
        if refusal.limit and refusal.limit < estimated:
            return Need(tokens=max(estimated - int(refusal.limit * SLACK), int(estimated * share / 2)))
        return Need(tokens=int(estimated * share))
    # The provider counts in its own tokens: our estimate of the same text is the measure.
    have = refusal.have or max(estimated, refusal.over + 1)
    limit = refusal.limit or have - refusal.over
    wanted = have - int(limit * (SLACK - 0.1 * resend))
    return Need(tokens=max(1, estimated * wanted // max(1, have)))


def learned_from(refusal: Refusal, estimated: int) -> LearnedLimits:
    """What a conversation's later requests have to keep to.

    `estimated`: tokens of the refused body, 0 where that is not all of what counts.
    """
    if refusal.kind is Kind.FIELD:
        return LearnedLimits(most=refusal.limit or 0)
    if refusal.kind is Kind.BYTES:
        return LearnedLimits(bytes=refusal.limit or 0)
    if refusal.limit is None or (refusal.have is not None and refusal.have <= refusal.limit):
        # Without numbers, or with some that can't be what the request was refused for.
        return LearnedLimits()
    if refusal.kind is Kind.RESERVE:
        return LearnedLimits(window=refusal.limit)
    window = 0 if refusal.kind is Kind.WINDOW else refusal.limit
    if not estimated:
        return LearnedLimits(window=window)
    if refusal.have:
        return LearnedLimits(tokens=estimated * refusal.limit // refusal.have, window=window)
    return LearnedLimits(tokens=min(refusal.limit, estimated), window=window)


def room_after(room: Room, refusal: Refusal) -> Room:
    """What is known once a request has been refused."""
    if not refusal.limit:
        return room
    if refusal.kind is Kind.BYTES:
        return replace(room, body_bytes=refusal.limit)
    return replace(room, tokens=refusal.limit) if refusal.kind in (Kind.INPUT, Kind.RESERVE) else room
