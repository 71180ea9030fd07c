"""A request's document, read: its settings, its conversation, its tool results, each with a key.

May run outside of the event loop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from penumbra.apis.base import MadeCall
from penumbra.apis.parts import Conversation, ToolCall
from penumbra.apis.recognise import Api
from penumbra.config import per_request
from penumbra.config.settings import Settings
from penumbra.conversation import items, messages, searched
from penumbra.conversation.mentioned_names import Mentions
from penumbra.conversation.messages import Read
from penumbra.conversation.model import Request
from penumbra.conversation.searched import ForProgram, Searched
from penumbra.wire.document import Document
from penumbra.wire.value_memory import ValueMemory


def read(
    document: Document,
    api: Api,
    settings: Settings,
    scope: bytes,
    threshold: str | None = None,
    possession: bytes | None = None,
    memory: ValueMemory | None = None,
) -> Request | None:
    """The request in a document; None if it is not what the API's bodies look like.

    `scope`: who is asking. `possession` keys every hash of an item; None: as `scope`. `threshold`: of the
    header. `memory`: of messages that were read before. Raises OverrideError, NotJson.
    """
    if not api.fits(document):
        return None
    if memory is not None:
        document.remember(api.wire.members(document).get(api.wire.messages), memory, scope)
    owner = scope if possession is None else possession
    content = messages.read(document, api.wire, owner)
    settings = _overridden(document, content.conversation, settings, threshold)
    request = Request(api, settings, document, content.conversation, (), scope=scope, possession=owner)
    return _with_results(request, content)


def again(request: Request) -> Request:
    """The same request, whose document was amended since it was read."""
    content = messages.read(request.document, request.api.wire, request.possession)
    conversation = replace(content.conversation, model=request.conversation.model)
    return _with_results(replace(request, mentions=Mentions()), replace(content, conversation=conversation))


def _with_results(request: Request, content: Read) -> Request:
    document, conversation = request.document, content.conversation
    others: tuple[Searched, ...] = ()
    if request.settings.redact_secrets:
        others = searched.read(document, conversation, content.blocks, content.passages, request.possession)
        others += tuple(map(ForProgram, content.for_programs))
    return replace(
        request,
        conversation=conversation,
        items=content.items,
        searched=others,
        uncalled=content.uncalled,
        chain=content.chain,
    )


def with_model(request: Request, model: str) -> Request:
    """The same request, of this model if its body names none."""
    if request.conversation.model or not model:
        return request
    return replace(request, conversation=replace(request.conversation, model=model))


def with_calls(request: Request, made: Mapping[str, MadeCall]) -> Request:
    """The same request, in which results know the calls that are not in it."""
    calls = {call_id: ToolCall(call_id, call.name, cached=call.arguments) for call_id, call in made.items()}
    results = tuple(
        replace(result, call=calls.get(result.call_id, result.call))
        for result in request.conversation.results
    )
    conversation = replace(request.conversation, results=results)
    known = {other.key for other in request.searched}
    texts = [
        item
        for item in items.read(request.document, conversation, request.possession, request.chain)
        if item.key not in known
    ]
    others = request.searched
    if request.settings.redact_secrets:
        others += tuple(ForProgram(item) for item in texts if item.result.by_program)
    shown = tuple(item for item in texts if not item.result.by_program)
    return replace(request, conversation=conversation, items=shown, searched=others)


def _overridden(
    document: Document, conversation: Conversation, settings: Settings, threshold: str | None
) -> Settings:
    """The request's own settings; its `_forge` members are taken out."""
    if threshold is not None:
        settings = per_request.apply_threshold(settings, threshold)
    top = document.members(document.root)
    if per_request.FIELD in top:
        # Not orjson: a number of any size must be seen as what it is.
        settings = per_request.apply(settings, json.loads(document.source(top[per_request.FIELD])))
        document.remove_member(top[per_request.FIELD])
    # A look at the bytes spares most requests the walk.
    marked = document.contains(b'"_forge"')
    for message in document.items(conversation.messages) if marked else ():
        members = document.members(message)
        if per_request.FIELD in members:
            document.remove_member(members[per_request.FIELD])
    return settings
