"""One response in which the model may ask for originals, while its turns go on."""

from __future__ import annotations

from dataclasses import dataclass, field

from penumbra.conversation.incoming import Accepted
from penumbra.expand.expansions import Expansions
from penumbra.expand.hidden_exchanges import Answered, Find, Prepared
from penumbra.expand.loop import Done, ToolLoop
from penumbra.flow.engines import Lease
from penumbra.retry.portions import Portions


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
