"""This module has the classes that the formats and other packages share.

The client gets one *response*, which is made of one or more *turns* of the provider. If all calls at the end
of a turn are calls of the injected tool, the proxy continues the conversation without the client. A
`Response` takes the bytes of all turns and returns the bytes of one message. An `ApiFormat` reads the
conversation of a request, continues it, and puts hidden exchanges back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from penumbra.apis.usage import Ending
from penumbra.wire.document import Document
from penumbra.wire.framing import Piece, SseEvent
from penumbra.wire.json_values import NotJson, encode


@dataclass(slots=True)
class Event:
    """An `Event` is an event of a stream, or a whole body, with its JSON and its edits."""

    piece: Piece
    document: Document | None
    """The JSON of the event; None if the event has no JSON, as a comment."""
    is_changed: bool = False
    """True if the document is not the JSON that was received."""
    members: dict[str, Raw] = field(init=False)
    """The members of the document; none if it is no object."""
    type: str = field(init=False)
    """The type of the event from its JSON, or else from its SSE field; empty if there is no type."""

    def __post_init__(self) -> None:
        document = self.document
        self.members = document.top if document is not None else {}
        named = document.string(self.members.get("type")) if document is not None else ""
        self.type = named or (self.piece.name if isinstance(self.piece, SseEvent) else "")

    @classmethod
    def read(cls, piece: Piece) -> Event:
        if piece.data is None:
            return cls(piece, None)
        try:
            return cls(piece, Document(piece.data))
        except NotJson:
            return cls(piece, None)

    def settle(self) -> None:
        """Replace the document by a document with all edits applied, which can be read and edited again."""
        if self.document is not None and self.document.edits:
            self.document = Document(self.document.render())
            self.members, self.is_changed = self.document.top, True

    def copy(self) -> Event:
        document = Document(self.document.data) if self.document is not None else None
        return Event(self.piece, document, self.is_changed)

    def data(self) -> bytes:
        """Return the JSON with its edits; empty if the event has no JSON."""
        return self.document.render() if self.document is not None else b""

    def bytes(self) -> bytes:
        if self.document is None or not (self.is_changed or self.document.edits):
            return self.piece.raw
        return self.piece.with_data(self.document.render())


class Filter(Protocol):
    """A `Filter` edits one response, after the injected tool has been hidden."""

    def event(self, event: Event) -> Iterable[Event]:
        """Edit one event of a stream, and return the events that replace it for the client."""
        ...

    def close(self) -> Iterable[Event]:
        """End the stream, and return the delayed events."""
        ...

    def document(self, document: Document) -> None:
        """Edit a response that is one document."""
        ...


_MODULES = ("default_api.", "functions.")
"""Prefixes that some models write before the name of a tool."""


@cache
def called_as(tool: str) -> tuple[str, ...]:
    """Return the names by which models call a tool."""
    return (tool, *(module + tool for module in _MODULES))


@dataclass(frozen=True, slots=True)
class InjectedCall:
    id: str
    arguments: str
    """The text that the model wrote. The text may be cut off, and may not be JSON."""
    aliases: tuple[str, ...] = ()
    """Other ids that parts of a response may use for the call."""
    kind: str = ""
    """The type of the call; empty if the API has one type of calls."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.id, *self.aliases)


@dataclass(frozen=True, slots=True)
class MadeCall:
    id: str
    name: str
    arguments: str
    """The arguments as the model wrote them: JSON, or free text."""
    by_program: bool = False
    """True if a program made the call and reads its result."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a continuation failed."""

    status: int | None
    """HTTP status; None if there was no response, or if the response was a stream that failed or ended
    early."""
    body: bytes
    """The decoded body of this response, or the error event."""
    message: str
    """The message for the client, in Penumbra's own words."""
    retry_after: float | None = None
    """Seconds that the provider asks clients to wait; None if not stated."""
    reported: bool = False
    """True if the provider reported the error as an event of a stream. The client then also gets an event."""


ENDED_EARLY = "the upstream ended its response early"
ENDED_IN_AN_ERROR = "the upstream ended its response with an error"


class CacheDiagnosis(Struct, frozen=True):
    """The provider's comparison of a prompt with an earlier prompt, which the request names."""

    cause: str = ""
    """The provider's name for the first difference, such as `messages_changed`; empty if there is none."""
    tokens: int = 0
    """The provider's estimate of the input tokens after that difference; 0 if there is none."""


