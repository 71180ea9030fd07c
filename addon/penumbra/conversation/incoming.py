"""A request as it came in, and what it has become when it is sent, or is answered here instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from penumbra.apis.identity import Credentials
from penumbra.apis.recognise import Api
from penumbra.conversation.context_windows import NOT_KNOWN, Room, UsageScale
from penumbra.conversation.model import Plan, Request, Rewritten, Shown
from penumbra.errors import one_line
from penumbra.expand.hidden_exchanges import Find, Prepared
from penumbra.metrics.cache_miss import ColdTurn
from penumbra.redaction import RedactionError
from penumbra.redaction.redact_calls import ShowName
from penumbra.store.decisions import Decision

if TYPE_CHECKING:
    from penumbra.redaction.restore.restoration import Restoration


@dataclass(frozen=True)
class Incoming:
    """A recognised request as it came in."""

    api: Api
    body: bytes
    """Without content coding."""
    headers: Mapping[str, str]
    """Names in lower case."""
    query: Mapping[str, str]
    peer: str
    """Address of the client: it tells callers without credentials apart."""
    host: str = ""
    """Where its connection leads to: name and port."""
    path: str = ""
    """The path with its query."""
    threshold: str | None = None
    """Value of an `X-Compression-Threshold` header."""
    socket: bool = False
    """The request is a frame of a WebSocket."""

    @cached_property
    def credentials(self) -> Credentials:
        """The credentials that it came with."""
        return Credentials.of(self.host, self.peer, self.headers, self.query)


class Accepted(Struct, frozen=True):
    """A request that is sent, changed or not."""

    request: Request
    rewritten: Rewritten
    milliseconds: float
    prepared: Prepared | None = None
    """The model may ask for originals, and the response has to be watched for that."""
    find: Find | None = None
    decided: Mapping[bytes, Decision] = {}
    """The form of every text."""
    line: str = ""
    """Changes to the conversation as a whole, for a log."""
    cold_turn: ColdTurn | None = None
    """The unchanged part, if the cache counts as cold and something was changed for that."""
    hidden: Mapping[str, int] = {}
    """Secrets newly found outside of tool results, by rule."""
    betas: str = ""
    """New value of the header `anthropic-beta`; empty: the header stays."""
    restoration: Restoration | None = None
    """Values that may be put back into the response."""
    room: Room = NOT_KNOWN
    """Space for originals after the responses."""
    usage_scale: UsageScale | None = None
    """Scale of the usage that the client gets; None: the provider's own figures."""
    model: str = ""
    """Name of the model, as it may be shown."""
    show: ShowName = one_line
    """The function that shows other names."""
    project: str = ""
    """A short name of it; empty if it is not known."""
    plan: Plan | None = None
    """The forms that it has because a request was refused; not remembered yet."""

    @property
    def conversation(self) -> bytes:
        """Keyed hash of the conversation."""
        return self.request.caller.conversation

    def sent(self, entry: Shown) -> str:
        """A result's text as it is sent."""
        decision = self.decided.get(entry.item.key)
        return entry.item.text if decision is None or decision.text is None else decision.text


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is answered here and not sent."""

    status: int
    body: bytes
    reason: str


def unsearched(api: Api, error: RedactionError) -> Refused:
    """The response to a request that could not be searched for secrets."""
    message = message_of(error)
    return Refused(error.status, api.wire.error(error.status, message), message)


def message_of(error: RedactionError) -> str:
    """The error message for the client."""
    return f"Penumbra could not search this request for secrets and did not send it: {error}"
