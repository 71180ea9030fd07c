"""Values that pass between the formats of APIs and their callers: the loop, the splice, hidden exchanges.

The client gets one *response*, made of one or more upstream *turns*: a turn that ends in nothing but calls of
the injected tool is continued without the client. A `Response` takes the bytes of turn after turn and returns
the bytes of one message; an `ApiFormat` reads the conversation of a request, and continues and mends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec import Raw

from penumbra.apis.usage import Ending
from penumbra.wire.document import Document
from penumbra.wire.framing import Piece
from penumbra.wire.json_values import NotJson, encode


@dataclass(slots=True)
class Event:
    """An event of a stream with its JSON, and the edits made to it so far."""

    piece: Piece
    document: Document | None
    """The event's JSON; None for comments, blanks, and all else that is no JSON."""
    is_changed: bool = False
    """True if the document differs from the JSON of the piece."""

    @classmethod
    def read(cls, piece: Piece) -> Event:
        if piece.data is None:
            return cls(piece, None)
        try:
            return cls(piece, Document(piece.data))
        except NotJson:
            return cls(piece, None)

    @property
    def members(self) -> dict[str, Raw]:
        """The members of the document; empty if it is no object."""
        return self.document.top if self.document is not None else {}

    def settle(self) -> None:
        """Render the edits into the document, which can then be read and edited again."""
        if self.document is not None and self.document.edits:
            self.document = Document(self.document.render())
            self.is_changed = True

    def copy(self) -> Event:
        document = Document(self.document.data) if self.document is not None else None
        return Event(self.piece, document, self.is_changed)

    def data(self) -> bytes:
        """Return the JSON with its edits; empty if there is none."""
        return self.document.render() if self.document is not None else b""

    def bytes(self) -> bytes:
        if self.document is None or not (self.is_changed or self.document.edits):
            return self.piece.raw
        return self.piece.with_data(self.document.render())


class Filter(Protocol):
    """An edit of one response in addition to hiding the injected tool."""

    def event(self, event: Event) -> Iterable[Event]:
        """Take one event of a stream; return the events that the client gets in its place."""
        ...

    def close(self) -> Iterable[Event]:
        """End the stream; return the events that were delayed."""
        ...

    def document(self, document: Document) -> None:
        """Edit a response that is one document."""
        ...


@dataclass(frozen=True, slots=True)
class InjectedCall:
    """A call of the injected tool."""

    id: str
    arguments: str
    """JSON text as the model wrote it, which may be cut off or no JSON at all."""
    aliases: tuple[str, ...] = ()
    """Other ids by which parts of a response may name the call."""

    @property
    def names(self) -> tuple[str, ...]:
        """All ids by which parts of a response may name the call."""
        return (self.id, *self.aliases)


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call of a response that the client answers."""

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
    """HTTP status, if there was a response."""
    body: bytes
    """The decoded body of that response, or the error event, for the log."""
    message: str
    """The message for the client, in Penumbra's words."""
    retry_after: float | None = None
    """Seconds that the provider asks clients to wait."""
    reported: bool = False
    """True if the provider reported the error as an event of a stream, so the client gets an event, too."""


ENDED_IN_AN_ERROR = "the upstream ended its response with an error"


