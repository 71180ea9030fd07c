"""This module reads a request's settings, conversation, and tool results with their keys.

The messages are read in order, and no message depends on later messages. Reading therefore continues at the
end of the previous turn. These functions may run outside of the event loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct, structs

from penumbra.apis import prefix_hash, result_blocks
from penumbra.apis.api_format import ApiFormat, Results
from penumbra.apis.base import MadeCall
from penumbra.apis.identity import Caller
from penumbra.apis.parts import Conversation, ResultText, ToolCall
from penumbra.apis.prefix_hash import Chain, Links
from penumbra.apis.prompt import Message
from penumbra.apis.recognise import Api
from penumbra.apis.result_blocks import Block
from penumbra.apis.user_text import Passage, Passages
from penumbra.config import per_request
from penumbra.config.settings import Settings
from penumbra.conversation import items
from penumbra.conversation.items import Item, Keys, Searched, for_program
from penumbra.conversation.model import Mentions, Request
from penumbra.wire.document import Document
from penumbra.wire.prefix_memory import Computation, PrefixMemory

_ENTRY_BYTES = 200
"""Rough size of one entry."""
MakeItem = Callable[[ResultText], Item | None]


def read(
    document: Document,
    api: Api,
    settings: Settings,
    caller: Caller | bytes,
    threshold: str | None = None,
    memory: PrefixMemory | None = None,
) -> Request | None:
    """Return the request in a document; None if the document is no request of the API. Raises OverrideError
    and NotJson. `caller` is the caller or only the caller's scope. `threshold` is the value of the
    `X-Compression-Threshold` header. `memory` keeps messages that were read before."""
    if not api.fits(document):
        return None
    caller = Caller(caller) if isinstance(caller, bytes) else caller
    if memory is not None:
        document.remember(api.wire.members(document).get(api.wire.messages), memory, caller.scope)
    content = _read(document, api.wire, caller.owner)
    settings = _overridden(document, content.conversation, settings, threshold)
    request = Request(api, settings, document, content.conversation, (), caller=caller)
    return _with_results(request, content)


def again(request: Request) -> Request:
    """Read a request again after edits to its document."""
    content = _read(request.document, request.api.wire, request.caller.owner)
    conversation = structs.replace(content.conversation, model=request.conversation.model)
    return _with_results(
        structs.replace(request, mentions=Mentions()), content._replace(conversation=conversation)
    )


def _with_results(request: Request, content: _Read) -> Request:
    conversation, found, chain = content
    others: tuple[Searched, ...] = ()
    if request.settings.redact_secrets:
        others = items.read_searched(
            request.document, conversation, found.blocks, found.passages, request.caller.owner
        )
        others += tuple(map(for_program, found.for_programs))
    return structs.replace(
        request,
        conversation=conversation,
        items=tuple(found.items),
        searched=others,
        uncalled=frozenset(found.uncalled),
        chain=chain,
    )


def with_calls(request: Request, made: Mapping[str, MadeCall]) -> Request:
    """Return the request with these calls. The body lacks the calls, but has their results."""
    calls = {call_id: ToolCall(call_id, call.name, cached=call.arguments) for call_id, call in made.items()}
    results = tuple(
        structs.replace(result, call=calls.get(result.call_id, result.call))
        for result in request.conversation.results
    )
    conversation = structs.replace(request.conversation, results=results)
    known = {other.key for other in request.searched}
    keys, before = Keys.of(request.caller.owner, conversation.opening), request.chain.calls
    found = (keys.item(request.document, before[result.turn], result) for result in results)
    texts = [item for item in found if item is not None and item.key not in known]
    others = request.searched
    if request.settings.redact_secrets:
        others += tuple(for_program(item) for item in texts if item.result.by_program)
    shown = tuple(item for item in texts if not item.result.by_program)
    return structs.replace(request, conversation=conversation, items=shown, searched=others)


def _overridden(
    document: Document, conversation: Conversation, settings: Settings, threshold: str | None
) -> Settings:
    """Remove the `_forge` members of the request, and return the settings with their changes."""
    if threshold is not None:
        settings = per_request.apply_threshold(settings, threshold)
    top = document.members(document.root)
    if per_request.FIELD in top:
        # orjson would turn large integers into floats.
        settings = per_request.apply(settings, json.loads(document.source(top[per_request.FIELD])))
        document.remove_member(top[per_request.FIELD])
    # The messages of most requests, which have no such member, are not examined.
    marked = document.contains(b'"_forge"')
    for message in document.items(conversation.messages) if marked else ():
        members = document.members(message)
        if per_request.FIELD in members:
            document.remove_member(members[per_request.FIELD])
    return settings


class _SoFar(Struct):
    """A `_SoFar` has what was read in the first messages."""

    user_text: Passages
    results: Results
    links: Links
    texts: list[ResultText] = msgspec.field(default_factory=list)
    items: list[Item] = msgspec.field(default_factory=list)
    for_programs: list[Item] = msgspec.field(default_factory=list)
    """The texts that only programs read."""
    blocks: list[tuple[int, Block]] = msgspec.field(default_factory=list)
    passages: list[Passage] = msgspec.field(default_factory=list)
    """Passages of user text that may be results."""
    uncalled: list[str] = msgspec.field(default_factory=list)
    """The ids of the calls that are missing from the request although the request has their results."""

    def add(
        self, document: Document, value: Raw, turn: int, messages: Sequence[Message], make: MakeItem
    ) -> list[ResultText]:
        """Read the next value, which contains these messages. Return the texts of its results."""
        passages = self.user_text.add(document, value, turn)
        texts = [text for message in messages for text in self.results.add(message)]
        found = items.with_user_text(document, passages, texts)
        self.texts += found
        for text in found:
            if (call := text.call) is None or (call.arguments is None and call.cached is None):
                self.uncalled.append(text.call_id)
        for item in filter(None, map(make, found)):
            (self.for_programs if item.result.by_program else self.items).append(item)
        self.passages += (passage for passage in passages if not passage.certain)
        return texts

    def weigh(self) -> int:
        """Return the rough size in bytes."""
        parts = _SIZED(self)
        return _ENTRY_BYTES * (len(parts) + sum(map(len, parts)))

    def copy(self) -> _SoFar:
        return _SoFar(self.user_text.copy(), *[part.copy() for part in _SIZED(self)])


_SIZED = attrgetter("results", "links", "texts", "items", "for_programs", "blocks", "passages", "uncalled")


class _Read(NamedTuple):
    """A `_Read` has what was read in all messages of a request."""

    conversation: Conversation
    found: _SoFar
    chain: Chain


def _read(document: Document, wire: ApiFormat, possession: bytes) -> _Read:
    """Read the messages of a request. `possession` is as in `Keys`."""
    prompt, opening = wire.prompt(document), wire.opening(document)
    listed, keys = document.items(prompt.place), Keys.of(possession, opening)
    links = prefix_hash.links(document)

    def begin() -> _SoFar:
        return _SoFar(Passages(), wire.results(), links.copy())

    def step(so_far: _SoFar, turn: int) -> None:
        value, before = listed[turn], so_far.links.add(document, listed[turn])
        make = partial(keys.item, document, before)
        so_far.add(document, value, turn, prompt.messages[turn : turn + 1], make)
        so_far.blocks += [(turn, block) for block in wire.blocks_beside(document, prompt.messages[turn])]

    if listed:
        computation = Computation(begin, ("read", wire.message), (keys, links.referable))
        read = document.computed(prompt.place, len(listed), computation, step)
        chain = read.links.chain()
    else:
        # If the value is no list, it may be the only message.
        read, chain = begin(), prefix_hash.read(document, prompt.place)
        make = partial(keys.item, document, chain.calls[0])
        for value in document.listed(prompt.place):
            texts = [text.value for text in read.add(document, value, 0, prompt.messages, make)]
            read.blocks += ((0, block) for block in result_blocks.find(document, value, texts))
    return _Read(read.results.conversation(prompt, opening, read.texts), read, chain)
