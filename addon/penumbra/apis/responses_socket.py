"""This module handles OpenAI Responses over WebSocket. A frame is a request or an event of the HTTP API.

The provider keeps the last response of a connection until the connection closes, whatever `store` says. A
request that continues a hidden turn therefore has the turn's id and only results. Requests with the same
`stream_id` are answered one by one.

Frames may have only new items, so this module keeps the client's whole conversation, up to a limit. When a
provider refuses a request, it forgets the response that the request continues, except a stored response. The
next request then contains the whole history, as on a new connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from penumbra.apis.base import Tools, Turn
from penumbra.apis.openai_responses import ResponsesArguments, ResponsesFormat, ResponsesTurns, storable
from penumbra.apis.responses import Responses
from penumbra.apis.turns import Frame, Framing
from penumbra.wire.document import Document
from penumbra.wire.framing import SseEvent
from penumbra.wire.json_values import NotJson, decode, encode

CREATE = "response.create"
STEER = "response.steer"
BEGIN = "response.created"
NAMING = frozenset((BEGIN, "response.queued", "response.in_progress"))
"""The events that describe the whole response and name the previous one. `response.completed` and the other
last events of a response also do so, but are not in this set."""
ITEM_DONE = "response.output_item.done"
_FAILS = frozenset(("response.failed", "error"))
_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed", "error"))
_BEFORE = "previous_response_id"
_NAMED = (_BEFORE, "response_id")
_MOST_BYTES = 64 << 20
"""The size in bytes of the largest history that is kept."""


class Envelope(msgspec.Struct, frozen=True):
    """An `Envelope` has some members of a frame. Other members are not parsed. Missing members are empty or
    None."""

    type: str = ""
    stream_id: str | None = None
    previous_response_id: str | None = None

    @property
    def stream(self) -> str:
        """The name of the frame's stream. The frames of a stream are in order."""
        return self.stream_id or ""

    @property
    def fails(self) -> bool:
        """True if the frame is an error, or the end of a response that failed."""
        return self.type in _FAILS

    @property
    def has_content(self) -> bool:
        """True if the frame has a part of a response. The first frames only announce the response."""
        return self.type.startswith("response.") and self.type not in NAMING and not self.fails

    @property
    def ends(self) -> bool:
        """True if the frame is the last frame of a response."""
        return self.type in _ENDS


_ENVELOPE = msgspec.json.Decoder(Envelope)


def envelope(frame: bytes) -> Envelope | None:
    """Return the envelope of a frame; None if the frame is no frame of this API."""
    try:
        envelope = _ENVELOPE.decode(frame)
        return envelope if envelope.type else None
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        document = Document(frame)
    except NotJson:
        return None
    members = document.top
    kind, *ids = (document.string(members.get(name)) for name in Envelope.__struct_fields__)
    return Envelope(kind, *ids) if kind else None


def response_id(frame: bytes) -> str:
    """Return the id of the response that a frame begins; empty if there is no id."""
    document = Document(frame)
    return document.text_of(document.members(document.top.get("response")).get("id"))


def renamed(frame: bytes, ids: dict[str, str]) -> bytes:
    """Return a frame with the ids of responses replaced; the same object if it has none of these ids."""
    try:
        document = Document(frame)
    except NotJson:
        return frame
    members = document.top
    for name in _NAMED:
        named = document.string(members.get(name))
        if named and named in ids:
            document.replace(members[name], ids[named])
    return document.render()


def for_client(frame: bytes, ids: dict[str, str], stream_id: str, asked_from: str = "") -> bytes:
    """Return a frame for the client, with the client's ids of responses. `asked_from` is the id of the
    continued response if only the client has sent it; otherwise empty."""
    try:
        document = Document(frame)
    except NotJson:
        return frame
    top = document.top
    before = document.members(top.get("response")).get(_BEFORE)
    named = document.string(before)
    if before is not None and named in ids:
        document.replace(before, ids[named])
    elif before is not None and named is None and asked_from:
        document.replace(before, asked_from)
    if stream_id and "stream_id" not in top:
        document.add_member(document.root, "stream_id", encode(stream_id))
    return document.render()


class History:
    """A `History` has the items of one stream up to the end of its last response."""

    def __init__(self) -> None:
        self._response_id = ""
        self._items: list[bytes] | None = None
        """The items of the conversation; None if some are unknown."""

    def before(self, response_id: str) -> list[bytes] | None:
        """Return the items up to the end of this response; no items if the id is empty; None if some items
        are unknown."""
        if not response_id:
            return []
        return self._items if response_id == self._response_id else None

    def keep(self, response_id: str, items: list[bytes] | None) -> None:
        """Store all items up to the end of a response."""
        is_short = items is not None and sum(map(len, items)) <= _MOST_BYTES
        self._response_id, self._items = response_id, items if is_short else None

    def lose(self) -> None:
        """Drop the items, because the conversation has got unknown items."""
        self._items = None


