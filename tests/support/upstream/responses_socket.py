"""OpenAI Responses over one WebSocket: frames are requests, events are frames. The connection remembers the
last response of each stream id and no other; a request that fails removes the response that it continues.
Stored responses are found, too. Input that joins a response under way (`response.steer`) is answered after
it, without a further request."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from wsproto.frame_protocol import CloseReason

from support.upstream import window
from support.upstream.api import Received, Refused, Rendered
from support.upstream.http import Incoming, Socket
from support.upstream.openai_responses import OpenAIResponses
from support.upstream.script import Fault, Hangup, Response, Turn, turn


class Bounds(Protocol):
    """The limits of the provider."""

    window: int
    refuses_late: bool


_FRAME = ("type", "generate", "stream_id")


class Conversation:
    """A `Conversation` is one connection and its state."""

    def __init__(
        self,
        api: OpenAIResponses,
        socket: Socket,
        record: Callable[[Incoming], Received],
        next_answer: Callable[[Received], Response],
        errors: list[BaseException],
        bounds: Bounds | None = None,
    ) -> None:
        self._api = api
        self._socket = socket
        self._record = record
        self._next_answer = next_answer
        self._errors = errors
        self._bounds = bounds
        self._held: dict[str, tuple[str, list[Any]]] = {}
        """The id of the last response, and the conversation up to it, by stream id."""
        self._steers: list[Any] = []
        self._order: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._work: set[asyncio.Task[None]] = set()

    async def run(self, incoming: Incoming) -> None:
        """Serve frames until the client leaves."""
        self._record(incoming).status = 101
        while (message := await self._socket.receive()) is not None:
            body = message.encode() if isinstance(message, str) else message
            received = self._record(replace(incoming, body=body))
            received.body = body
            task = asyncio.create_task(self._serve(received))
            self._work.add(task)
            task.add_done_callback(self._work.discard)
        for task in list(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _serve(self, received: Received) -> None:
        try:
            frame = json.loads(received.body or b"")
        except ValueError:
            frame = None
        try:
            if isinstance(frame, dict) and frame.get("type") == "response.steer":
                received.api = "openai_responses:steer"
                self._steers.append(frame["input"])
            elif isinstance(frame, dict) and frame.get("type") == "response.create":
                received.api = "openai_responses:model"
                async with self._order[frame.get("stream_id", "")]:
                    await self._answer(received, frame)
            else:
                received.api = "openai_responses:frame"
                await self._socket.send(f"what is {len(received.body or b'')} bytes?")
        except (asyncio.CancelledError, OSError):
            received.cancelled = True
        except Exception as error:
            self._errors.append(error)
            self._socket.abort()
        finally:
            received.done.set()

    async def _answer(self, received: Received, frame: dict[str, Any]) -> None:
        stream_id = frame.get("stream_id", "")
        body = {name: value for name, value in frame.items() if name not in _FRAME}
        kept = dict(self._held.values())
        try:
            if frame.get("generate") is not False:
                self._api.check(received, body, kept)
                if self._bounds is not None:
                    whole = {**body, "input": self._api.conversation(body, kept)}
                    window.check(self._api, received, whole, self._bounds.window)
            body["stream"] = True
            answer = self._next_answer(received) if frame.get("generate") is not False else turn()
            if isinstance(answer, Fault):
                raise Refused(answer.status, self._api.fault(answer.status, answer.message), answer.message)
        except Refused as refusal:
            received.status, received.problem = refusal.status, refusal.problem
            self._forget(body.get("previous_response_id"))
            if self._bounds is not None and self._bounds.refuses_late:
                for event in window.failed_events(refusal.body, body.get("previous_response_id")):
                    await self._send(event, stream_id)
                return
            await self._send({"type": "error", "status": refusal.status, **refusal.body}, stream_id)
            return
        if isinstance(answer, Hangup):
            self._socket.abort()
            return
        assert isinstance(answer, Turn), "what else can be said on a WebSocket?"
        received.status = 200
        made = self._api.render(received, body, answer, kept)
        if await self._deliver(answer, made, stream_id):
            items = [*self._api.conversation(body, kept), *made.document["output"]]
            self._held[stream_id] = (made.document["id"], items)
            if self._steers:
                more = {"previous_response_id": made.document["id"], "input": self._steers.pop(0)}
                await self._answer(received, {**frame, **more})

    async def _deliver(self, answer: Turn, made: Rendered, stream_id: str) -> bool:
        """Send a response; return whether it was complete."""
        delivery = answer.delivery
        await asyncio.sleep(delivery.first_delay)
        for number, (_, event) in enumerate(made.events):
            if delivery.cut_after == number:
                await self._leave(delivery.close_code)
                return False
            if delivery.error_after == number:
                await self._send(made.error_event[1], stream_id)
                return False
            gate = delivery.hold.get(number)
            while gate is not None and not gate.is_set():
                await asyncio.sleep(0.002)
            await self._send(event, stream_id)
            await asyncio.sleep(delivery.event_delay)
        return True

    async def _leave(self, code: int | None) -> None:
        if code is None:
            self._socket.abort()
        else:
            await self._socket.close(code or CloseReason.NO_STATUS_RCVD)

    async def _send(self, event: dict[str, Any], stream_id: str) -> None:
        named = {**event, "stream_id": stream_id} if stream_id else event
        await self._socket.send(json.dumps(named, ensure_ascii=False))

    def _forget(self, response_id: str | None) -> None:
        for stream_id, (kept, _) in list(self._held.items()):
            if kept == response_id:
                del self._held[stream_id]
