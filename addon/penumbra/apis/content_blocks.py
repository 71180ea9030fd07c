"""This module reads and edits responses of Anthropic and of Bedrock's Converse. These responses are lists of
content blocks.

A stream numbers the blocks. Calls of the injected tool are removed, and later blocks get new numbers. After a
call of the injected tool, the end of the turn is delayed. Blocks are read like the blocks of a request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct, structs

from penumbra.apis.base import CacheDiagnosis, Event, InjectedCall, MadeCall, Turn
from penumbra.apis.prompt import Kind, Part
from penumbra.apis.turns import Framing, Turns
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode

_CALLS, _NO_CALLS = "tool_use", "end_turn"
"""Two stop reasons: of a turn that ends with calls, and of a turn without calls."""


class EventKind(Enum):
    START = auto()
    BLOCK_BEGINS = auto()
    BLOCK_GROWS = auto()
    BLOCK_ENDS = auto()
    END = auto()
    """The stop reason, token counts, or the last event."""


class Block(ABC):
    """A `Block` assembles a content block of a stream from its events."""

    @abstractmethod
    def start(self, value: dict[str, Any]) -> None:
        """Add the content of the block's first event."""

    @abstractmethod
    def add(self, delta: dict[str, Any]) -> None:
        """Add one piece of the block."""

    @abstractmethod
    def json(self) -> bytes:
        """Return the block as JSON in the form that requests have; empty if the block can't be assembled."""

    @property
    @abstractmethod
    def arguments(self) -> str:
        """The arguments of a call, as the model wrote them."""


class Content(Struct, frozen=True):
    source: bytes
    """The JSON of the block as in a request."""
    call: MadeCall | None = None
    """The call of a client's tool or of the injected tool; None if the block is no call."""
    text: str = ""
    signature: str | None = None
    """The signature of reasoning; empty for unsigned reasoning; None if the block is no reasoning."""
    is_text: bool = False
    """True for text, which can be used even if the block is not complete."""
    is_returnable: bool = False
    """True if a later request may contain the block. The API refuses texts without a visible character."""


class _Turn(Struct):
    blocks: list[tuple[int, Block]] = msgspec.field(default_factory=list)
    """The blocks with their numbers, in the order of their beginnings."""
    latest: dict[int, int] = msgspec.field(default_factory=dict)
    """Maps a number to the position of its last block in `blocks`. Some servers repeat numbers."""
    hidden: set[int] = msgspec.field(default_factory=set)
    """The positions of the blocks that are calls of the injected tool."""
    shows_calls: bool = False
    open: int = -1
    """The position of the current block; -1 between blocks."""
    stop_reason: str = ""
    id: str = ""
    diagnosis: CacheDiagnosis | None = None