class Transcript(History):
    """A `Transcript` has the items that the provider got. When a request fails, the provider forgets the
    response before it, except a stored response. After that, only the whole history can be sent."""

    def answered(self, frame: bytes, turn: Turn) -> None:
        """Store the items of a request whose response is complete."""
        document = Document(frame)
        before = self.before(_named(document))
        message = [turn.message] if turn.message else []
        self.keep(turn.response_id, None if before is None else [*before, *_input(document), *message])

    def whole(self, frame: bytes) -> bytes | None:
        """Return a failed request so that it can be sent again; None if its history is needed and unknown."""
        document = Document(frame)
        top = document.top
        if not (named := _named(document)) or document.plain(top.get("store")) is not False:
            return frame
        before = self.before(named)
        if before is None or "input" not in top:
            return None
        return _with_history(document, storable(document, [*before, *_input(document)]))


def _named(document: Document) -> str:
    """Return the id of the response that a request continues; empty if the request begins a conversation."""
    return document.text_of(document.top.get(_BEFORE))


def _with_history(document: Document, items: Sequence[bytes]) -> bytes:
    """Return a request with these items as input, and without the id of the response that it continues."""
    top = document.top
    document.rewrite(top["input"], b"[" + b",".join(items) + b"]")
    document.remove_member(top[_BEFORE])
    return document.render()


def _input(document: Document) -> list[bytes]:
    value = document.top.get("input")
    if (text := document.string(value)) is not None:
        return [encode({"role": "user", "content": text})]
    return [document.source(item) for item in document.items(value)]


def refusal(status: int, body: bytes, stream_id: str) -> bytes:
    """Return the frame that is equivalent to an HTTP response with this status and error body."""
    frame = {"type": "error", "status": status, "error": decode(body)["error"]}
    return encode({**frame, "stream_id": stream_id} if stream_id else frame)


@dataclass(frozen=True, slots=True)
class FrameReader:
    """A reader that treats each piece of input as one event."""

    def feed(self, data: bytes) -> Sequence[SseEvent]:
        return [Frame(data, "", data)]

    def close(self) -> Sequence[SseEvent]:
        return []


FRAMES = Framing(FrameReader)
RESPONSES = Responses(ResponsesTurns, ResponsesArguments, lambda: FRAMES)


class SocketFormat(ResponsesFormat):
    """The format of the frames of a WebSocket; each frame is one event."""

    breaks_off = False

    def tools(self, request: Document) -> Tools:
        return structs.replace(super().tools(request), threaded=True)

    def extended(self, request: bytes, messages: Sequence[bytes], response_id: str = "") -> bytes:
        # The first message is the turn itself, which the provider already has.
        document = Document(request)
        top = document.top
        document.rewrite(top["input"], b"[" + b",".join(messages[1:]) + b"]")
        if (before := top.get("previous_response_id")) is not None:
            document.replace(before, response_id)
        else:
            document.add_member(document.root, "previous_response_id", encode(response_id))
        return document.render()


@dataclass(slots=True)
class SocketRequest:
    """A `SocketRequest` is a request of the client with the items of its response so far."""

    frame: bytes
    input: list[bytes] | None
    """The JSON of all items before the response; None if unknown."""
    known_as: str = ""
    """The client's id of the response."""
    got: list[bytes] = field(default_factory=list)
    """Items of the response."""

    def whole(self) -> bytes | None:
        """Return the request with its whole history; None if the history is not known."""
        if not self.before:
            return self.frame
        return None if self.input is None else _with_history(Document(self.frame), self.input)

    @property
    def before(self) -> str:
        """The id of the response that the request continues; empty if the request begins a conversation."""
        return _named(Document(self.frame))

    @property
    def is_stored(self) -> bool:
        """True unless the request forbids the provider to store responses."""
        document = Document(self.frame)
        return document.plain(document.top.get("store")) is not False


class SocketHistory(History):
    """A `SocketHistory` has the items that the client knows."""

    def asked(self, frame: bytes) -> SocketRequest:
        """Return a request with all items before its response. `input` is None if some items are unknown."""
        try:
            document = Document(frame)
        except NotJson:
            return SocketRequest(frame, None)
        before, new = self.before(named := _named(document)), document.top.get("input")
        if before is None or (named and new is None):
            return SocketRequest(frame, None)
        return SocketRequest(frame, [*before, *_input(document)])

    def answered(self, request: SocketRequest) -> None:
        """Store the items of a request whose response is complete."""
        self.keep(request.known_as, None if request.input is None else [*request.input, *request.got])


def item_done(frame: bytes) -> bytes | None:
    """Return the complete item in a frame; None if the frame has no complete item."""
    document = Document(frame)
    item = document.top.get("item")
    return None if item is None else document.source(item)
