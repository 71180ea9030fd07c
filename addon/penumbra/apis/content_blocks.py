"""Responses that are lists of content blocks: Anthropic's, and Bedrock's Converse.

A stream numbers the blocks; those of the injected tool are taken out and the rest is numbered anew. The
end of a turn is held back as soon as a call of the injected tool was seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar

from msgspec import Raw

from penumbra.apis.base import CacheDiagnosis, Event, InjectedCall, MadeCall, Said, Turn
from penumbra.apis.prompt import Kind, Part
from penumbra.apis.turns import Framing, Turns
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode

_CALLS, _NO_CALLS = "tool_use", "end_turn"
"""Stop reasons of a turn that ends in calls, and of one that does not."""


class EventKind(Enum):
    """The subject of an event."""

    START = auto()
    BLOCK_BEGINS = auto()
    BLOCK_GROWS = auto()
    BLOCK_ENDS = auto()
    END = auto()
    """Stop reason, figures, or the last event of all."""


class Block(ABC):
    """A content block, put together from its events."""

    @abstractmethod
    def start(self, value: dict[str, Any]) -> None:
        """Takes in the block's first event, if there is one."""

    @abstractmethod
    def add(self, delta: dict[str, Any]) -> None:
        """Takes in one piece of the block."""

    @abstractmethod
    def said(self) -> Said:
        """The block as far as it has arrived."""

    @property
    @abstractmethod
    def may_be_cut(self) -> bool:
        """True if the beginning of the block is of use alone."""

    @abstractmethod
    def json(self) -> bytes:
        """The block as a request would carry it; empty if the API would not take it back."""


@dataclass(slots=True)
class _Turn:
    blocks: dict[int, Block] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)
    """Blocks that are calls of the injected tool."""
    shows_calls: bool = False
    open: int = -1
    """The block that is under way."""
    stop_reason: str = ""
    id: str = ""
    diagnosis: CacheDiagnosis | None = None


