"""This module reads a request's settings, conversation, and tool results with their keys.

The messages are read in order, and no message depends on later messages. Reading therefore continues at the
end of the previous turn. These functions may run outside of the event loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter

import msgspec
from msgspec import Raw, Struct, structs

from penumbra.apis import prefix_hash, result_blocks
from penumbra.apis.api_format import Results
from penumbra.apis.base import MadeCall
from penumbra.apis.identity import Caller
from penumbra.apis.parts import ResultText, ToolCall
from penumbra.apis.prefix_hash import Links
from penumbra.apis.prompt import Message
from penumbra.apis.recognise import Api
from penumbra.apis.result_blocks import Block
from penumbra.apis.user_text import Passage, Passages
from penumbra.config import per_request
from penumbra.config.settings import Settings
from penumbra.conversation import ambiguity, items
from penumbra.conversation.ambiguity import is_around, is_within
from penumbra.conversation.items import Item, Keys, OutsideText, Searched, for_program
from penumbra.conversation.model import Mentions, Request
from penumbra.conversation.outside_results import TextFinder
from penumbra.wire.document import Document
from penumbra.wire.prefix_memory import PrefixMemory

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
    *,
    knows_caller: bool = False,
) -> Request | None:
    """Return the request in a document; None if the document is no request of the API. Raises OverrideError
    and NotJson. `caller` is the caller or only the caller's scope. `threshold` is the value of the
    `X-Compression-Threshold` header. `memory` keeps messages that were read before. `knows_caller` is
    true if earlier secrets of the caller are known."""
    if not api.fits(document):
        return None
    caller = Caller(caller) if isinstance(caller, bytes) else caller
    if memory is not None:
        document.remember(api.wire.members(document).get(api.wire.messages), memory, caller.scope)
    prompt = api.wire.prompt(document)
    settings = _overridden(document, prompt.place, settings, threshold)
    conversation = api.wire.results().conversation(prompt, "", ())
    request = Request(api, settings, document, conversation, (), caller=caller)
    return _read(request, knows_caller, ambiguity.names_to(settings))


def again(request: Request, *, knows_caller: bool = False) -> Request:
    """Read a request again after edits to its document."""
    read, model = _read(request, knows_caller, frozenset()), request.conversation.model
    conversation = structs.replace(read.conversation, model=model)
    return structs.replace(read, conversation=conversation, mentions=Mentions())


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
    document: Document, messages: Raw | None, settings: Settings, threshold: str | None
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
    for message in document.items(messages) if marked else ():
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
    outside: list[OutsideText] = msgspec.field(default_factory=list)
    ambiguous: list[int] = msgspec.field(default_factory=list)
    """The indexes of messages with repeated members through which text to be searched could be missed."""

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


_SIZED = attrgetter(*_SoFar.__struct_fields__[1:])


def _read(request: Request, knows_caller: bool, unique: frozenset[str]) -> Request:
    """Return the request with the contents of its messages. `unique` has the names of members that must not
    be repeated."""
    document, wire, settings, owner = request.document, request.wire, request.settings, request.caller.owner
    prompt, opening = wire.prompt(document), wire.opening(document)
    listed, keys = document.items(prompt.place), Keys.of(owner, opening)
    links = prefix_hash.links(document)
    finder = TextFinder.of(settings, document, prompt, keys, knows_caller)

    def begin() -> _SoFar:
        return _SoFar(Passages(), wire.results(), links.copy())

    def visit(so_far: _SoFar, turn: int, value: Raw, messages: Sequence[Message], before: bytes) -> None:
        texts = so_far.add(document, value, turn, messages, partial(keys.item, document, before))
        known = [text.value for text in texts]
        so_far.blocks += [(turn, block) for block in result_blocks.find(document, value, known)]
        so_far.outside += [text for message in messages for text in finder.texts(document, message)]
        so_far.ambiguous += [turn] if is_within(document, value, unique) else []

    def step(so_far: _SoFar, turn: int) -> None:
        value, messages = listed[turn], prompt.messages[turn : turn + 1]
        visit(so_far, turn, value, messages, so_far.links.add(document, value))

    if listed:
        key, inputs = ("read", wire.message), (finder, links.referable, unique)
        found = document.computed(prompt.place, len(listed), begin, step, key, inputs)
        chain = found.links.chain()
    else:
        # If the value is no list, it may be the only message.
        found, chain = begin(), prefix_hash.read(document, prompt.place)
        for value in document.listed(prompt.place):
            visit(found, 0, value, prompt.messages, chain.calls[0])
    conversation = found.results.conversation(prompt, opening, found.texts)
    others: tuple[Searched, ...] = ()
    outside: list[OutsideText] = []
    if settings.redact_secrets:
        others = items.read_searched(document, conversation, found.blocks, found.passages, owner)
        others += tuple(map(for_program, found.for_programs))
        system = Message(document.root, -1, "", False, prompt.system)
        outside = finder.texts(document, system) + found.outside
    return structs.replace(
        request,
        conversation=conversation,
        items=tuple(found.items),
        searched=others,
        uncalled=frozenset(found.uncalled),
        chain=chain,
        outside=tuple(outside),
        is_ambiguous=bool(found.ambiguous) or is_around(document, unique),
    )
