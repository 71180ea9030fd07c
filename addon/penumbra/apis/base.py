"""The interface of an API, as the loop, the splice and hidden exchanges use it.

A *response* is what the client sees as one message. After it stand one or more upstream *turns*: each
turn that ends in nothing but calls of the injected tool is continued without the client. A `Response`
takes the bytes of turn after turn and gives the bytes of one message; an `ApiFormat` knows how its
API writes responses, and how a conversation in a request is continued and mended.

Documents and streams share the interface: a document gives no bytes before `finish`.
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
    """A piece of a stream with its JSON, and the edits made to it so far."""

    piece: Piece
    document: Document | None
    """The event's JSON; None for comments, blanks, and all else that is no JSON."""
    is_changed: bool = False
    """The document is no longer what the piece says."""

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
        """Renders the edits into the document, which can then be read and edited again."""
        if self.document is not None and self.document.edits:
            self.document = Document(self.document.render())
            self.is_changed = True

    def copy(self) -> Event:
        document = Document(self.document.data) if self.document is not None else None
        return Event(self.piece, document, self.is_changed)

    def data(self) -> bytes:
        """The JSON with its edits; empty if there is none."""
        return self.document.render() if self.document is not None else b""

    def bytes(self) -> bytes:
        if self.document is None or not (self.is_changed or self.document.edits):
            return self.piece.raw
        return self.piece.with_data(self.document.render())


class Filter(Protocol):
    """A change to one response, beside hiding the injected tool."""

    def event(self, event: Event) -> Iterable[Event]:
        """One event of a stream: what the client gets for it."""
        ...

    def close(self) -> Iterable[Event]:
        """The stream has ended: what was held back."""
        ...

    def document(self, document: Document) -> None:
        """Edit a response that is one document."""
        ...


@dataclass(frozen=True, slots=True)
class InjectedCall:
    id: str
    arguments: str
    """JSON text as the model wrote it; may be cut off or no JSON at all."""
    aliases: tuple[str, ...] = ()
    """Other ids by which parts of a response may name it."""

    @property
    def names(self) -> tuple[str, ...]:
        """All ids by which parts of a response may name it."""
        return (self.id, *self.aliases)


@dataclass(frozen=True, slots=True)
class MadeCall:
    id: str
    name: str
    arguments: str
    """The arguments as the model wrote them: JSON, or free text."""
    by_program: bool = False
    """A program made it and reads its result."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a continuation failed."""

    status: int | None
    """HTTP status, if there was a response."""
    body: bytes
    """Body of that response, decoded, or the event that was the error: for the log."""
    message: str
    """Plain words of ours, which the client gets."""
    retry_after: float | None = None
    """Seconds that the provider wants to be left alone."""
    reported: bool = False
    """The provider reported it within a stream, as an event; so the client gets an event, too."""


ENDED_IN_AN_ERROR = "the upstream ended its response with an error"


