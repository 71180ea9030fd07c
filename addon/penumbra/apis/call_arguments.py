"""The arguments of a client's tool calls within an answer, read and changed on their way to the client.

Each API has one class here. It takes a stream piece by piece, whatever its framing, or a whole document,
hands the arguments of each call to whoever `Open` gives for it, and puts into their place what comes
back. What that one holds back travels in a copy of the call's last piece, as soon as it is given free.
Calls that the provider runs itself are left alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from msgspec import Raw

from penumbra.wire.document import Document, NotJson
from penumbra.wire.framing import Piece


class Arguments(Protocol):
    """Takes the arguments of one call."""

    def feed(self, fragment: str) -> str:
        """Some of them in, what can be passed on out."""
        ...

    def finish(self) -> str:
        """The call is complete: what was held back."""
        ...


class Open(Protocol):
    """Says what becomes of a call's arguments."""

    def __call__(self, tool: str, *, freeform: bool = False) -> Arguments | None:
        """None: they stay as they are. `freeform`: they are text, else JSON."""
        ...


class ArgumentEdits(Protocol):
    """One answer of an API."""

    def piece(self, piece: Piece) -> bytes:
        """One piece of a stream: what the client gets for it."""
        ...

    def close(self) -> bytes:
        """The stream has ended: what it left behind."""
        ...

    def document(self, body: bytes) -> bytes:
        """An answer that is one document; the same object if nothing changes. Raises NotJson."""
        ...


Rewrite = Callable[[Document, str], None]
"""Puts a fragment of arguments into a copy of the piece that its call had last."""


@dataclass(slots=True)
class Call:
    """One call of a stream."""

    arguments: Arguments
    last: Piece | None = None
    """The piece with its last fragment."""
    rewrite: Rewrite | None = None

    def feed(self, piece: Piece, fragment: str, rewrite: Rewrite) -> str:
        """One fragment."""
        self.last, self.rewrite = piece, rewrite
        return self.arguments.feed(fragment)

    def flush(self) -> bytes:
        """A piece with what was held back; empty if that is nothing."""
        held = self.arguments.finish()
        if not held or self.last is None or self.rewrite is None:
            return b""
        document = Document(self.last.data or b"{}")
        self.rewrite(document, held)
        return self.last.with_data(document.render())


def whole(arguments: Arguments | None, text: str) -> str:
    """All arguments of a call at once."""
    return text if arguments is None else arguments.feed(text) + arguments.finish()


def edit_value(document: Document, value: Raw | None, arguments: Arguments | None) -> None:
    """The same for a value of a document: a string, or an object that is JSON itself."""
    if value is None or arguments is None:
        return
    text = document.string(value)
    if text is not None:
        new = whole(arguments, text)
        if new != text:
            document.replace(value, new)
    elif document.members(value):
        source = document.source(value).decode("utf-8")
        new = whole(arguments, source)
        if new != source:
            document.rewrite(value, new.encode("utf-8", "surrogatepass"))


def rendered(piece: Piece, document: Document) -> bytes:
    """The piece with its edits."""
    return piece.with_data(document.render()) if document.edits else piece.raw


class BlockEdits(ABC):
    """Answers that are lists of numbered blocks: what Anthropic's and Converse's have in common."""

    def __init__(self, open_: Open) -> None:
        self._open = open_
        self._calls: dict[object, Call] = {}

    def piece(self, piece: Piece) -> bytes:
        if piece.data is None:
            return piece.raw
        try:
            document = Document(piece.data)
        except NotJson:
            return piece.raw
        members = document.members(document.root)
        index = document.plain(self._index(members))
        if not isinstance(index, int):
            return piece.raw
        if (begun := self._begun(document, members)) is not None:
            if (arguments := self._open(begun)) is not None:
                self._calls[index] = Call(arguments)
        elif (fragment := self._fragment(document, members)) is not None:
            self._feed(piece, document, fragment, index)
        elif self._ends(document, members) and index in self._calls:
            return self._calls.pop(index).flush() + piece.raw
        return rendered(piece, document)

    def close(self) -> bytes:
        calls, self._calls = self._calls, {}
        return b"".join([call.flush() for call in calls.values()])

    def document(self, body: bytes) -> bytes:
        document = Document(body)
        for name, value in self._made(document):
            edit_value(document, value, self._open(name))
        return document.render()

    def _feed(self, piece: Piece, document: Document, fragment: Raw, index: int) -> None:
        call = self._calls.get(index)
        if call is None:
            return
        text = document.string(fragment) or ""
        new = call.feed(piece, text, self._rewrite)
        if new != text:
            document.replace(fragment, new)

    def _rewrite(self, document: Document, text: str) -> None:
        fragment = self._fragment(document, document.members(document.root))
        assert fragment is not None
        document.replace(fragment, text)

    @abstractmethod
    def _index(self, members: dict[str, Raw]) -> Raw | None: ...

    @abstractmethod
    def _begun(self, document: Document, members: dict[str, Raw]) -> str | None:
        """The tool whose call begins with this piece."""

    @abstractmethod
    def _fragment(self, document: Document, members: dict[str, Raw]) -> Raw | None: ...

    @abstractmethod
    def _ends(self, document: Document, members: dict[str, Raw]) -> bool: ...

    @abstractmethod
    def _made(self, document: Document) -> Iterator[tuple[str, Raw | None]]:
        """Name and arguments of each call in a document."""


class AnthropicEdits(BlockEdits):
    """Anthropic Messages, also through Bedrock's InvokeModel."""

    def _index(self, members: dict[str, Raw]) -> Raw | None:
        return members.get("index")

    def _begun(self, document: Document, members: dict[str, Raw]) -> str | None:
        block = document.members(members.get("content_block"))
        if document.string(block.get("type")) != "tool_use":
            return None
        name = document.string(block.get("name")) or ""
        # Some compatible servers give all arguments at once.
        edit_value(document, block.get("input"), self._open(name))
        return name

    def _fragment(self, document: Document, members: dict[str, Raw]) -> Raw | None:
        fragment = document.members(members.get("delta")).get("partial_json")
        return fragment if fragment is not None and document.is_string(fragment) else None

    def _ends(self, document: Document, members: dict[str, Raw]) -> bool:
        return document.string(members.get("type")) == "content_block_stop"

    def _made(self, document: Document) -> Iterator[tuple[str, Raw | None]]:
        for item in document.items(document.members(document.root).get("content")):
            block = document.members(item)
            if document.string(block.get("type")) == "tool_use":
                yield document.string(block.get("name")) or "", block.get("input")


class ConverseEdits(BlockEdits):
    """Bedrock's Converse."""

    def _index(self, members: dict[str, Raw]) -> Raw | None:
        return members.get("contentBlockIndex")

    def _begun(self, document: Document, members: dict[str, Raw]) -> str | None:
        use = document.members(members.get("start")).get("toolUse")
        return None if use is None else document.string(document.members(use).get("name")) or ""

    def _fragment(self, document: Document, members: dict[str, Raw]) -> Raw | None:
        use = document.members(document.members(members.get("delta")).get("toolUse"))
        fragment = use.get("input")
        return fragment if fragment is not None and document.is_string(fragment) else None

    def _ends(self, document: Document, members: dict[str, Raw]) -> bool:
        return "start" not in members and "delta" not in members

    def _made(self, document: Document) -> Iterator[tuple[str, Raw | None]]:
        output = document.members(document.members(document.root).get("output"))
        for item in document.items(document.members(output.get("message")).get("content")):
            use = document.members(document.members(item).get("toolUse"))
            yield document.string(use.get("name")) or "", use.get("input")
