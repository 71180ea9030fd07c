"""OpenAI Responses over WebSocket: the same requests and events, one to a frame.

The provider keeps the last response of a connection for as long as the connection lives, whatever `store`
says, and forgets what came before: a hidden turn is continued from its own id, and nothing but results
travel. Requests with the same `stream_id` are answered one after the other.

Frames carry new items only, so all that a client has said and got is kept here, as one request. A provider
that refuses a request on a socket forgets the response that the request was to go on from, unless it has
stored that response: the request that is sent instead carries the history itself, as on a new socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

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
"""Events before the last that describe the whole response, and name the one before it."""
ITEM_DONE = "response.output_item.done"
_FAILS = frozenset(("response.failed", "error"))
_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed", "error"))
_BEFORE = "previous_response_id"
_NAMED = (_BEFORE, "response_id")
_MOST_BYTES = 64 << 20
"""A longer history is not kept: no context holds it."""


class Envelope(msgspec.Struct, frozen=True):
    """Members of a frame that are read before it is opened; missing ones are empty."""

    type: str = ""
    stream_id: str | None = None
    previous_response_id: str | None = None

    @property
    def stream(self) -> str:
        """Frames of one stream are in order; of several, in none."""
        return self.stream_id or ""

    @property
    def fails(self) -> bool:
        """The frame is an error, or the end of a response that failed."""
        return self.type in _FAILS

    @property
    def says(self) -> bool:
        """The frame holds something of a response; those before it only announce one."""
        return self.type.startswith("response.") and self.type not in NAMING and not self.fails

    @property
    def ends(self) -> bool:
        """The frame is the last one of a response."""
        return self.type in _ENDS


_ENVELOPE = msgspec.json.Decoder(Envelope)


def envelope(frame: bytes) -> Envelope | None:
    """The outside of a frame; None if it is none of this API's."""
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
    """The id of the response that a frame begins; empty if it has none."""
    document = Document(frame)
    response = document.members(document.top.get("response"))
    return document.text_of(response.get("id"))


def renamed(frame: bytes, ids: dict[str, str]) -> bytes:
    """A frame that names responses by other ids; the very same object if it names none of them."""
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
    """A frame for the client, which knows responses by other ids than the provider.

    `asked_from`: what the client wanted to go on from where the provider got all of it instead.
    """
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
    """Items of one stream up to the end of its last response."""

    def __init__(self) -> None:
        self._response_id = ""
        self._items: list[bytes] | None = None
        """The items of the conversation; None if some are unknown."""

    def before(self, response_id: str) -> list[bytes] | None:
        """Return the items before a request that goes on from this response, or from none; None if they are
        not known."""
        if not response_id:
            return []
        return self._items if response_id == self._response_id else None

    def keep(self, response_id: str, items: list[bytes] | None) -> None:
        """Take the end of a response: all items up to there."""
        is_short = items is not None and sum(map(len, items)) <= _MOST_BYTES
        self._response_id, self._items = response_id, items if is_short else None

    def lose(self) -> None:
        """Forget the items: something is said that is not known here."""
        self._items = None


class Transcript(History):
    """Items as the provider has got them.

    A request that fails takes away from the connection what it wanted to go on from, so that it can only
    be asked again with everything that came before it.
    """

    def answered(self, frame: bytes, turn: Turn) -> None:
        """Take a request that has been answered to the end."""
        document = Document(frame)
        before = self.before(_named(document))
        message = [turn.message] if turn.message else []
        self.keep(turn.response_id, None if before is None else [*before, *_input(document), *message])

    def whole(self, frame: bytes) -> bytes | None:
        """Return a request that failed, so that it can be asked again; None if it can't."""
        document = Document(frame)
        top = document.top
        if not (named := _named(document)) or document.plain(top.get("store")) is not False:
            return frame
        if (before := self.before(named)) is None:
            return None
        return _with_history(document, storable(document, [*before, *_input(document)]))


def _named(document: Document) -> str:
    """Return the id of the response that a request goes on from; empty if it begins a conversation."""
    return document.text_of(document.top.get(_BEFORE))


def _with_history(document: Document, items: Sequence[bytes]) -> bytes:
    """Return a request with these items instead of the response that it goes on from."""
    top = document.top
    document.rewrite(top["input"], b"[" + b",".join(items) + b"]")
    document.remove_member(top[_BEFORE])
    return document.render()


def _input(document: Document) -> list[bytes]:
    given = document.top.get("input")
    if (text := document.string(given)) is not None:
        return [encode({"role": "user", "content": text})]
    return [document.source(item) for item in document.items(given)]


def refusal(status: int, body: bytes, stream_id: str) -> bytes:
    """The frame for what HTTP would answer with this status and this body of an error."""
    frame = {"type": "error", "status": status, "error": decode(body)["error"]}
    return encode({**frame, "stream_id": stream_id} if stream_id else frame)


@dataclass(frozen=True, slots=True)
class FrameReader:
    """Every piece is a whole event."""

    def feed(self, data: bytes) -> Sequence[SseEvent]:
        return [Frame(data, "", data)]

    def close(self) -> Sequence[SseEvent]:
        return []


FRAMES = Framing(FrameReader)
RESPONSES = Responses(ResponsesTurns, ResponsesArguments, lambda: FRAMES)


class SocketFormat(ResponsesFormat):
    """Frames of a WebSocket, one event to a frame."""

    breaks_off = False

    def tools(self, request: Document) -> Tools:
        return replace(super().tools(request), threaded=True)

    def extended(self, request: bytes, messages: Sequence[bytes], response_id: str = "") -> bytes:
        # The first message is the turn itself, which the provider has.
        document = Document(request)
        top = document.top
        document.rewrite(top["input"], b"[" + b",".join(messages[1:]) + b"]")
        if (before := top.get("previous_response_id")) is not None:
            document.replace(before, response_id)
        else:
            document.add_member(document.root, "previous_response_id", encode(response_id))
        return document.render()


@dataclass(slots=True)
class Said:
    """One request of a client, and what it has got for it so far."""

    frame: bytes
    input: list[bytes] | None
    """All items before the response, JSON; None: not known."""
    known_as: str = ""
    """The id by which the client knows the response."""
    got: list[bytes] = field(default_factory=list)
    """Items of the response."""

    def whole(self) -> bytes | None:
        """Return the request with all of its history, which may be the frame itself; None: that is not
        known."""
        if not self.before:
            return self.frame
        return None if self.input is None else _with_history(Document(self.frame), self.input)

    @property
    def before(self) -> str:
        """The id of the response that the request goes on from; empty if it begins a conversation."""
        return _named(Document(self.frame))

    @property
    def is_stored(self) -> bool:
        """The provider finds what the request goes on from, whatever has become of its socket."""
        document = Document(self.frame)
        return document.plain(document.top.get("store")) is not False


class SocketHistory(History):
    """Items as the client knows them."""

    def asked(self, frame: bytes) -> Said:
        """Take a request of the client."""
        try:
            document = Document(frame)
        except NotJson:
            return Said(frame, None)
        before, given = self.before(named := _named(document)), document.top.get("input")
        if before is None or (named and given is None):
            return Said(frame, None)
        return Said(frame, [*before, *_input(document)])

    def answered(self, said: Said) -> None:
        """Take a response that is complete."""
        self.keep(said.known_as, None if said.input is None else [*said.input, *said.got])


def item_done(frame: bytes) -> bytes | None:
    document = Document(frame)
    item = document.top.get("item")
    return None if item is None else document.source(item)
