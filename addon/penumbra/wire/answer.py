"""What the loop, the splice and the replay know of an API: one small interface.

An *answer* is what the client sees as one message. Behind it stand one or more upstream *turns*: each
turn that ends in nothing but calls of the phantom tool is continued without the client. An `Answer`
takes the bytes of turn after turn and gives the bytes of one message; an `AnswerFormat` knows how its
API writes answers, and how a conversation in a request is continued and mended.

JSON answers and streams share the interface: a JSON answer gives no bytes before `finish`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penumbra.wire.document import Document


@dataclass(frozen=True, slots=True)
class PhantomCall:
    """One call of the phantom tool."""

    id: str
    arguments: str
    """JSON text as the model wrote it; may be cut off or no JSON at all."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One upstream turn, complete, as the model wrote it."""

    message: bytes | None = None
    """The assistant message as a request would carry it, JSON, phantom calls included.
    None if there is nothing in it that the API would take back."""
    phantoms: tuple[PhantomCall, ...] = ()
    real_calls: tuple[str, ...] = ()
    """Ids of the calls that the client will answer, in order."""
    text: str = ""
    """The visible text."""
    signatures: tuple[str, ...] = ()
    """What the provider uses to recognise its own reasoning (signatures, encrypted blocks)."""
    finished: bool = False
    """The provider said that the turn is over; False for a stream that just ended."""
    failed: bool = False
    """The provider reported an error within the turn, which the client has got."""
    continuable: bool = True
    """Results can be put behind this turn; False for a refusal, or for several choices."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """The provider's own token figures of this turn, flat, by the provider's names."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a continuation failed."""

    status: int | None
    """HTTP status, if there was an answer."""
    body: bytes
    """Body of that answer, decoded."""
    message: str
    """Plain words, for the case that the body is not the provider's own error."""


class Answer(Protocol):
    """One message for the client, made of one or more upstream turns. Never raises on odd input."""

    keep_alive: bytes
    """Bytes that may be sent between two events while nothing else is; empty if the API has none."""

    @property
    def holding(self) -> bool:
        """Something is held back right now."""

    def feed(self, data: bytes) -> bytes:
        """Bytes of the current turn (no content encoding) in, bytes for the client out."""

    def end_turn(self) -> Turn:
        """The upstream's answer has ended. What was held is still held."""

    def go_on(self) -> bytes:
        """A continuation follows: what is still to be sent of this turn. Its end is dropped."""

    def finish(self) -> bytes:
        """No continuation follows: the end of the message, put right for what the client saw."""

    def fail(self, failure: Failure) -> bytes:
        """The continuation failed: the end of the answer, in the provider's own shape of an error."""


@dataclass(frozen=True, slots=True)
class Visible:
    """An assistant message of a request, as far as a hidden exchange is recognised by it."""

    index: int
    """Its place in the array of messages."""
    calls: tuple[str, ...]
    """Ids of its tool calls, in order."""
    text: str
    anchor: tuple[str, int]
    """The last tool call before it (empty if none), and how many assistant messages lie between."""
    signatures: tuple[str, ...] = ()
    """As `Turn.signatures`."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """What happened between provider and proxy while the client waited for one answer."""

    before: tuple[bytes, ...]
    """Messages of the turns that were continued, with their results, each JSON."""
    last: bytes | None
    """The assistant message of the last turn, JSON, phantom calls included."""
    results: tuple[bytes, ...] = ()
    """Results of phantom calls that stand beside real calls in `last`; JSON, in the API's form."""
    signed: bool = False
    """The client got to see reasoning that the provider would recognise."""


class AnswerFormat(Protocol):
    """How one API writes answers, and what can be put into its requests. Stateless."""

    name: str

    def stream(self, phantom: str) -> Answer:
        """An answer that arrives as a stream; `phantom` is the name of the phantom tool."""

    def body(self, phantom: str) -> Answer:
        """An answer that arrives as one JSON document."""

    # Requests

    def phantom_name(self, request: Document, names: Sequence[str]) -> str | None:
        """The first of `names` that no client tool has, if the phantom belongs into this request."""

    def declare(self, request: Document, name: str) -> None:
        """Put the phantom behind the last of the request's tools."""

    def result(self, call: PhantomCall, text: str) -> bytes:
        """One result, JSON: an item for `Hidden.results`."""

    def continuation(self, turn: Turn, results: Sequence[bytes]) -> tuple[bytes, ...]:
        """The messages that continue a conversation behind a turn: the turn itself and its results."""

    def extended(self, request: bytes, messages: Sequence[bytes]) -> bytes:
        """The request with these messages behind its last one."""

    def without_tools(self, request: bytes) -> bytes:
        """The request, in which no tool may be called although all stay declared."""

    def visible(self, request: Document) -> list[Visible]:
        """The assistant messages of a request, in order."""

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        """Put a hidden exchange in front of and into the message. False if it can't stand there."""

    def refused_binding(self, status: int, body: bytes) -> bool:
        """The provider refused a request because reasoning in it belongs to another conversation."""

    def drop_unbound(self, request: Document, first: int, offered: bool) -> None:
        """Reasoning from message `first` on belongs to another conversation: make the request valid.

        `offered`: the request may ask the provider to drop it; otherwise it is left out.
        """
