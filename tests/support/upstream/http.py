"""HTTP/1.1, HTTP/2 and WebSocket, from the server's side."""

from __future__ import annotations

import asyncio
import socket
import struct
from abc import ABC, abstractmethod
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h11
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, TextMessage
from wsproto.extensions import PerMessageDeflate

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept(key: str) -> str:
    """Return a server's answer to a client's key."""
    return b64encode(sha1(key.encode() + _GUID).digest()).decode()


class Socket:
    """A `Socket` is an open WebSocket. `peer` reads and writes. `rest` has the bytes that were read before."""

    def __init__(self, peer: Any, offer: str, rest: bytes) -> None:
        self._peer = peer
        self.extensions = ""
        deflate = PerMessageDeflate()
        if PerMessageDeflate.name in offer:
            self.extensions = f"{deflate.name}; {deflate.accept(offer) or ''}".rstrip("; ")
        self._connection = Connection(ConnectionType.SERVER, [deflate] if self.extensions else [])
        self._connection.receive_data(rest)
        self._messages: deque[str | bytes | None] = deque()
        self._parts: list[Any] = []

    async def receive(self) -> str | bytes | None:
        """Return the next message; None if the client has left. The call can be cancelled at any time."""
        while True:
            await self._read()
            if self._messages:
                return self._messages.popleft()
            try:
                data = await self._peer.reader.read(262_144)
            except OSError:
                data = b""
            if not data:
                return None
            self._connection.receive_data(data)

    async def _read(self) -> None:
        for event in self._connection.events():
            if isinstance(event, Message):
                self._parts.append(event.data)
                if event.message_finished:
                    empty: Any = "" if isinstance(event, TextMessage) else b""
                    self._messages.append(empty.join(self._parts))
                    self._parts.clear()
            elif isinstance(event, Ping):
                await self._peer.write(self._connection.send(event.response()))
            elif isinstance(event, CloseConnection):
                if self._connection.state is not ConnectionState.CLOSED:
                    await self._peer.write(self._connection.send(event.response()))
                self._messages.append(None)

    async def send(self, message: str | bytes) -> None:
        """Send one message in one frame."""
        event = TextMessage(message) if isinstance(message, str) else BytesMessage(message)
        await self._peer.write(self._connection.send(event))

    async def close(self, code: int = 1000) -> None:
        await self._peer.write(self._connection.send(CloseConnection(code)))

    def abort(self) -> None:
        self._peer.writer.transport.abort()


Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class Incoming:
    """An `Incoming` is a complete request."""

    http_version: str
    method: str
    target: str
    headers: Headers
    body: bytes


class Died(ConnectionError):
    """Raised where the connection has to end."""


class Reply(ABC):
    """A `Reply` takes the answer to one request."""

    @abstractmethod
    async def start(self, status: int, headers: Headers) -> None: ...

    @abstractmethod
    async def send(self, data: bytes) -> None:
        """Send one piece: a chunk or a DATA frame of its own."""

    @abstractmethod
    async def end(self) -> None: ...

    @abstractmethod
    async def abort(self) -> None:
        """Abort the connection with HTTP/1.1, the stream with HTTP/2."""

    @abstractmethod
    def dies(self, before: bytes, reset: bool) -> None:
        """End the connection before these bytes, by a reset or by closing it."""


Handler = Callable[[Incoming, Reply], Awaitable[None]]
"""A handler answers one request, and is cancelled when the client leaves."""
Upgraded = Callable[[Incoming, Socket], Awaitable[None]]
"""An upgraded handler serves one WebSocket until it ends."""


