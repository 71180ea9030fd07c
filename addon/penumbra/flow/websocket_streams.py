"""This module has the requests on a WebSocket of the Responses API, and handles the frames of any WebSocket.

A connection has streams of requests that wait for their responses. If a request is refused as too large, a
smaller form is sent. The client then gets the announcement of the refused response, followed by the response
to the smaller request. If no other request helps, the client gets the provider's first refusal.

This module also changes, drops, inserts and limits frames.
"""

from __future__ import annotations

import logging
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mitmproxy import ctx, http, websocket
from mitmproxy.proxy.layers import websocket as layers
from wsproto import extensions
from wsproto.frame_protocol import FrameDecoder, FrameProtocol, Opcode, RsvBits

from penumbra.apis import recognise
from penumbra.apis.recognise import UNKNOWN_SOCKET, Api, SocketKind
from penumbra.apis.responses_socket import (
    ITEM_DONE,
    Envelope,
    SocketHistory,
    SocketRequest,
    Transcript,
    item_done,
)
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.errors import contained
from penumbra.expand.loop import ToolLoop
from penumbra.flow import destination
from penumbra.flow.current_settings import EngineHandle
from penumbra.flow.mitm import Flow
from penumbra.flow.state import FlowState
from penumbra.flow.tool_loop import LoopedResponse
from penumbra.metrics.sessions import TurnRecord
from penumbra.retry import refusals, retry
from penumbra.retry.refusals import Cause, Refusal
from penumbra.retry.retry import Retry
from penumbra.wire.content_encoding import MOST_BYTES
from penumbra.wire.document import Document

Describe = Callable[[Flow, Api, bytes], Incoming]
"""A function that returns a frame as a request."""
_BAD_REQUEST = 400
_log = logging.getLogger(__name__)


@dataclass
class Sending:
    """A `Sending` is a request of the client, together with the requests that were sent instead."""

    asked: SocketRequest
    accepted: Accepted
    handle: EngineHandle
    first: bytes = b""
    """The provider's first refusal, if another request was sent."""
    count: int = 0
    """The number of requests that were sent instead."""
    refusal: Refusal | None = None
    """The refusal for which another request was last sent; None if none was."""
    has_begun: bool = False
    """True if a part of the response has arrived."""
    settled: bool = False
    """True if `settle` has made the forms of the request's results final."""

    @property
    def asked_from(self) -> str:
        """The id of the response that the client continues, if another request was sent instead; otherwise
        empty."""
        return self.asked.before if self.count else ""

    def take(self, outside: Envelope, shown: bytes) -> None:
        """Take a frame of the response. `shown` is the frame for the client."""
        self.has_begun |= outside.has_content
        if shown and outside.type == ITEM_DONE and (item := item_done(shown)) is not None:
            self.asked.got.append(item)


