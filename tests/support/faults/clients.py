"""Clients that see every byte and may behave badly, over a connection of HTTP/1.1 each or over one of
HTTP/2."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import h11

from support.apis import BY_ID, printed
from support.mitm import Mitmdump
from support.upstream import Upstream

PATH = "/v1/messages"
_SECONDS = 60.0
"""Seconds after which a response counts as missing."""
_WINDOW = 2**24
TOOL = {"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}


@dataclass(frozen=True)
class Ending:
    """An `Ending` has what a client has seen of one response."""

    status: int = 0
    """The status; 0 if the response had no head."""
    body: bytes = b""
    whole: bool = False
    """True if the response is complete by the rules of HTTP."""

    @property
    def says(self) -> str:
        """The received text of the response."""
        texts = (event.get("delta", {}).get("text", "") for event in self.events)
        return "".join(texts)

    @property
    def error(self) -> str:
        """The kind of the API's error in the response; empty if there is none."""
        values = self.events if self.body[:1] != b"{" else [_value(self.body)]
        return next((str(one["error"].get("type")) for one in values if "error" in one), "")

    @property
    def events(self) -> list[Any]:
        parts = self.body.split(b"\n\n")[:-1]
        return [_value(part.partition(b"data: ")[2]) for part in parts if b"data: {" in part]


def _value(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return {}


@dataclass(frozen=True)
class Question:
    """A `Question` is a request to the model."""

    name: str
    """The name of the client."""
    text: str = ""
    """The result of a tool in the request; empty if there is none."""
    stream: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        texts = [self.text] if self.text else []
        turns = printed(*texts, words=f"<{self.name}>", ids=f"toolu_{self.name}")
        messages = BY_ID["anthropic-messages"].written(turns)
        more = {"tools": [TOOL], "messages": messages, "stream": self.stream}
        return json.dumps({"model": "m", "max_tokens": 99, **more}).encode()

    def head(self, length: int) -> list[tuple[str, str]]:
        fixed = {
            "content-type": "application/json",
            "content-length": str(length),
            "x-api-key": f"key-{self.name}",
            "anthropic-version": "2023-06-01",
        }
        return list({**fixed, **self.headers}.items())


@dataclass(frozen=True)
class Manners:
    """A `Manners` describes the behaviour of a client."""

    half_closes: bool = False
    """True if the client closes its sending side and continues to read."""
    leaves_at: bytes | None = None
    """Bytes after which the client leaves; if empty, it leaves after the request."""
    buffer: int = 0
    """The size in bytes of the system's read buffer; 0 for the default."""


PLAIN = Manners()
Server = Mitmdump | Upstream
"""A proxy, or the provider itself."""


async def ask(proxy: Server, question: Question, manners: Manners = PLAIN) -> Ending:
    """Send a question over a connection of its own, in plain HTTP/1.1; return its ending."""
    async with connected(proxy, manners.buffer) as (reader, writer):
        machine = await send(writer, question)
        if manners.half_closes:
            writer.write_eof()
        return await read(reader, machine, manners.leaves_at)


@contextlib.asynccontextmanager
async def connected(
    proxy: Server, buffer: int = 0
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    end = socket.socket()
    if buffer:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    end.setblocking(False)
    await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", proxy.port))
    reader, writer = await asyncio.open_connection(sock=end, limit=1 << 16)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def send(writer: asyncio.StreamWriter, question: Question) -> h11.Connection:
    machine = h11.Connection(h11.CLIENT)
    data = question.data
    head = [("host", "localhost"), *question.head(len(data))]
    writer.write(machine.send(h11.Request(method="POST", target=PATH, headers=head)) or b"")
    writer.write(machine.send(h11.Data(data=data)) or b"")
    writer.write(machine.send(h11.EndOfMessage()) or b"")
    await writer.drain()
    return machine


async def read(
    reader: asyncio.StreamReader, machine: h11.Connection, leaves_at: bytes | None = None
) -> Ending:
    """Read a response until it ends or breaks off."""
    status, body = 0, bytearray()
    try:
        while leaves_at is None or leaves_at not in body:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                machine.receive_data(await asyncio.wait_for(reader.read(1 << 16), _SECONDS))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return Ending(status, bytes(body), True)
            elif not isinstance(event, h11.InformationalResponse):
                break
    except (OSError, h11.RemoteProtocolError, TimeoutError):
        pass
    return Ending(status, bytes(body), False)


@dataclass
class _Stream:
    manners: Manners
    status: int = 0
    body: bytearray = field(default_factory=bytearray)
    over: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def ends(self, whole: bool) -> None:
        if not self.over.done():
            self.over.set_result(whole)


class Http2:
    """An `Http2` is one connection over TLS, of which each request is a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._machine = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self._streams: dict[int, _Stream] = {}
        self._room = asyncio.Event()
        self._machine.initiate_connection()
        self._machine.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW})
        self._machine.increment_flow_control_window(_WINDOW)
        self._flush()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, proxy: Server) -> AsyncIterator[Http2]:
        context = ssl.create_default_context(cafile=str(proxy.ca_file))
        context.set_alpn_protocols(["h2"])
        place: dict[str, Any] = {"ssl": context, "server_hostname": "localhost"}
        port = proxy.tls_port if isinstance(proxy, Upstream) else proxy.port
        made = cls(*await asyncio.open_connection("127.0.0.1", port, **place))
        try:
            yield made
        finally:
            made._reading.cancel()
            made._writer.close()
            with contextlib.suppress(OSError):
                await made._writer.wait_closed()

    async def ask(self, question: Question, manners: Manners = PLAIN) -> Ending:
        data = question.data
        number = self._machine.get_next_available_stream_id()
        stream = self._streams[number] = _Stream(manners)
        pseudo = [(":method", "POST"), (":path", PATH), (":scheme", "https"), (":authority", "localhost")]
        self._machine.send_headers(number, [*pseudo, *question.head(len(data))])
        while data:
            space = min(
                self._machine.local_flow_control_window(number), self._machine.max_outbound_frame_size
            )
            if space <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            self._machine.send_data(number, data[:space], end_stream=len(data) <= space)
            data = data[space:]
            self._flush()
        self._leave(number, stream)
        try:
            whole = await asyncio.wait_for(stream.over, _SECONDS)
        except TimeoutError:
            whole = False
        del self._streams[number]
        return Ending(stream.status, bytes(stream.body), whole)

    def _leave(self, number: int, stream: _Stream) -> None:
        at = stream.manners.leaves_at
        if at is not None and at in stream.body and not stream.over.done():
            # If all of the response has arrived in one piece, no stream is left to reset.
            with contextlib.suppress(h2.exceptions.StreamClosedError):
                self._machine.reset_stream(number, 8)
            self._flush()
            stream.ends(False)

    async def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := await self._reader.read(1 << 16):
                for event in self._machine.receive_data(data):
                    self._take(event)
                self._flush()
        for stream in self._streams.values():
            stream.ends(False)

    def _take(self, event: Any) -> None:
        if isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            self._room.set()
        if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
            self._machine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        number = getattr(event, "stream_id", None)
        if (stream := self._streams.get(number or 0)) is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            stream.status = int(dict(event.headers)[":status"])
        elif isinstance(event, h2.events.DataReceived):
            stream.body += event.data
            self._leave(number, stream)
        elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
            stream.ends(isinstance(event, h2.events.StreamEnded))

    def _flush(self) -> None:
        self._writer.write(self._machine.data_to_send())
