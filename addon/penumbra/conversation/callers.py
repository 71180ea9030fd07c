"""Whose request it is: for the workers, for the store, for what its model may ask for."""

from __future__ import annotations

from penumbra.apis import identity, session
from penumbra.apis.identity import Identity
from penumbra.conversation import workers
from penumbra.conversation.incoming import Incoming
from penumbra.conversation.model import Request
from penumbra.expand.reference import Caller
from penumbra.wire.document import Document


def whose_turn(incoming: Incoming) -> workers.Caller:
    """Whose turn the work for a request takes: nobody can take that of somebody else."""
    scope = identity.scope(b"", incoming.host, incoming.peer, incoming.headers, incoming.query)
    return workers.Caller(incoming.peer, scope)


def identified(key: bytes, incoming: Incoming, document: Document) -> Identity:
    """Who is asking. `key`: the installation's."""
    metadata = document.members(document.members(document.root).get("metadata"))
    user = document.string(metadata.get("user_id")) or ""
    return identity.identify(key, incoming.host, incoming.peer, incoming.headers, incoming.query, user)


def caller(incoming: Incoming, request: Request) -> Caller:
    """Who is asking, in which conversation."""
    wanted = request.settings.session_id
    named = session.identify(incoming.headers, request.document, request.conversation.opening)
    renewable = request.possession if request.possession != request.scope else b""
    joined = f"session {wanted}" if wanted else ""
    return Caller(request.scope, named, renewable, request.is_open, joined)