@dataclass(frozen=True, slots=True)
class CacheDiagnosis:
    """The provider's comparison of a prompt with the earlier one that the request names."""

    cause: str = ""
    """The provider's word for the first difference, such as `messages_changed`; empty if there is none."""
    tokens: int = 0
    """Input tokens after that difference, as the provider estimates them; 0 if the provider gives no
    number."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One upstream turn, as the model wrote it."""

    message: bytes | None = None
    """The assistant message as a request would carry it, JSON, with calls of the injected tool. For a turn
    that broke off, only the part that the API accepts back, without these calls. None if the API would accept
    nothing."""
    injected: tuple[InjectedCall, ...] = ()
    real_calls: tuple[str, ...] = ()
    """Ids of the calls that the client answers, in order; empty for calls without one."""
    tokens: tuple[str, ...] = ()
    """Tokens that identify each call where ids are missing or not unique: see `Visible.tokens`."""
    made: tuple[MadeCall, ...] = ()
    """Calls for which a later request may have results without repeating the call."""
    text: str = ""
    """The visible text."""
    signatures: tuple[str, ...] = ()
    """Signatures or encrypted blocks by which the provider recognises its own reasoning."""
    orphans: tuple[str, ...] = ()
    """Signatures of reasoning that nothing visible follows, where the API refuses such reasoning."""
    finished: bool = False
    """The provider declared the turn complete; False for a stream that just ended."""
    failed: bool = False
    """True if the provider reported an error within the turn."""
    failure: Failure | None = None
    """An error that the client has not got, since it is not about the client's request."""
    continuable: bool = True
    """Results can be put after this turn; False for a refusal, or for several choices."""
    response_id: str = ""
    """The provider's id of this response."""
    item: str = ""
    """Id of the last item that the client sees, where requests may refer to items by their ids."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """The provider's own token figures of this turn, flat, by the provider's names."""
    ending: Ending = field(default_factory=Ending)
    """The model, and the reason for the end."""
    diagnosis: CacheDiagnosis | None = None
    """The provider's comparison of prompts; None if there is none, or it has not finished."""

    @property
    def is_refusal(self) -> bool:
        """The provider has reported an error before any content."""
        return self.failed and self.message is None and not self.text


@dataclass(frozen=True, slots=True)
class Tool:
    """The declaration of a tool, independent of the API."""

    name: str
    description: str
    parameters: bytes
    """A JSON schema."""

    def declared(self, member: str) -> bytes:
        """Return name, description and, in this member, the schema as a JSON object."""
        head = encode({"name": self.name, "description": self.description})
        return head[:-1] + b"," + encode(member) + b":" + self.parameters + b"}"


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a request."""

    names: tuple[str, ...]
    """Names of all tools."""
    own: int
    """The number of tools that the client runs itself."""
    forced: bool
    """True if the model has to call a tool."""
    continuable: bool
    """Results can be put after the response to this request, which is a single one."""
    threaded: bool = False
    """True if the provider keeps the history under the id of its last response."""


@dataclass(frozen=True, slots=True)
class Visible:
    """The parts of an assistant message in a request by which a hidden exchange is recognised."""

    index: int
    """Index in the array of messages."""
    ordinal: int
    """The number of assistant messages before it."""
    calls: tuple[str, ...]
    """Ids of the message's tool calls, in order; empty for calls without one."""
    text: str
    last_call: str
    """Id of the last tool call before this message; empty if there is none."""
    since: int
    """The number of assistant messages between that call and this message."""
    signed: bool = False
    """True if the message has reasoning with a signature."""
    signature: str = ""
    """Signature of the last block of reasoning."""
    response_id: str = ""
    """Id of a response that the request only names; all other fields are empty then."""
    tokens: tuple[str, ...] = ()
    """A short hash of name and arguments of each call, if the API's clients may drop ids or ids recur in many
    conversations."""
    item: str = ""
    """Id of the message's last item, if the request has only that id."""
    open: bool = False
    """True if the request ends with the message, which the next response continues."""


class Hidden(msgspec.Struct, frozen=True):
    """The exchange between provider and proxy during one response of the client."""

    before: tuple[bytes, ...]
    """Messages of the turns that were continued, with their results, each JSON."""
    last: bytes | None
    """The assistant message of the last turn, JSON, injected calls included; None if it was empty."""
    results: tuple[bytes, ...] = ()
    """Results of injected calls that stand beside real calls in `last`; JSON, in the API's form."""
    signed: bool = False
    """True if the client got reasoning with a signature."""
    response_id: str = msgspec.field(default="", name="answer_id")
    """Id of the last turn's response, if the client knows a different id. The store uses an older name for
    this field."""
    broken: bool = False
    """True if the response was never completed: no message follows the last one."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning in a request to an API that refuses some."""

    index: int
    """Index in the array of messages."""
    known_by: str
    """See `Turn.orphans`."""