class Turn(Struct, frozen=True):
    """A `Turn` is one turn of the provider as the model wrote it."""

    message: bytes | None = None
    """The assistant message as JSON for a later request, with calls of the injected tool. After a cut, the
    message has no such calls, and only content that the API accepts; None if there is none."""
    injected: tuple[InjectedCall, ...] = ()
    real_calls: tuple[str, ...] = ()
    """The ids of the calls that the client must answer, in order. The id of a call without an id is empty."""
    tokens: tuple[str, ...] = ()
    """Hashes of the calls, as in `Visible.tokens`. Hashes replace ids that are missing or not unique."""
    made: tuple[MadeCall, ...] = ()
    """The calls of this turn. A later request may have their results and lack the calls."""
    text: str = ""
    """The visible text."""
    signatures: tuple[str, ...] = ()
    """Signatures or encrypted blocks by which the provider recognises its own reasoning."""
    orphans: tuple[str, ...] = ()
    """Signatures or ids of reasoning at the end of the turn; empty if the API accepts reasoning there."""
    finished: bool = False
    """True if the provider said that the turn is complete; False if the stream ended earlier."""
    failed: bool = False
    """True if the provider reported an error within the turn."""
    failure: Failure | None = None
    """An error that the client did not get, because it belongs to a hidden request; None if there is none."""
    continuable: bool = True
    """True if results can be added after this turn. The field is False after a refusal or with several
    choices."""
    response_id: str = ""
    """The provider's id of this response."""
    item: str = ""
    """The id of the last item that the client sees; empty if requests can't refer to items by id."""
    usage: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The turn's token counts, under the provider's names. Nested counts have names such as `outer.inner`."""
    ending: Ending = msgspec.field(default_factory=Ending)
    """The model, and the reason why it stopped."""
    diagnosis: CacheDiagnosis | None = None
    """The provider's comparison of prompts; None if there is none or it is not finished."""

    @property
    def is_refusal(self) -> bool:
        """True if the provider reported an error before any content."""
        return self.failed and self.message is None and not self.text


class Tool(Struct, frozen=True):
    """The declaration of a tool, independent of the API."""

    name: str
    description: str
    parameters: bytes
    """A JSON schema."""

    def declared(self, member: str) -> bytes:
        """Return a JSON object with name, description and schema. `member` is the key of the schema."""
        head = encode({"name": self.name, "description": self.description})
        return head[:-1] + b"," + encode(member) + b":" + self.parameters + b"}"


class Tools(Struct, frozen=True):
    """The tools of a request, and facts that decide whether a tool is injected."""

    names: tuple[str, ...]
    own: int
    """Number of tools that the client runs itself."""
    forced: bool
    """True if the model must call a tool."""
    continuable: bool
    """True if the request gets only one response and results can be added after this response."""
    threaded: bool = False
    """True if the provider stores the history under the id of its last response."""


class Visible(Struct, frozen=True):
    """The facts about an assistant message in a request by which a hidden exchange is found."""

    index: int
    """Index in the array of messages."""
    calls: tuple[str, ...]
    """The ids of the message's tool calls, in order. The id of a call without an id is empty."""
    text: str
    last_call: str
    """Id of the last tool call before this message; empty if there is none."""
    since: int
    """The number of assistant messages between that call (or the beginning) and this message."""
    signed: bool = False
    """True if the message has reasoning and the API signs reasoning."""
    signature: str = ""
    """Signature of the last block of reasoning; empty if there is none."""
    response_id: str = ""
    """The id of a response, if the request has only this id. All other fields then have no meaning.
    """
    tokens: tuple[str, ...] = ()
    """For each call, a short hash of its name and arguments; empty if clients keep ids that are unique."""
    item: str = ""
    """The id of the message's last item, if the request has only this id."""
    open: bool = False
    """True if the request ends with the message and the next response continues it."""


class Hidden(msgspec.Struct, frozen=True):
    """The messages between provider and proxy that one response to the client hides."""

    before: tuple[bytes, ...]
    """The messages of the continued turns and of their results, in JSON."""
    last: bytes | None
    """The assistant message of the last turn as JSON, with injected calls; None if there is no message."""
    results: tuple[bytes, ...] = ()
    """The results, in the API's JSON, of the injected calls in `last`, which also has the client's calls."""
    signed: bool = False
    """True if signed reasoning was sent to the client."""
    response_id: str = msgspec.field(default="", name="answer_id")
    """The provider's id of the last turn, if the client got another id; otherwise empty."""
    broken: bool = False
    """True if the response was never completed."""


class Reasoning(Struct, frozen=True):
    """A piece of reasoning in a request. Some APIs refuse a request in which a response ends with
    reasoning."""

    index: int
    """Index in the array of messages."""
    known_by: str
    """The signature in `Turn.orphans` that identifies the reasoning."""
