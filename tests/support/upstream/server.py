"""The server: it listens, records, asks the API's module and the script, and sends answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.upstream import amazon, tls, window
from support.upstream.anthropic import Anthropic
from support.upstream.api import Api, Event, Received, Refused, Rendered
from support.upstream.bedrock import Bedrock
from support.upstream.encodings import DecodeError, StreamEncoder, decode, encode
from support.upstream.gemini import Gemini
from support.upstream.http import Died, Headers, Incoming, Peer, Reply, Socket, serve
from support.upstream.ollama import Ollama
from support.upstream.openai_chat import OpenAIChat
from support.upstream.openai_responses import OpenAIResponses
from support.upstream.responses_socket import Conversation
from support.upstream.script import Cut, Delivery, Fault, Hangup, Raw, Response, Turn, turn

Script = Callable[[Received], Response]
DEFAULT_ANSWER = turn("Understood.")


class Upstream:
    """An `Upstream` is a running test provider and a context manager. `close` also ends the provider."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or Path(tempfile.mkdtemp(prefix="upstream-"))
        self.anthropic = Anthropic()
        self.openai_chat = OpenAIChat()
        self.openai_responses = OpenAIResponses()
        self.gemini = Gemini()
        self.ollama = Ollama()
        self.bedrock = Bedrock()
        self.apis: tuple[Api, ...] = (
            self.anthropic,
            self.openai_chat,
            self.openai_responses,
            self.gemini,
            self.ollama,
            self.bedrock,
        )
        self.ca_file, self._context = tls.make(self._directory)
        self.requests: list[Received] = []
        self.pages: dict[str, Raw] = {}
        """Answers by path, for paths of no API."""
        self.errors: list[BaseException] = []
        """Errors of the server itself, which no test may have."""
        self.window = 0
        """Number of tokens in the context of every model; 0 for no limit."""
        self.refuses_late = False
        """True if a Responses stream begins before the size of its request is checked."""
        self._script: list[Response] | Script = []
        self.open_connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="upstream", daemon=True)
        self._thread.start()
        self.port = self._call(self._listen(None))
        """The port for plain HTTP/1.1."""
        self.tls_port = self._call(self._listen(self._context))
        """The port for TLS with HTTP/2 or HTTP/1.1."""

    def reset(self) -> None:
        """Forget requests and script, and set the default strictness."""
        self.requests.clear()
        self.pages.clear()
        self.errors.clear()
        self._script = []
        self.window, self.refuses_late = 0, False
        for api in self.apis:
            api.reset()

    def answers(self, *answers: Response) -> None:
        """Answer the next requests to the model with these, in order; after the last one, with
        `Understood.`"""
        self._script = list(answers)

    def script(self, function: Script) -> None:
        """Answer every request to the model by the function, which runs on the server's thread."""
        self._script = function

    def asked(self) -> list[Received]:
        """Return the requests to the model, refused ones included."""
        return [request for request in self.requests if request.api.endswith(":model")]

    def statuses(self) -> set[int]:
        """Return the statuses of all responses of the model so far."""
        return {request.status for request in self.asked()}

    def close(self) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Upstream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _listen(self, context: ssl.SSLContext | None) -> int:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self.open_connections.add(task)
            task.add_done_callback(self.open_connections.discard)
            peer = Peer(reader, writer)
            with contextlib.suppress(asyncio.CancelledError):
                await serve(peer, self._answer, self._converse)

        server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context, limit=1 << 20)
        return int(server.sockets[0].getsockname()[1])

    async def _stop(self) -> None:
        for task in list(self.open_connections):
            task.cancel()
        await asyncio.gather(*self.open_connections, return_exceptions=True)

    async def _converse(self, incoming: Incoming, socket: Socket) -> None:
        conversation = Conversation(
            self.openai_responses, socket, self._record, self._next_answer, self.errors, self
        )
        await conversation.run(incoming)

    def _record(self, incoming: Incoming) -> Received:
        received = Received(len(self.requests), **vars(incoming) | {"body": None, "raw_body": incoming.body})
        self.requests.append(received)
        return received

    async def _answer(self, incoming: Incoming, reply: Reply) -> None:
        received = self._record(incoming)
        try:
            await self._deliver(received, reply)
        except Died:
            raise
        except (asyncio.CancelledError, OSError):
            received.cancelled = True
            raise
        except Exception as error:
            self.errors.append(error)
            await reply.abort()
        finally:
            received.done.set()

    async def _deliver(self, received: Received, reply: Reply) -> None:
        api, operation = self._route(received)
        if api is None:
            page = self.pages.get(received.path) or Raw(404, body=b'{"error":{"message":"Not found"}}')
            await self._send_raw(received, reply, page)
            return
        received.api = f"{api.name}:{operation}"
        try:
            body = self._body(api, received)
            direct = api.direct(operation, received, body)
            if direct is None:
                api.check(received, body)
                window.check(api, received, self._whole(api, received, body), self.window)
        except Refused as refusal:
            received.problem = refusal.problem
            if self.refuses_late and api is self.openai_responses and body.get("stream"):
                failed = window.failed_events(refusal.body, body.get("previous_response_id"))
                events = [f"data: {json.dumps(one)}\n\n" for one in failed]
                head = (("content-type", "text/event-stream"),)
                await self._send_raw(received, reply, Raw(200, head, "".join(events).encode()))
                return
            await self._send_document(received, reply, refusal.status, refusal.body)
            return
        if direct is not None:
            await self._send_document(received, reply, 200, direct)
            return
        await self._perform(api, received, body, reply)

    def _route(self, received: Received) -> tuple[Api | None, str]:
        for api in self.apis:
            if operation := api.operation(received):
                return api, operation
        return None, ""

    def _body(self, api: Api, received: Received) -> Any:
        problem = "the request body is not valid JSON"
        try:
            received.body = decode(received.header("content-encoding") or "", received.raw_body)
            return json.loads(received.body) if received.body else None
        except DecodeError as error:
            problem = f"the request body could not be decoded: {error}"
        except (ValueError, RecursionError):
            pass
        status = 413 if problem.endswith("too large") else 400
        raise Refused(status, api.fault(status, problem), problem)

    def _whole(self, api: Api, received: Received, body: Any) -> Any:
        """Return a request with the history that the provider keeps."""
        if api is self.openai_responses:
            return {**body, "input": self.openai_responses.conversation(body, {})}
        if api is self.anthropic:
            return self.anthropic.threads.whole(body, received.header("anthropic-beta") or "")
        return body

    def _next_answer(self, received: Received) -> Response:
        if callable(self._script):
            return self._script(received)
        return self._script.pop(0) if self._script else DEFAULT_ANSWER

    async def _perform(self, api: Api, received: Received, body: Any, reply: Reply) -> None:
        answer = self._next_answer(received)
        if isinstance(answer, Hangup):
            await reply.abort()
        elif isinstance(answer, Raw):
            await self._send_raw(received, reply, answer)
        elif isinstance(answer, Fault):
            document = api.fault(answer.status, answer.message)
            await self._send_document(received, reply, answer.status, document, list(answer.headers))
        else:
            if isinstance(answer, Cut):
                reply.dies(answer.before, answer.reset)
                answer = answer.turn
            await self._send_turn(received, reply, answer, api.render(received, body, answer))

    async def _send_raw(self, received: Received, reply: Reply, answer: Raw) -> None:
        received.status = answer.status
        length = ("content-length", str(len(answer.body)))
        await reply.start(answer.status, [*answer.headers, length])
        await reply.send(answer.body)
        await reply.end()

    async def _send_document(
        self,
        received: Received,
        reply: Reply,
        status: int,
        document: dict[str, Any],
        headers: Headers | None = None,
        encoding: str = "",
    ) -> None:
        body = encode(encoding, json.dumps(document, ensure_ascii=False).encode())
        extra = [("content-encoding", encoding)] if encoding else []
        head = (("content-type", "application/json"), *extra, *(headers or ()))
        await self._send_raw(received, reply, Raw(status, head, body))

    async def _send_turn(self, received: Received, reply: Reply, answer: Turn, made: Rendered) -> None:
        delivery = answer.delivery
        encoding = delivery.encoding
        await asyncio.sleep(delivery.first_delay)
        if made.streamed:
            await self._stream(received, reply, delivery, made, encoding)
        elif delivery.cut_after is not None:
            await reply.abort()
        else:
            await self._send_document(received, reply, 200, made.document, encoding=encoding)

    async def _stream(
        self, received: Received, reply: Reply, delivery: Delivery, made: Rendered, encoding: str
    ) -> None:
        received.status = 200
        headers = [("content-type", CONTENT_TYPES[made.framing]), ("cache-control", "no-cache")]
        headers += [("content-encoding", encoding)] if encoding else []
        await reply.start(200, headers)
        outlet = _Outlet(received, reply, StreamEncoder(encoding), delivery)
        for number, event in enumerate(made.events):
            if delivery.cut_after == number:
                await outlet.flush()
                await reply.abort()
                return
            if delivery.error_after == number:
                await outlet.put(write_piece(made.framing, number, made.error_event, crlf=delivery.crlf))
                break
            await outlet.pause(number)
            await outlet.put(write_piece(made.framing, number, event, crlf=delivery.crlf))
        await outlet.put(write_end(made.framing))
        await outlet.end()


