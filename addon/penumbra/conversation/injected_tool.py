"""Whether a request may have the injected tool: what settings, headers and its past say."""

from __future__ import annotations

from collections.abc import Mapping

from penumbra.conversation import adoption
from penumbra.conversation.bound_thinking import binds
from penumbra.conversation.incoming import Incoming
from penumbra.conversation.late_declaration import shows_references
from penumbra.conversation.model import Request
from penumbra.expand.hidden_exchanges import Terms
from penumbra.store.conversations import ConversationState
from penumbra.store.decisions import Decision


def terms(
    incoming: Incoming,
    request: Request,
    state: ConversationState,
    past: Mapping[bytes, Decision],
    *,
    waits: bool,
    is_due: bool,
    is_inline: bool,
    is_cold: bool,
) -> Terms | None:
    """The terms on which it may; None: it may not have it at all. `past`: decisions of the past; `waits`: it
    has none yet because it began small, and whether it `is_due` now; `is_cold`: nothing of it is cached."""
    settings, conversation = request.settings, request.conversation
    if incoming.api.kind not in ("messages", "count_tokens"):
        return None
    if request.document.members(conversation.messages):
        # One message that is no list of them: nothing could be put behind it.
        return None
    # What the last request declared is what the provider holds, whatever became of its response.
    thinks = conversation.last_thinking >= 0
    at_stake = (settings.adopt == "auto" and not state.tool) and (
        (thinks and binds(request.format, conversation.model))
        if is_cold
        else (thinks or adoption.may_be_cached(request.document, request.api.cache))
    )
    shows = shows_references(request, past)
    may_have = settings.enable_expand_context and settings.shortens and (is_due or not waits)
    return Terms(
        wanted=may_have or shows or _is_held(request, state),
        at_stake=not waits and (settings.adopt == "raw" or at_stake),
        hint=settings.include_expand_hint,
        betas=incoming.headers.get("anthropic-beta", ""),
        counting=incoming.api.kind == "count_tokens",
        editing=settings.restores_secrets,
        inline=is_inline and not state.limits.tools_first,
        held=state.tool,
        begins=is_cold or shows,
    )


def _is_held(request: Request, state: ConversationState) -> bool:
    """Whether the tool has to stay while there is a pause: the provider's cached prefix begins with it."""
    return request.settings.pause and bool(state.tool) and request.conversation.last_response >= 0
