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
from penumbra.apis.turns import Turns, WholeTurns
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
    def call(self) -> MadeCall | None:
        """The call of a client's tool that the block is."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The visible text."""

    @property
    @abstractmethod
    def signature(self) -> str:
        """Signature by which the provider recognises the reasoning; empty if there is none."""

    @property
    @abstractmethod
    def is_reasoning(self) -> bool: ...

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
    """A stream of content blocks."""

    index: ClassVar[str]
    """The member that numbers blocks."""
    begins: ClassVar[str]
    """The member that has the beginning of a block."""

    def __init__(self, injected_tool: str) -> None:
        self._started = False
        self._before = self._next = 0
        """How many blocks the client knows of earlier turns, and of all up to here."""
        super().__init__(injected_tool)

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
        """The stop reason in an event."""

    @abstractmethod
    def is_continuable(self) -> bool:
        """Results can be put behind the turn."""

    def begin_turn(self) -> None:
        self.seen = _Turn()

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
            if (call := block.call()) is not None and call.name == self.injected_tool:
                seen.hidden.add(index)
            if call is not None:
                self.hidden_names.note([call.id], hidden=index in seen.hidden)
            seen.shows_calls |= call is not None and index not in seen.hidden
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
        seen = self.seen
        sources = {index: seen.blocks[index].json() for index in sorted(seen.blocks)}
        kept = [index for index, source in sources.items() if source]
        calls = {index: call for index, block in seen.blocks.items() if (call := block.call())}
        if not self.finished:
            kept = self._complete(kept)
        real = [call for index, call in sorted(calls.items()) if index not in seen.hidden]
        hidden = [call for index, call in sorted(calls.items()) if index in seen.hidden]
        blocks = [block for _, block in sorted(seen.blocks.items())]
        return Turn(
            message=message([sources[index] for index in kept]),
            injected=tuple(InjectedCall(call.id, call.arguments) for call in hidden),
            real_calls=tuple(
                call.id
                for index, call in sorted(calls.items())
                if index not in seen.hidden and (self.finished or index in kept)
            ),
            text="".join([block.text for block in blocks]),
            signatures=tuple(filter(None, [block.signature for block in blocks])),
            finished=self.finished,
            continuable=self.is_continuable(),
            response_id=seen.id,
            made=tuple(real),
            diagnosis=seen.diagnosis,
        )

    def _complete(self, indexes: list[int]) -> list[int]:
        """Blocks of a broken-off message that can be sent: of what is under way only text, no call that
        nobody answers, and no reasoning at the end."""
        seen = self.seen
        kept = [
            index
            for index in indexes
            if index not in seen.hidden and (index != seen.open or seen.blocks[index].may_be_cut)
        ]
        while kept and seen.blocks[kept[-1]].is_reasoning:
            kept.pop()
        return kept


class WholeBlocks(WholeTurns):
    """A document with content blocks."""

    def __init__(self, injected_tool: str) -> None:
        super().__init__(injected_tool)
        self._shown: list[bytes] = []
        """The client's blocks of turns that were continued."""

    @abstractmethod
    def content(self, document: Document) -> Raw | None:
        """The array of blocks; None: the document is no message."""

    @abstractmethod
    def said(self, document: Document, block: Raw) -> Said: ...

    def hide_turn(self, document: Document) -> None:
        self._shown += self._visible(document)

    def blocks(self, document: Document) -> list[tuple[Raw, Said]]:
        """The blocks of a message, and what they say."""
        return [(item, self.said(document, item)) for item in document.items(self.content(document))]

    def is_hidden(self, said: Said) -> bool:
        """The block is a call of the injected tool."""
        return said.call is not None and said.name == self.injected_tool

    def _visible(self, document: Document) -> list[bytes]:
        blocks = self.blocks(document)
        return [document.source(item) for item, said in blocks if not self.is_hidden(said)]

    def put_right(self, document: Document) -> None:
        content = self.content(document)
        if content is None:
            return
        calls = [said for _, said in self.blocks(document) if said.call is not None]
        document.rewrite(content, b"[" + b",".join([*self._shown, *self._visible(document)]) + b"]")
        if calls and all(map(self.is_hidden, calls)):
            end_turn(document, self.reason(document))

    def turn(self, document: Document) -> Turn:
        blocks = self.blocks(document)
        calls = [said for _, said in blocks if said.call is not None]
        hidden = [said for said in calls if self.is_hidden(said)]
        real = [said for said in calls if not self.is_hidden(said)]
        return Turn(
            message=message([document.source(item) for item, _ in blocks if is_returnable(document, item)]),
            injected=tuple(InjectedCall(said.call or "", said.arguments) for said in hidden),
            real_calls=tuple(said.call or "" for said in real),
            text="".join([said.text for _, said in blocks]),
            signatures=tuple(said.signature for _, said in blocks if said.signature),
            finished=True,
            continuable=self.is_continuable(document.string(self.reason(document)) or ""),
            made=tuple(
                MadeCall(said.call or "", said.name, said.arguments, said.by_program) for said in real
            ),
        )

    @abstractmethod
    def reason(self, document: Document) -> Raw | None:
        """The stop reason."""

    @staticmethod
    @abstractmethod
    def is_continuable(reason: str) -> bool:
        """Results can be put behind a turn that ended so."""


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