class BlockTurns(Turns):
    """A `BlockTurns` reads the content blocks of a response, in a stream or in one document."""

    index: ClassVar[str]
    """The member that has a block's number."""
    begins: ClassVar[str]
    """The member that has a block's beginning."""
    new_block: ClassVar[type[Block]]

    def __init__(self, framing: Framing, injected_tool: str, before: str = "") -> None:
        self._started = False
        self._before = self._next = 0
        """`_before` counts the client's blocks of earlier turns, `_next` those of all turns so far.
        """
        self._shown: list[bytes] = []
        """The visible blocks of the earlier turns. Each turn was a document."""
        super().__init__(framing, injected_tool, before)

    @abstractmethod
    def kind(self, event: Event) -> EventKind | None:
        """Return the kind of an event; None for events that concern no block and no message."""

    @abstractmethod
    def note(self, event: Event, document: Document) -> None:
        """Store token counts and ids from the start or the end of a turn."""

    @abstractmethod
    def reason(self, document: Document) -> Raw | None:
        """Return the stop reason in an event, or in a document."""

    @abstractmethod
    def is_continuable(self) -> bool:
        """Return whether results can be added after the turn."""

    @abstractmethod
    def content(self, document: Document) -> Raw | None:
        """Return the array of blocks of a document; None if the document is no message."""

    @abstractmethod
    def parts(self, document: Document, block: Raw) -> Sequence[Part]:
        """Return the parts of a block."""

    def begin_turn(self) -> None:
        self.seen = _Turn()

    def hide_turn(self) -> None:
        self._before = self._next

    def hides(self) -> bool:
        return bool(self.seen.hidden)

    def read(self, event: Event, document: Document) -> Iterable[Event]:
        kind = self.kind(event)
        if kind is EventKind.START:
            self.note(event, document)
            first, self._started = not self._started, True
            return (event,) if first else ()
        if kind is EventKind.END:
            self.note(event, document)
            if (reason := document.string(self.reason(document))) is not None:
                self.seen.stop_reason = reason
            if self.seen.hidden:
                return self.delay(event)
            self.put_right(event)
        elif kind is not None:
            return self._block(kind, event, document)
        return (event,)

    def _block(self, kind: EventKind, event: Event, document: Document) -> Iterable[Event]:
        members, seen = event.members, self.seen
        # An event is small and is decoded once.
        value = document.plain(document.root)
        index = value.get(self.index) if members else None
        if not isinstance(index, int):
            return (event,)
        if kind is EventKind.BLOCK_BEGINS or index not in seen.latest:
            seen.latest[index] = len(seen.blocks)
            seen.blocks.append((index, self.new_block()))
        at = seen.latest[index]
        seen.open = at if kind is not EventKind.BLOCK_ENDS else -1
        if kind is EventKind.BLOCK_BEGINS:
            self._begin(at, document, members.get(self.begins))
        elif kind is EventKind.BLOCK_GROWS and isinstance(delta := value.get("delta"), dict):
            seen.blocks[at][1].add(delta)
        if at in seen.hidden:
            return ()
        shown = self._before + index
        if seen.hidden:
            numbers = [number for number, _ in seen.blocks]
            visible = {number for other, number in enumerate(numbers) if other not in seen.hidden}
            shown -= sum([number < index for number in set(numbers) - visible])
        self._next = max(self._next, shown + 1)
        if shown != index:
            document.replace(members[self.index], shown)
        return (event,)

    def _begin(self, at: int, document: Document, begun: Raw | None) -> None:
        if begun is None or not isinstance(first := document.plain(begun), dict):
            return
        self.seen.blocks[at][1].start(first)
        if (call := self._read(document, begun).call) is None:
            return
        is_hidden = call.name in self.called_as
        self.hidden_names.note([call.id], hidden=is_hidden)
        if is_hidden:
            self.seen.hidden.add(at)
        self.seen.shows_calls |= not is_hidden

    def put_right(self, event: Event) -> None:
        assert event.document is not None
        if self.seen.hidden and not self.seen.shows_calls:
            end_turn(event.document, self.reason(event.document))
        self.usage.add(event.document, event.document.root, self.hidden_usage, self.metrics)

    def turn(self) -> Turn:
        blocks = self.seen.blocks
        order = sorted(range(len(blocks)), key=lambda at: blocks[at][0])
        contents = {at: self._put_together(blocks[at][1]) for at in order}
        kept = [at for at, content in contents.items() if content.is_returnable]
        if self.finished:
            return self._turn([contents[at] for at in kept], contents.values(), contents.values())
        sent = [contents[at] for at in self._complete(kept, contents)]
        return self._turn(sent, contents.values(), sent)

    def _put_together(self, block: Block) -> Content:
        if not (source := block.json()):
            return Content(b"")
        content = self._read(document := Document(source), document.root)
        if content.call is None:
            return content
        return structs.replace(content, call=replace(content.call, arguments=block.arguments))

    def _turn(self, kept: Iterable[Content], all_: Iterable[Content], sent: Iterable[Content]) -> Turn:
        """Return a turn. `kept` are the blocks that a later request may contain. `sent` are the blocks whose
        calls the client may get."""
        made = [one.call for one in all_ if one.call is not None]
        sources = [one.source for one in kept]
        real = [one.call for one in sent if one.call is not None and not self._is_hidden(one)]
        return Turn(
            message=b'{"role":"assistant","content":[' + b",".join(sources) + b"]}" if sources else None,
            injected=tuple([InjectedCall(c.id, c.arguments) for c in made if c.name in self.called_as]),
            real_calls=tuple([call.id for call in real]),
            text="".join([one.text for one in all_]),
            signatures=tuple([one.signature for one in all_ if one.signature]),
            finished=self.finished,
            continuable=self.is_continuable(),
            response_id=self.seen.id,
            made=tuple([call for call in made if call.name not in self.called_as]),
            diagnosis=self.seen.diagnosis,
        )

    def _is_hidden(self, content: Content) -> bool:
        return content.call is not None and content.call.name in self.called_as

    def _complete(self, places: Iterable[int], contents: dict[int, Content]) -> list[int]:
        """Return the positions of the blocks that a request may contain after the message was cut off. Left
        out are calls of the injected tool, unfinished blocks other than texts, and reasoning at the end."""
        seen = self.seen
        kept = [at for at in places if at not in seen.hidden and (at != seen.open or contents[at].is_text)]
        while kept and contents[kept[-1]].signature is not None:
            kept.pop()
        return kept

    def _read(self, document: Document, value: Raw) -> Content:
        source, parts = document.source(value), self.parts(document, value)
        shown = document.string(document.members(value).get("text"))
        is_returnable = shown is None or bool(shown.strip())
        for part in parts:
            if part.kind is Kind.CALL and part.counts:
                text = document.source(part.arguments).decode() if part.arguments is not None else ""
                call = MadeCall(part.id, part.name, text, part.by_program)
                return Content(source, call, is_returnable=is_returnable)
        texts = (text for part in parts if part.kind in (Kind.TEXT, Kind.OTHER) for text in part.texts)
        return Content(
            source,
            text="".join([document.text_of(text) for text in texts]),
            signature=next((part.signature for part in parts if part.kind is Kind.REASONING), None),
            is_text=bool(parts) and all(part.kind in (Kind.TEXT, Kind.OTHER) for part in parts),
            is_returnable=is_returnable,
        )

    # Documents

    def read_whole(self, document: Document) -> Turn:
        contents = self._contents(document)
        self.finished, self.seen.stop_reason = True, document.text_of(self.reason(document))
        return self._turn([one for one in contents if one.is_returnable], contents, contents)

    def keep(self, document: Document) -> None:
        self._shown += self._visible(document)

    def put_together(self, document: Document) -> None:
        if (content := self.content(document)) is None:
            return
        calls = [one for one in self._contents(document) if one.call is not None]
        document.rewrite(content, b"[" + b",".join([*self._shown, *self._visible(document)]) + b"]")
        if calls and all(map(self._is_hidden, calls)):
            end_turn(document, self.reason(document))

    def _contents(self, document: Document) -> list[Content]:
        return [self._read(document, item) for item in document.items(self.content(document))]

    def _visible(self, document: Document) -> list[bytes]:
        return [one.source for one in self._contents(document) if not self._is_hidden(one)]


def end_turn(document: Document, reason: Raw | None) -> None:
    """If the client gets no calls, replace a stop reason such as `tool_use`."""
    if reason is not None and document.string(reason) == _CALLS:
        document.replace(reason, _NO_CALLS)


def object_or_empty(text: str) -> bytes:
    """Return a text if it is a JSON object; otherwise `{}`, because APIs accept only objects."""
    try:
        data = text.encode()
        return data if isinstance(decode(data), dict) else b"{}"
    except (NotJson, UnicodeEncodeError):
        return b"{}"
