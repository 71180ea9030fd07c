"""One response in which the model may ask for originals, while its turns go on."""

from __future__ import annotations

from dataclasses import dataclass, field

from penumbra.apis.base import Failure
from penumbra.conversation.incoming import Accepted
from penumbra.errors import place
from penumbra.expand.expansions import Expansions
from penumbra.expand.loop import Done, ToolLoop
from penumbra.expand.prepared import Answered, Find, Prepared
from penumbra.flow.engines import Lease
from penumbra.retry.portions import Portions
from penumbra.wire import content_stream


@dataclass
class LoopedResponse:
    """One response in which the injected tool may be called. What the splice calls a session."""

    lease: Lease
    prepared: Prepared
    find: Find
    body: bytes
    """The request as it was sent, without content coding."""
    spliceable: bool = False
    live: bool = False
    loop: ToolLoop | None = None
    decode: content_stream.Decode | None = None
    plain: bytes | None = None
    """The first response's body without content coding, where it is one document."""
    shown: bytearray = field(default_factory=bytearray)
    """What the client has got of a live response."""
    provided: set[str] = field(default_factory=set)
    answered: list[Answered] = field(default_factory=list)
    continuations: list[str] = field(default_factory=list)
    retries: int = 0
    portions: Portions = field(default_factory=Portions)
    done: Done | None = None
    error: str = ""

    @classmethod
    def of(cls, accepted: Accepted, lease: Lease) -> LoopedResponse | None:
        """Of a request that is sent; None: the model can't ask for originals in its response."""
        if accepted.prepared is None or accepted.find is None:
            return None
        body, portions = accepted.rewritten.body, Portions(accepted.room)
        return cls(lease, accepted.prepared, accepted.find, body, portions=portions)

    @property
    def expansions(self) -> Expansions:
        return self.lease.engine.expansions

    @property
    def holding(self) -> bool:
        return self.loop is not None and self.loop.holding

    def feed(self, data: bytes) -> bytes:
        out = self.loop.feed(data) if self.loop else data
        self.shown += out
        return out

    def keep_alive(self) -> bytes:
        data = self.loop.keep_alive if self.loop else b""
        self.shown += data
        return data

    def first_turn(self, data: bytes) -> bytes | list[bytes]:
        """The stream callable of the first response: it must neither raise nor return an empty chunk."""
        if not data or self.error:
            return []
        try:
            plain = self.decode(data) if self.decode else data
        except Exception as error:
            self.error = f"the response could not be decoded: {place(error)}"
            return self._end(self.error) or []
        return self.feed(plain) or []

    def _end(self, message: str) -> bytes:
        """The client is told at once: the upstream may go on for long."""
        out = self.loop.failed(Failure(None, b"", message)).out if self.loop else b""
        self.shown += out
        return out
