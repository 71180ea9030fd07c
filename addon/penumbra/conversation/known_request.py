"""A request that was read, with what is remembered of its conversation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from penumbra.conversation import adoption, cache_price, callers, compose
from penumbra.conversation.incoming import Incoming
from penumbra.conversation.model import Request
from penumbra.conversation.request_reader import Arrived
from penumbra.conversation.restored_values import RestoredValues
from penumbra.expand.reference import Caller
from penumbra.redaction.unsearchable import Redact
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.store.decisions import Decision
from penumbra.store.stores import Stores


class KnownRequest(NamedTuple):
    """Passed on from step to step."""

    request: Request
    caller: Caller
    conversation: bytes
    state: ConversationState
    keys: Collection[bytes]
    """Of its results."""
    past: dict[bytes, Decision]
    """What was decided about them."""
    redact: Redact
    is_heavy: bool
    """What has to be decided takes long."""
    cold: float
    """Seconds without a request after which nothing of it is in the provider's cache."""
    is_cold: bool
    """That time is over, for certain."""

    @property
    def reopened(self) -> frozenset[bytes]:
        """The keys of its answered results that may get another form."""
        return adoption.reopened(self.request, self.state, self.past) if self.is_cold else frozenset()

    def learned(self, limits: LearnedLimits) -> KnownRequest:
        """Return the request with what a refusal has just told of its conversation."""
        state = replace(self.state, limits=self.state.limits.learned(limits))
        return self._replace(state=state)


async def known_request(
    stores: Stores, restored: RestoredValues, incoming: Incoming, arrived: Arrived, *, whole: bool
) -> KnownRequest:
    """The request with what the store has of its conversation. `whole`: what is decided can be remembered."""
    request = arrived.request
    caller = callers.caller(incoming, request)
    conversation = caller.conversation()
    state, keys, past = await _remembered(stores, request, conversation)
    if not whole and await stores.lacks(past, compose.answered(request)):
        state, keys, past = await _remembered(stores, request, conversation)
    redact = restored.redacting(request, caller, arrived.redact)
    if stores.is_recent and state.idle is None:
        # Most conversations have had the injected tool from their first request on.
        request = replace(request, settings=replace(request.settings, adopt="compress"))
    heavy = compose.is_heavy(request, past, state)
    cold = cache_price.of_request(request.format, request.conversation.model, request.document).cold
    asks = whole and incoming.api.kind == "messages"
    is_cold = asks and adoption.is_cold(request, state, past, cold)
    return KnownRequest(request, caller, conversation, state, keys, past, redact, heavy, cold, is_cold)


async def _remembered(
    stores: Stores, request: Request, conversation: bytes
) -> tuple[ConversationState, Collection[bytes], dict[bytes, Decision]]:
    """What is known of a conversation, the keys of a request's results, and what was decided of these."""
    state = await stores.conversations.past(conversation)
    keys = compose.keys(request, state)
    stores.follow(conversation, state, keys)
    return state, keys, await stores.decisions.get(keys)
