"""One event of a streamed response, from its bytes to its bytes: read once, edited, written once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from msgspec import Raw

from penumbra.wire.document import Document
from penumbra.wire.framing import Piece
from penumbra.wire.json_values import NotJson


@dataclass(slots=True)
class Event:
    """A piece of a stream with its JSON, and the edits made to it so far."""

    piece: Piece
    document: Document | None
    """None: comments, blanks, and all else that is no JSON."""
    is_changed: bool = False
    """The document is no longer what the piece says."""

    @classmethod
    def read(cls, piece: Piece) -> Event:
        """The event that a piece is."""
        if piece.data is None:
            return cls(piece, None)
        try:
            return cls(piece, Document(piece.data))
        except NotJson:
            return cls(piece, None)

    @property
    def members(self) -> dict[str, Raw]:
        """The members of the document; empty if it is no object."""
        return self.document.members(self.document.root) if self.document is not None else {}

    def settle(self) -> None:
        """What was edited becomes part of the document, so that it can be read and edited again."""
        if self.document is not None and self.document.edits:
            self.document = Document(self.document.render())
            self.is_changed = True

    def copy(self) -> Event:
        """The same event without its edits."""
        document = Document(self.document.data) if self.document is not None else None
        return Event(self.piece, document, self.is_changed)

    def data(self) -> bytes:
        """The JSON with its edits; empty if there is none."""
        return self.document.render() if self.document is not None else b""

    def bytes(self) -> bytes:
        """What goes on the wire."""
        if self.document is None or not (self.is_changed or self.document.edits):
            return self.piece.raw
        return self.piece.with_data(self.document.render())


class Filter(Protocol):
    """What is done to one response, beside hiding the injected tool."""

    def event(self, event: Event) -> Iterable[Event]:
        """One event of a stream: what the client gets for it."""
        ...

    def close(self) -> Iterable[Event]:
        """The stream has ended: what was held back."""
        ...

    def document(self, document: Document) -> None:
        """Edit a response that is one document."""
        ...