class WebSocketRetry:
    def __init__(self, describe: Describe, recovered: Callable[[Flow, str, int], None]) -> None:
        """`recovered` takes the flow, the rule and the number of requests that were sent instead."""
        self._describe = describe
        self._recovered = recovered

    async def smaller(self, flow: Flow, api: Api, sending: Sending, refusal: bytes) -> bool:
        """Return whether to send another request. If so, the request is `sending.accepted`. `refusal` is the
        frame that ended the response before its first content."""
        made = None
        with contained(_log, "Penumbra forwards a refusal", logging.WARNING):
            made = await self._made(flow, api, sending, refusal)
        if made is None or _tool(made.accepted) != _tool(sending.accepted):
            return False
        before, after = len(sending.accepted.rewritten.body), len(made.accepted.rewritten.body)
        sending.first = sending.first or refusal
        sending.accepted, sending.refusal = made.accepted, made.refusal
        sending.count += 1
        _log.info(
            f"Penumbra: {destination.shown(flow)} refused a request on a socket ({made.refusal.rule}, "
            f"{made.refusal.kind}); Penumbra sends it again, {before:,} -> {after:,} bytes"
        )
        return True

    async def _made(self, flow: Flow, api: Api, sending: Sending, refusal: bytes) -> Retry | None:
        status = _status(refusal)
        host, size = destination.shown(flow), len(sending.accepted.rewritten.body) // 4
        refused = refusals.classify(status, refusal, host, size)
        if refused is None or refused.leave or refused.kind is Cause.BINDING:
            return None
        frame = sending.asked.whole()
        if frame is None and sending.asked.is_stored:
            frame = sending.asked.frame
        if frame is None:
            return None
        incoming = self._describe(flow, api, frame)
        engine, settings = sending.handle.engine, sending.handle.settings
        sent = sending.accepted
        if not sending.count and frame is not sending.asked.frame:
            # The retry contains the whole conversation, as on a new socket. All results already have their
            # forms.
            outcome = await engine.process(incoming, settings)
            if not isinstance(outcome, Accepted):
                return None
            sent = outcome
        return await retry.instead(engine, incoming, settings, sent, sending.count, status, refusal)

    async def settle(self, flow: Flow, sending: Sending) -> None:
        """Make the forms of the results in an accepted request final, if this request was sent instead of the
        client's."""
        if sending.refusal is None or sending.settled:
            return
        sending.settled = True
        self._recovered(flow, sending.refusal.rule, sending.count)
        flow.metadata["penumbra_recovered"] = flow.metadata.get("penumbra_recovered", 0) + sending.count
        await sending.handle.engine.settle(sending.accepted)


def _tool(accepted: Accepted) -> str:
    return accepted.prepared.tool if accepted.prepared is not None else ""


def _status(frame: bytes) -> int:
    document = Document(frame)
    status = document.plain(document.top.get("status"))
    return status if isinstance(status, int) and not isinstance(status, bool) else _BAD_REQUEST


@dataclass
class Waiting:
    """A `Waiting` is a request whose response is not complete."""

    accepted: Accepted
    handle: EngineHandle
    """The request's own handle. The handle of the opening request may have ended."""
    loop: ToolLoop
    looped: LoopedResponse | None
    """The response with the tool loop; None if frames are only read."""
    sending: Sending | None = None
    """The client's request; None if the provider continues without a request."""
    begun: bool = False
    shown: bool = False
    """True if the client has got a part of the current turn."""
    retries: int = 0
    turn: TurnRecord | None = None
    """The journal's entry; None without an entry."""


@dataclass
class SocketStream:
    """A `SocketStream` has the requests with one `stream_id`. Their responses arrive one after the other."""

    waiting: deque[Waiting] = field(default_factory=deque)
    delayed: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """The client's frames that wait for the end of hidden turns, each with True if the frame is text."""
    latest: Accepted | None = None
    transcript: Transcript = field(default_factory=Transcript)
    history: SocketHistory = field(default_factory=SocketHistory)

    def lose(self) -> None:
        """Forget the history: a request refers to messages that are unknown to Penumbra."""
        self.transcript.lose()
        self.history.lose()
        for waiting in self.waiting:
            if waiting.sending is not None:
                waiting.sending.asked.input = None

    @property
    def is_busy(self) -> bool:
        """True while hidden turns, or requests that were sent instead, are in progress."""
        first = self.waiting[0] if self.waiting else None
        sending = first.sending if first is not None else None
        return first is not None and (first.loop.is_delayed or (sending is not None and sending.count > 0))


@dataclass
class Socket:
    api: Api
    streams: dict[str, SocketStream] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """The id of each response's latest turn, by the id that the client knows."""
    names: dict[str, str] = field(default_factory=dict)
    """The reverse of `ids`: the id that the client knows, by the id of the latest turn."""
    begun_twice: dict[str, str] = field(default_factory=dict)
    """The id of each response that replaced a refused response, by the id of the refused response."""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class SearchedSocket:
    """A `SearchedSocket` is a connection on which the client's frames are searched."""

    kind: SocketKind
    strict: bool
    """True if the socket accepts only JSON."""

    @classmethod
    def at(cls, path: str, *, is_provider: bool) -> SearchedSocket | None:
        """Return the kind of search for a WebSocket at a host that may be an LLM host; None for no search."""
        kind = recognise.socket_by_path(path)
        if kind is None and not is_provider:
            return None
        return cls(kind or UNKNOWN_SOCKET, kind is not None and is_provider)