@dataclass(frozen=True, slots=True)
class CacheDiagnosis:
    """The provider's comparison of a prompt with the earlier one that the request names."""

    cause: str = ""
    """The provider's word for the first difference, such as `messages_changed`; empty if there is none."""
    tokens: int = 0
    """Input tokens after that difference, as the provider estimates them; 0 if it gives no number."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One upstream turn, complete, as the model wrote it."""

    message: bytes | None = None
    """The assistant message as a request would carry it, JSON, calls of the injected tool included.
    None if there is nothing in it that the API would take back. The part of a broken-off turn that the API
    takes back although the remainder is missing, so without calls of the injected tool."""
    injected: tuple[InjectedCall, ...] = ()
    real_calls: tuple[str, ...] = ()
    """Ids of the calls that the client will answer, in order; empty ones if they have none."""
    tokens: tuple[str, ...] = ()
    """Tokens that recognise each call where ids are missing or not unique: see `Visible.tokens`."""
    made: tuple[MadeCall, ...] = ()
    """Calls that a later request may give results for without repeating the call."""
    text: str = ""
    """The visible text."""
    signatures: tuple[str, ...] = ()
    """Signatures or encrypted blocks by which the provider recognises its own reasoning."""
    orphans: tuple[str, ...] = ()
    """Signatures of reasoning that nothing visible follows, where the API refuses that."""
    finished: bool = False
    """The provider said that the turn is over; False for a stream that just ended."""
    failed: bool = False
    """The provider reported an error within the turn."""
    failure: Failure | None = None
    """The error, if the client has not got it because it is not about the client's request."""
    continuable: bool = True
    """Results can be put after this turn; False for a refusal, or for several choices."""
    response_id: str = ""
    """The provider's id of this response."""
    item: str = ""
    """The id of the last item that the client sees, where requests may refer to items by their ids."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """The provider's own token figures of this turn, flat, by the provider's names."""
    ending: Ending = field(default_factory=Ending)
    """The model that wrote it, and the reason for its end."""
    diagnosis: CacheDiagnosis | None = None
    """The provider's comparison of prompts; None if there is none, or it has not finished."""

    @property
    def is_refusal(self) -> bool:
        """The provider has reported an error, and said nothing before it."""
        return self.failed and self.message is None and not self.text


@dataclass(frozen=True, slots=True)
class Tool:
    """The declaration of a tool, in no API's words."""

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
    names: tuple[str, ...]
    """Names of all tools."""
    own: int
    """The number of calls that the client runs itself."""
    forced: bool
    """The model has to call one."""
    continuable: bool
    """Results can be put after a response to this request, for instance because it has only one."""
    threaded: bool = False
    """The provider keeps the history, and knows it by the id of its last response."""


@dataclass(frozen=True, slots=True)
class Said:
    """One content block of an assistant message, where messages are made of blocks."""

    call: str | None = None
    """Id of a call that the client answers."""
    name: str = ""
    arguments: str = ""
    """JSON text."""
    text: str = ""
    signature: str | None = None
    """Signature of reasoning, empty if it has none; None: the block is no reasoning."""
    by_program: bool = False
    """A program made the call and reads its result."""


@dataclass(frozen=True, slots=True)
class Visible:
    """An assistant message of a request, as far as a hidden exchange is recognised by it."""

    index: int
    """Index in the array of messages."""
    ordinal: int
    """The number of assistant messages before it."""
    calls: tuple[str, ...]
    """Ids of its tool calls, in order; empty ones if they have none."""
    text: str
    last_call: str
    """Id of the last tool call before this message; empty if there is none."""
    since: int
    """The number of assistant messages between that call and this message."""
    signed: bool = False
    """The message has reasoning that the provider would recognise."""
    signature: str = ""
    """Signature of the last block of reasoning, by which the provider recognises it."""
    response_id: str = ""
    """Id of a response that the request only names; all other fields are empty then."""
    tokens: tuple[str, ...] = ()
    """A short hash of name and arguments of each call, where the API's clients may drop ids or the
    ids are those of many conversations."""
    item: str = ""
    """The id of its last item, of which the request has no more than that."""
    open: bool = False
    """The request ends with it, and clients write what is said next into the same message."""


class Hidden(msgspec.Struct, frozen=True):
    """The hidden exchange between provider and proxy while the client waited for one response."""

    before: tuple[bytes, ...]
    """Messages of the turns that were continued, with their results, each JSON."""
    last: bytes | None
    """The assistant message of the last turn, JSON, injected calls included; None if it was empty."""
    results: tuple[bytes, ...] = ()
    """Results of injected calls that stand beside real calls in `last`; JSON, in the API's form."""
    signed: bool = False
    """The client got to see reasoning that the provider would recognise."""
    response_id: str = msgspec.field(default="", name="answer_id")
    """The id of the last turn's response, where the client knows another one. Stored under its first name."""
    broken: bool = False
    """The response was never completed: nothing was said after the last message."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning in a request to an API that refuses some."""

    index: int
    """Index in the array of messages."""
    known_by: str
    """See `Turn.orphans`."""