@dataclass
class Peer:
    """A `Peer` is a client's connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    dies: tuple[bytes, bool] | None = None
    """The bytes before which the connection dies, and whether by a reset."""

    async def write(self, data: bytes) -> None:
        """Write some bytes. Raise OSError when the connection has died."""
        before, reset = self.dies or (b"", False)
        end = data.find(before) if self.dies is not None else -1
        self.writer.write(data[:end] if end >= 0 else data)
        await self.writer.drain()
        if end >= 0:
            if reset and (end_point := self.writer.get_extra_info("socket")) is not None:
                end_point.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
            raise Died


async def serve(peer: Peer, handler: Handler, upgraded: Upgraded) -> None:
    """Serve a connection until it ends, in the protocol that TLS agreed on."""
    agreed = peer.writer.get_extra_info("ssl_object")
    http2 = agreed is not None and agreed.selected_alpn_protocol() == "h2"
    try:
        if http2:
            await _Http2(peer, handler).run()
        else:
            await _Http1(peer, handler, upgraded).run()
    except (OSError, h11.RemoteProtocolError, h2.exceptions.ProtocolError):
        pass
    finally:
        peer.writer.close()


class _Http1Reply(Reply):
    def __init__(self, peer: Peer, connection: h11.Connection) -> None:
        self._peer = peer
        self._connection = connection

    async def start(self, status: int, headers: Headers) -> None:
        await self._send(h11.Response(status_code=status, headers=headers))

    async def send(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def end(self) -> None:
        await self._send(h11.EndOfMessage())

    async def abort(self) -> None:
        self._peer.writer.transport.abort()

    def dies(self, before: bytes, reset: bool) -> None:
        self._peer.dies = (before, reset)

    async def _send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        await self._peer.write(self._connection.send(event) or b"")


class _Http1:
    def __init__(self, peer: Peer, handler: Handler, upgraded: Upgraded) -> None:
        self._peer = peer
        self._handler = handler
        self._upgraded = upgraded
        self._connection = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        while (incoming := await self._request()) is not None:
            headers = {name.lower(): value for name, value in incoming.headers}
            if headers.get("upgrade", "").lower() == "websocket":
                await self._open(incoming, headers)
                return
            await self._answer(incoming)
            if self._connection.our_state is not h11.DONE or self._connection.their_state is not h11.DONE:
                return
            self._connection.start_next_cycle()

    async def _open(self, incoming: Incoming, headers: dict[str, str]) -> None:
        offer = headers.get("sec-websocket-extensions", "")
        socket = Socket(self._peer, offer, self._connection.trailing_data[0])
        answer = [
            ("upgrade", "websocket"),
            ("connection", "Upgrade"),
            ("sec-websocket-accept", accept(headers["sec-websocket-key"])),
        ]
        answer += [("sec-websocket-extensions", socket.extensions)] if socket.extensions else []
        response = h11.InformationalResponse(status_code=101, headers=answer, reason="Switching Protocols")
        await self._peer.write(self._connection.send(response) or b"")
        await self._upgraded(incoming, socket)

    async def _request(self) -> Incoming | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._connection.next_event()
            if event is h11.NEED_DATA:
                self._connection.receive_data(await self._peer.reader.read(262_144))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return self._incoming(head, bytes(body), event.headers.raw_items())
            else:
                return None

    def _incoming(self, head: h11.Request, body: bytes, trailers: list[tuple[bytes, bytes]]) -> Incoming:
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in [*head.headers.raw_items(), *trailers]
        ]
        method, target = head.method.decode("ascii"), head.target.decode("latin-1")
        return Incoming("1.1", method, target, headers, body)

    async def _answer(self, incoming: Incoming) -> None:
        """Run the handler; cancel it if the client leaves before it is finished."""
        work = asyncio.ensure_future(self._handler(incoming, _Http1Reply(self._peer, self._connection)))
        while not work.done():
            watch = asyncio.ensure_future(self._peer.reader.read(65_536))
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            watch.cancel()
            await asyncio.wait({watch})
            if watch.cancelled():
                continue
            data = b"" if watch.exception() else watch.result()
            self._connection.receive_data(data)
            if not data:
                work.cancel()
                await asyncio.wait({work})
        await asyncio.gather(work, return_exceptions=True)


@dataclass
class _Stream:
    headers: Headers
    body: bytearray = field(default_factory=bytearray)
    work: asyncio.Task[None] | None = None


class _Http2Reply(Reply):
    def __init__(self, owner: _Http2, stream: int) -> None:
        self._owner = owner
        self._stream = stream

    async def start(self, status: int, headers: Headers) -> None:
        fields = [(":status", str(status)), *((name.lower(), value) for name, value in headers)]
        self._owner.machine.send_headers(self._stream, fields)
        await self._owner.flush()

    async def send(self, data: bytes) -> None:
        machine = self._owner.machine
        while data:
            space = min(machine.local_flow_control_window(self._stream), machine.max_outbound_frame_size)
            if space <= 0:
                await self._owner.window_opened()
                continue
            machine.send_data(self._stream, data[:space])
            data = data[space:]
            await self._owner.flush()

    async def end(self) -> None:
        self._owner.machine.end_stream(self._stream)
        await self._owner.flush()

    async def abort(self) -> None:
        self._owner.machine.reset_stream(self._stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
        await self._owner.flush()

    def dies(self, before: bytes, reset: bool) -> None:
        self._owner.peer.dies = (before, reset)


class _Http2:
    def __init__(self, peer: Peer, handler: Handler) -> None:
        self.peer = peer
        self._handler = handler
        self._streams: dict[int, _Stream] = {}
        self._window = asyncio.Event()
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.machine = h2.connection.H2Connection(config)

    async def flush(self) -> None:
        await self.peer.write(self.machine.data_to_send())

    async def window_opened(self) -> None:
        self._window.clear()
        await self._window.wait()

    async def run(self) -> None:
        self.machine.initiate_connection()
        self.machine.increment_flow_control_window(16 * 1024 * 1024)
        await self.flush()
        try:
            while data := await self.peer.reader.read(262_144):
                for event in self.machine.receive_data(data):
                    self._take(event)
                await self.flush()
        finally:
            running = [stream.work for stream in self._streams.values() if stream.work is not None]
            for work in running:
                work.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self._streams[event.stream_id] = _Stream([(str(n), str(v)) for n, v in event.headers])
        elif isinstance(event, h2.events.TrailersReceived):
            self._streams[event.stream_id].headers += [(str(n), str(v)) for n, v in event.headers]
        elif isinstance(event, h2.events.DataReceived):
            self._streams[event.stream_id].body += event.data
            self.machine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self._begin(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            stream = self._streams.pop(event.stream_id, None)
            if stream is not None and stream.work is not None:
                stream.work.cancel()
        elif isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            self._window.set()

    def _begin(self, number: int) -> None:
        stream = self._streams[number]
        pseudo = dict(stream.headers)
        incoming = Incoming(
            "2", pseudo.get(":method", ""), pseudo.get(":path", ""), stream.headers, bytes(stream.body)
        )
        stream.work = asyncio.ensure_future(self._answer(incoming, number))

    async def _answer(self, incoming: Incoming, number: int) -> None:
        try:
            await self._handler(incoming, _Http2Reply(self, number))
        except (OSError, h2.exceptions.ProtocolError):
            pass
        finally:
            self._streams.pop(number, None)
