"""The messages of a request, read one after the other: its results, each with a key, what else is searched,
and what stands in front of each.

What was read of the first messages a turn ago is gone on from: nothing in here looks at what comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial

from msgspec import Raw

from penumbra.apis import prefix_hash, result_blocks
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.parts import Conversation, ResultText
from penumbra.apis.prefix_hash import Chain, Links
from penumbra.apis.prompt import Message
from penumbra.apis.result_blocks import Block
from penumbra.apis.results import Results
from penumbra.apis.user_text import Passage, Passages
from penumbra.conversation import searched
from penumbra.conversation.items import Item, Keys
from penumbra.wire.document import Document
from penumbra.wire.value_memory import Fold

_ENTRY_BYTES = 200
"""What a thing that was read takes, roughly."""
MakeItem = Callable[[ResultText], Item | None]


@dataclass(slots=True)
class _SoFar:
    """What was read of the messages so far."""

    results: Results
    said: Passages
    links: Links
    texts: list[ResultText] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    for_programs: list[Item] = field(default_factory=list)
    """Texts that programs read, and not the model."""
    blocks: list[tuple[int, Block]] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    """What may be results in the user's text."""
    uncalled: list[str] = field(default_factory=list)
    """Ids of the calls that results answer and the request does not show."""

    def add(
        self, document: Document, value: Raw, turn: int, messages: Sequence[Message], make: MakeItem
    ) -> list[ResultText]:
        """The next value, and the messages that it is; the texts of its results."""
        passages = self.said.add(document, value, turn)
        texts = [text for message in messages for text in self.results.add(message)]
        said = searched.said(document, passages, texts)
        self.texts += said
        self.uncalled += (text.call_id for text in said if not _shows_call(text))
        for item in filter(None, map(make, said)):
            (self.for_programs if item.result.by_program else self.items).append(item)
        self.passages += (passage for passage in passages if not passage.certain)
        return texts

    def weigh(self) -> int:
        """Bytes that it takes, roughly."""
        parts: tuple[Sized, ...] = (
            self.texts,
            self.items,
            self.for_programs,
            self.blocks,
            self.passages,
            self.uncalled,
            self.results,
            self.links,
        )
        return _ENTRY_BYTES * (len(parts) + sum(map(len, parts)))

    def copy(self) -> _SoFar:
        return _SoFar(
            self.results.copy(),
            self.said.copy(),
            self.links.copy(),
            self.texts.copy(),
            self.items.copy(),
            self.for_programs.copy(),
            self.blocks.copy(),
            self.passages.copy(),
            self.uncalled.copy(),
        )


@dataclass(frozen=True, slots=True)
class Read:
    """All of them."""

    conversation: Conversation
    items: tuple[Item, ...]
    for_programs: tuple[Item, ...]
    """Texts that programs read, and not the model."""
    blocks: tuple[tuple[int, Block], ...]
    """What stands in results beside their texts, each with the index of its message."""
    passages: tuple[Passage, ...]
    """What may be results in the user's text."""
    uncalled: frozenset[str]
    """Ids of the calls that results answer and the request does not show."""
    chain: Chain


def read(document: Document, wire: ApiFormat, possession: bytes) -> Read:
    """The messages of a request. `possession` keys the hashes of items."""
    prompt, opening = wire.prompt(document), wire.opening(document)
    listed, keys = document.items(prompt.place), Keys.of(possession, opening)
    links = prefix_hash.links(document)

    def begin() -> _SoFar:
        return _SoFar(wire.results(), Passages(), links.copy())

    def step(so_far: _SoFar, turn: int) -> None:
        value, before = listed[turn], so_far.links.add(document, listed[turn])
        make = partial(keys.item, document, before)
        so_far.add(document, value, turn, prompt.messages[turn : turn + 1], make)
        so_far.blocks += ((turn, block) for block in document.about(value, wire.blocks_beside))

    if listed:
        fold = Fold(begin, _SoFar.copy, ("read", wire.message), (keys, links.referable))
        read = document.folded(prompt.place, len(listed), fold, step)
        chain = read.links.chain()
    else:
        # What is no list of messages may be the only one itself.
        read, chain = begin(), prefix_hash.read(document, prompt.place)
        make = partial(keys.item, document, chain.calls[0])
        for value in document.listed(prompt.place):
            texts = [text.value for text in read.add(document, value, 0, prompt.messages, make)]
            read.blocks += ((0, block) for block in result_blocks.find(document, value, texts))
    return Read(
        read.results.conversation(prompt, opening, read.texts),
        tuple(read.items),
        tuple(read.for_programs),
        tuple(read.blocks),
        tuple(read.passages),
        frozenset(read.uncalled),
        chain,
    )


def _shows_call(text: ResultText) -> bool:
    call = text.call
    return call is not None and (call.arguments is not None or call.cached is not None)
