"""What a client has said and got on a socket: where only new items travel, the whole of it in one request.

A provider that refuses a request on a socket forgets the response that it was to go on from, unless it has
stored that. So what is sent instead must carry the history itself, as a client sends it on a new socket.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, encode

_BEFORE = "previous_response_id"
_MOST_BYTES = 64 << 20
"""A longer history is not kept: no context holds it."""


@dataclass(slots=True)
class Said:
    """One request of a client, and what it has got for it so far."""

    frame: bytes
    input: list[bytes] | None
    """All items in front of the response, JSON; None: not known."""
    known_as: str = ""
    """The id by which the client knows the response."""
    got: list[bytes] = field(default_factory=list)
    """Items of the response."""

    def whole(self) -> bytes | None:
        """The request with all of its history, which may be the frame itself; None: that is not known."""
        if not self.before:
            return self.frame
        if self.input is None:
            return None
        document = Document(self.frame)
        members = document.members(document.root)
        document.remove_member(members[_BEFORE])
        document.rewrite(members["input"], b"[" + b",".join(self.input) + b"]")
        return document.render()

    @property
    def before(self) -> str:
        """The id of the response that the request goes on from; empty if it begins a conversation."""
        document = Document(self.frame)
        return document.string(document.members(document.root).get(_BEFORE)) or ""

    @property
    def is_stored(self) -> bool:
        """The provider finds what the request goes on from, whatever has become of its socket."""
        document = Document(self.frame)
        return document.plain(document.members(document.root).get("store")) is not False


class SocketHistory:
    """What was said in one lane, as the client knows it."""

    def __init__(self) -> None:
        self._known_as = ""
        self._items: list[bytes] | None = None

    def asked(self, frame: bytes) -> Said:
        """The client asks for a response."""
        try:
            document = Document(frame)
        except NotJson:
            return Said(frame, None)
        members = document.members(document.root)
        given = members.get("input")
        text = document.string(given)
        new = [document.source(item) for item in document.items(given)]
        if text is not None:
            new = [encode({"role": "user", "content": text})]
        before = document.string(members.get(_BEFORE))
        if before is None:
            return Said(frame, new)
        kept = self._items if before == self._known_as and given is not None else None
        return Said(frame, None if kept is None else [*kept, *new])

    def answered(self, said: Said) -> None:
        """A response is complete."""
        self._known_as = said.known_as
        self._items = None if said.input is None else [*said.input, *said.got]
        if self._items is not None and sum(map(len, self._items)) > _MOST_BYTES:
            self._items = None

    def lose(self) -> None:
        """Something is said that is not kept here."""
        self._items = None


def item_done(frame: bytes) -> bytes | None:
    """The item that a frame of a response completes."""
    document = Document(frame)
    item = document.members(document.root).get("item")
    return None if item is None else document.source(item)