class _Outlet:
    """An `_Outlet` sends a stream's bytes in the pieces that the test asked for."""

    def __init__(self, received: Received, reply: Reply, encoder: StreamEncoder, delivery: Delivery) -> None:
        self._received = received
        self._reply = reply
        self._encoder = encoder
        self._delivery = delivery
        self._waiting = b""

    async def put(self, data: bytes) -> None:
        """Send all whole pieces; the rest waits for the next bytes."""
        self._waiting += data
        size = self._delivery.split or len(self._waiting)
        while self._waiting and len(self._waiting) >= size:
            await self._send(self._waiting[:size])
            self._waiting = self._waiting[size:]

    async def pause(self, number: int) -> None:
        """Wait before an event for a time or for the test."""
        gate = self._delivery.hold.get(number)
        if gate is not None or self._delivery.event_delay:
            await self.flush()
        await asyncio.sleep(self._delivery.event_delay if number else 0)
        while gate is not None and not gate.is_set():
            await asyncio.sleep(0.002)

    async def flush(self) -> None:
        if self._waiting:
            await self._send(self._waiting)
            self._waiting = b""

    async def end(self) -> None:
        await self.flush()
        if rest := self._encoder.end():
            await self._reply.send(rest)
        await self._reply.end()

    async def _send(self, data: bytes) -> None:
        await self._reply.send(self._encoder.feed(data))
        self._received.sent += len(data)
        await asyncio.sleep(0)


CONTENT_TYPES = {
    "events": "text/event-stream; charset=utf-8",
    "lines": "application/x-ndjson",
    "array": "application/json; charset=UTF-8",
    "messages": "application/vnd.amazon.eventstream",
}


def write_piece(framing: str, number: int, event: Event, *, crlf: bool = False) -> bytes:
    """Return the `number`th piece of a stream, from 0, with its separators."""
    if framing == "events":
        return write_event(event, crlf=crlf)
    if framing == "messages":
        return amazon.event(*event)
    data = json.dumps(event[1], ensure_ascii=False).encode()
    return data + b"\n" if framing == "lines" else (b",\r\n" if number else b"[") + data


def write_end(framing: str) -> bytes:
    """Return the bytes after the last piece."""
    return b"]" if framing == "array" else b""


def write_event(event: Event, *, crlf: bool = False) -> bytes:
    """Return a server-sent event, with the empty line that ends it."""
    name, value = event
    data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
    return (text.replace("\n", "\r\n") if crlf else text).encode()
