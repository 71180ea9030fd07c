"""The server's side of a WebSocket: an upgraded connection, whole messages in and out."""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from hashlib import sha1
from typing import Any

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, TextMessage
from wsproto.extensions import PerMessageDeflate

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept(key: str) -> str:
    """What a server answers to a client's key."""
    return b64encode(sha1(key.encode() + _GUID).digest()).decode()


class Socket:
    """An open WebSocket. `peer` reads and writes; `rest` is what has been read already."""

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
        """The next message; None when the client has gone away. May be cancelled at any time."""
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
        """One message in one frame."""
        event = TextMessage(message) if isinstance(message, str) else BytesMessage(message)
        await self._peer.write(self._connection.send(event))

    async def close(self, code: int = 1000) -> None:
        """Say good-bye."""
        await self._peer.write(self._connection.send(CloseConnection(code)))

    def abort(self) -> None:
        """Die at once."""
        self._peer.writer.transport.abort()
