"""What is known of a WebSocket of the Responses API: its lanes, and the requests that wait in them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penumbra.apis.recognise import Api
from penumbra.apis.responses_socket import Transcript
from penumbra.apis.socket_history import SocketHistory
from penumbra.conversation.incoming import Accepted
from penumbra.expand.loop import ToolLoop
from penumbra.flow.engines import Lease
from penumbra.flow.looped_response import LoopedResponse
from penumbra.flow.websocket_retry import Sending
from penumbra.metrics.sessions import TurnRecord


@dataclass
class Waiting:
    """A request that the provider has not answered to the end."""

    accepted: Accepted
    lease: Lease
    """Its own: the connection outlives what it began with."""
    loop: ToolLoop
    looped: LoopedResponse | None
    """None: the model can't ask for originals, and frames only pass by."""
    sending: Sending | None = None
    """None: the provider answers without having been asked."""
    begun: bool = False
    shown: bool = False
    """The client has got something of the turn that is under way."""
    retries: int = 0
    turn: TurnRecord | None = None
    """The journal's entry."""


@dataclass
class Lane:
    """Requests of one `stream_id`: their responses come one after the other."""

    waiting: deque[Waiting] = field(default_factory=deque)
    held: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """Frames of the client, and whether they are text, that come before the end of hidden turns."""
    latest: Accepted | None = None
    transcript: Transcript = field(default_factory=Transcript)
    history: SocketHistory = field(default_factory=SocketHistory)

    def lose(self) -> None:
        """Something is said that is not known here."""
        self.transcript.lose()
        self.history.lose()
        for waiting in self.waiting:
            if waiting.sending is not None:
                waiting.sending.said.input = None

    @property
    def is_busy(self) -> bool:
        """Turns that the client does not see are under way."""
        first = self.waiting[0] if self.waiting else None
        sending = first.sending if first is not None else None
        return first is not None and (first.loop.holding or (sending is not None and sending.count > 0))


@dataclass
class Socket:
    """One connection."""

    api: Api
    lanes: dict[str, Lane] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """The id that the client knows a response by, and the one of its latest turn."""
    names: dict[str, str] = field(default_factory=dict)
    """The same the other way."""
    begun_twice: dict[str, str] = field(default_factory=dict)
    """The id that the client was told of a response that was refused, and that of the one in its place."""
    is_open: bool = False