class BlockTurns(Turns):
    """Content blocks, in a stream or in one document."""

    index: ClassVar[str]
    """The member that numbers blocks."""
    begins: ClassVar[str]
    """The member that has the beginning of a block."""

    def __init__(self, framing: Framing, injected_tool: str, before: str = "") -> None:
        self._started = False
        self._before = self._next = 0
        """The number of blocks that the client knows of earlier turns, and of all so far."""
        self._shown: list[bytes] = []
        """The client's blocks of documents whose turns were continued."""
        super().__init__(framing, injected_tool, before)

    @abstractmethod
    def kind(self, event: Event) -> EventKind | None:
        """The subject of an event; None: no block or message."""

    @abstractmethod
    def new_block(self) -> Block: ...

    @abstractmethod
    def note(self, event: Event, document: Document) -> None:
        """Keep what the start or the end of a turn says."""

    @abstractmethod
    def reason(self, document: Document) -> Raw | None:
        """The stop reason in an event, or in a document."""

    @abstractmethod
    def is_continuable(self) -> bool:
        """Results can be put after the turn."""

    def begin_turn(self) -> None:
        self.seen = _Turn()

    @abstractmethod
    def content(self, document: Document) -> Raw | None:
        """The array of blocks of a document; None: it is no message."""

    @abstractmethod
    def parts(self, document: Document, block: Raw) -> Sequence[Part]:
        """A block of a document, as a request has it."""

    def hide_turn(self) -> None:
        self._before = self._next

    def holds(self) -> bool:
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
                return self.hold(event)
            self.put_right(event)
        elif kind is not None:
            return self._block(kind, event, document)
        return (event,)

    def _block(self, kind: EventKind, event: Event, document: Document) -> Iterable[Event]:
        members, seen = event.members, self.seen
        index = document.plain(members.get(self.index))
        if not isinstance(index, int):
            return (event,)
        if kind is EventKind.BLOCK_BEGINS or index not in seen.blocks:
            seen.blocks[index] = self.new_block()
            # A number that begins anew names another block, hidden or not.
            seen.hidden.discard(index)
        block = seen.blocks[index]
        seen.open = index if kind is not EventKind.BLOCK_ENDS else -1
        if kind is EventKind.BLOCK_BEGINS and isinstance(
            first := document.plain(members.get(self.begins)), dict
        ):
            block.start(first)
            said = block.said()
            if self._is_hidden(said):
                seen.hidden.add(index)
            if said.call is not None:
                self.hidden_names.note([said.call], hidden=index in seen.hidden)
            seen.shows_calls |= said.call is not None and index not in seen.hidden
        if kind is EventKind.BLOCK_GROWS and isinstance(delta := document.plain(members.get("delta")), dict):
            block.add(delta)
        if index in seen.hidden:
            return ()
        shown = self._before + index - sum([hidden < index for hidden in seen.hidden])
        self._next = max(self._next, shown + 1)
        if shown != index:
            document.replace(members[self.index], shown)
        return (event,)

    def put_right(self, event: Event) -> None:
        assert event.document is not None
        reason = self.reason(event.document)
        if self.seen.hidden and not self.seen.shows_calls:
            end_turn(event.document, reason)
        self.usage.add(event.document, event.document.root, self.hidden_usage, self.metrics)

    def turn(self) -> Turn:
        blocks = self.seen.blocks
        sources = {index: blocks[index].json() for index in sorted(blocks)}
        kept = [index for index, source in sources.items() if source]
        if not self.finished:
            kept = self._complete(kept)
        said = {index: blocks[index].said() for index in sources}
        sent = kept if not self.finished else list(said)
        return self._turn(
            [sources[index] for index in kept], [*said.values()], [said[index] for index in sent]
        )

    def _turn(self, sources: Sequence[bytes], said: Sequence[Said], sent: Sequence[Said]) -> Turn:
        """A turn of these blocks, of which those in `sources` may be returned, and the calls in `sent` are
        the client's to answer."""
        hidden = [one for one in said if self._is_hidden(one)]
        calls = [one for one in said if one.call is not None and not self._is_hidden(one)]
        return Turn(
            message=message(sources),
            injected=tuple(InjectedCall(one.call or "", one.arguments) for one in hidden),
            real_calls=tuple(one.call for one in sent if one.call is not None and not self._is_hidden(one)),
            text="".join([one.text for one in said]),
            signatures=tuple(one.signature for one in said if one.signature),
            finished=self.finished,
            continuable=self.is_continuable(),
            response_id=self.seen.id,
            made=tuple(MadeCall(one.call or "", one.name, one.arguments, one.by_program) for one in calls),
            diagnosis=self.seen.diagnosis,
        )

    def _is_hidden(self, said: Said) -> bool:
        """The block is a call of the injected tool."""
        return said.call is not None and said.name == self.injected_tool

    def _complete(self, indexes: list[int]) -> list[int]:
        """Blocks of a broken-off message that can be sent: of unfinished ones only text, no unanswered call,
        and no reasoning at the end."""
        seen = self.seen
        kept = [
            index
            for index in indexes
            if index not in seen.hidden and (index != seen.open or seen.blocks[index].may_be_cut)
        ]
        while kept and seen.blocks[kept[-1]].said().signature is not None:
            kept.pop()
        return kept

    # Documents

    def read_whole(self, document: Document) -> Turn:
        blocks = self._blocks(document)
        said = [one for _, one in blocks]
        self.finished, self.seen.stop_reason = True, document.text_of(self.reason(document))
        sources = [document.source(item) for item, _ in blocks if is_returnable(document, item)]
        return self._turn(sources, said, said)

    def keep(self, document: Document) -> None:
        self._shown += self._visible(document)

    def put_together(self, document: Document) -> None:
        content = self.content(document)
        if content is None:
            return
        calls = [said for _, said in self._blocks(document) if said.call is not None]
        document.rewrite(content, b"[" + b",".join([*self._shown, *self._visible(document)]) + b"]")
        if calls and all(map(self._is_hidden, calls)):
            end_turn(document, self.reason(document))

    def _blocks(self, document: Document) -> list[tuple[Raw, Said]]:
        return [
            (item, _said(document, self.parts(document, item)))
            for item in document.items(self.content(document))
        ]

    def _visible(self, document: Document) -> list[bytes]:
        return [document.source(item) for item, said in self._blocks(document) if not self._is_hidden(said)]


def _said(document: Document, parts: Sequence[Part]) -> Said:
    """Return a block by its parts."""
    for part in parts:
        if part.kind is Kind.CALL and part.counts:
            given = document.source(part.arguments).decode() if part.arguments is not None else ""
            return Said(part.id, part.name, given, by_program=part.by_program)
    texts = (text for part in parts if part.kind in (Kind.TEXT, Kind.OTHER) for text in part.texts)
    signature = next((part.signature for part in parts if part.kind is Kind.REASONING), None)
    return Said(text="".join(document.text_of(text) for text in texts), signature=signature)


def end_turn(document: Document, reason: Raw | None) -> None:
    """The turn does not end in calls for the client, so its stop reason must not say so."""
    if reason is not None and document.string(reason) == _CALLS:
        document.replace(reason, _NO_CALLS)


def is_returnable(document: Document, block: Raw) -> bool:
    """The APIs refuse text blocks without any visible character."""
    text = document.string(document.members(block).get("text"))
    return text is None or bool(text.strip())


def message(blocks: Sequence[bytes]) -> bytes | None:
    """An assistant message as a request would carry it."""
    return b'{"role":"assistant","content":[' + b",".join(blocks) + b"]}" if blocks else None


def object_or_empty(text: str) -> bytes:
    """The text, if it is a JSON object; the APIs take nothing else as a call's input."""
    try:
        data = text.encode()
        return data if isinstance(decode(data), dict) else b"{}"
    except (NotJson, UnicodeEncodeError):
        return b"{}"