# Frames in mitmproxy

_WHOLE = 1 << 40
"""The size in bytes of the largest changed message that is sent in one frame."""


def can_change() -> bool:
    """Return whether mitmproxy shows frames and can change them without breaking characters."""
    return bool(ctx.options.websocket) and hasattr(layers.Fragmentizer, "FRAGMENT_SIZE")


def keep_letters_whole() -> None:
    """Send changed messages in one frame, because mitmproxy would cut messages even within characters."""
    layers.Fragmentizer.FRAGMENT_SIZE = _WHOLE


def put(message: websocket.WebSocketMessage, frame: bytes) -> None:
    """Replace a message by a frame. An empty frame drops the message."""
    if not frame and message.content:
        message.drop()
    elif frame != message.content:
        # If the length stayed the same, mitmproxy would cut the new frame at the old places.
        message.content = frame + b" " if len(frame) == len(message.content) else frame


def inject(flow: Flow, frame: bytes, *, to_client: bool, is_text: bool = True) -> None:
    """Send a frame of Penumbra's own."""
    ctx.master.commands.call("inject.websocket", flow, to_client, frame, is_text)


_BEGINS_A_MESSAGE = (Opcode.TEXT, Opcode.BINARY)


class _Bounded:
    """A `_Bounded` is a decompressor that limits the bytes of one message."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.left = MOST_BYTES

    def decompress(self, data: bytes) -> bytes:
        plain: bytes = self._inner.decompress(data, self.left + 1)
        self.left -= len(plain)
        if self.left < 0:
            raise zlib.error("the message is too large")
        return plain

    def flush(self) -> bytes:
        # No bytes are left: a message that did not fit has raised an error.
        return b""


class BoundedDeflate(extensions.PerMessageDeflate):
    """A `BoundedDeflate` is wsproto's extension for compressed messages with a limit for each message."""

    def frame_inbound_header(
        self, proto: FrameDecoder | FrameProtocol, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> Any:
        frame = super().frame_inbound_header(proto, opcode, rsv, payload_length)
        inner: Any = self._decompressor
        if inner is not None and not isinstance(inner, _Bounded):
            bounded: Any = _Bounded(inner)
            self._decompressor = bounded
        elif inner is not None and opcode in _BEGINS_A_MESSAGE:
            inner.left = MOST_BYTES
        return frame


def bound_messages() -> None:
    """Limit the compressed messages of all connections from now on."""
    name = extensions.PerMessageDeflate.__name__
    if name != BoundedDeflate.__name__:
        setattr(extensions, name, BoundedDeflate)


def opening_answered(flow: Flow, state: FlowState) -> None:
    """Refuse a change of protocol if the frames must be read or searched, and no hook will get them."""
    if flow.websocket is not None:
        # The opening request is answered. Each later request on the socket has its own handle.
        state.handle.end()
    if is_unread(flow, state) and (state.is_searched or is_read(state)):
        flow.websocket, flow.response = None, http.Response.make(502)
    if flow.response is None or flow.response.status_code != 101:
        state.drop(Socket)
        state.drop(SearchedSocket)


def is_unread(flow: Flow, state: FlowState | None) -> bool:
    """Return whether mitmproxy would forward all bytes after a response without a hook."""
    if flow.response is None or flow.response.status_code != 101:
        return False
    reads = state is not None and (is_read(state) or state.handle.settings.websocket == "pass")
    return flow.websocket is None or not reads


def is_read(state: FlowState) -> bool:
    """Return whether the frames of a flow are rewritten or searched."""
    return state.get(Socket) is not None or state.get(SearchedSocket) is not None
