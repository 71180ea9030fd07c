"""What the splice asks of those who know what a response says: two hooks, and who stands behind one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mitmproxy import http
from mitmproxy.proxy import commands


class Session(Protocol):
    """What stands behind a response that may be spliced."""

    spliceable: bool
    """Set by the layer, when the response's headers arrive."""
    live: bool
    """The response is streamed through `feed`; otherwise it is one document."""

    @property
    def holding(self) -> bool:
        """A keep-alive is due if nothing else is sent."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Bytes of a continuation (no content coding) in, bytes for the client out."""
        ...

    def keep_alive(self) -> bytes:
        """A keep-alive, which will be sent."""
        ...


class Guard(Protocol):
    """Who looks at a response before anything of it goes to the client."""

    patience: float
    """Seconds after which a stream's head and beginning go out, whatever they are; 0: at once."""

    def first(self, headers: http.Headers, data: bytes) -> bool | None:
        """The first bytes of a stream with these headers, piece by piece. True: it is a refusal, False:
        it goes on its way, None: more has to be seen."""
        ...


@dataclass
class TurnEnd:
    """Argument of the `penumbra_turn_end` hook."""

    flow: http.HTTPFlow
    """The client's flow."""
    session: Session
    continuation: http.HTTPFlow | None = None
    """The flow that has ended; None at the end of the first response."""
    error: str | None = None
    """The continuation's connection broke."""
    shown: bool = False
    """The continuation has brought bytes to the client."""
    encoded: bytes = b""
    """The continuation's body, with its content coding, where it could not be read as it came."""
    body: bytes = b""
    """Where the response is one document: in, the first response's bytes; out, what the client gets."""
    following: http.HTTPFlow | None = None
    """Out: the request to go on with."""
    out: bytes = b""
    """Out: bytes for the client, where the response is live. Behind them it breaks off, if its flow's state
    says that it is broken."""


@dataclass
class PenumbraTurnEndHook(commands.StartHook):
    """An upstream response has ended; the client's is still open."""

    turn: TurnEnd


@dataclass
class Refused:
    """Argument of the `penumbra_refused` hook."""

    flow: http.HTTPFlow
    """The client's flow; its response is the one that was looked at."""
    body: bytes
    """With its content coding, or none if the connection broke."""
    error: str | None = None
    """The connection of a request that was sent again broke."""
    following: http.HTTPFlow | None = None
    """Out: the request to send instead."""
    restore: bool = False
    """Out: the client gets the very first response."""


@dataclass
class PenumbraRefusedHook(commands.StartHook):
    """A response is complete, or begins with an error, and nothing of it has gone to the client."""

    refused: Refused
