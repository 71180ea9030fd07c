"""A service that shortens texts, in each contract's words, well or badly. A function of the request decides
what it does. The service keeps what it was asked, and how many asked at once. It speaks HTTP/1.1."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Asked:
    """An `Asked` is one request."""

    path: str
    headers: dict[str, str]
    body: Any

    @property
    def text(self) -> str:
        """The text to be shortened, whatever the contract."""
        if "tool_output" in self.body:
            return str(self.body["tool_output"])
        framed = json.dumps(self.body["contents"]) if "contents" in self.body else None
        user = json.loads(framed)[0]["parts"][0]["text"] if framed else self.body["messages"][-1]["content"]
        return str(user.split("<output-", 1)[1].split(">\n", 1)[1].rsplit("\n</output-", 1)[0])


@dataclass(frozen=True)
class Does:
    """A `Does` says what becomes of a request."""

    text: Any = None
    """The short text; None: the first 60 characters and a number that grows with every answer."""
    status: int = 200
    raw: bytes | None = None
    """A body instead of the contract's."""
    delay: float = 0.0
    hang: bool = False
    reset: bool = False
    stop: str = ""
    """The reason for which the model stopped, in its provider's words."""
    hold: threading.Event | None = None
    """An event that the answer waits for."""


Behaviour = Callable[[Asked], Does]


class Service:
    """A `Service` runs as long as its context."""

    def __init__(self) -> None:
        self.behaviour: Behaviour = lambda asked: Does()
        self.asked: list[Asked] = []
        self.at_once = self.most_at_once = 0
        self.numbers = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._call(self._listen())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def does(self, **how: Any) -> None:
        """Treat every request so from now on."""
        self.behaviour = lambda asked: Does(**how)

    def reset(self) -> None:
        self.asked.clear()
        self.at_once = self.most_at_once = 0
        self.numbers = itertools.count(1)
        self.does()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 22)
        return int(self._server.sockets[0].getsockname()[1])

    async def _stop(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").split("\r\n")[:-2]
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                asked = Asked(first.split(" ")[1], headers, json.loads(body))
                self.asked.append(asked)
                await self._answer(asked, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self._perform(asked, self.behaviour(asked), writer)
        finally:
            self.at_once -= 1

    async def _perform(self, asked: Asked, does: Does, writer: asyncio.StreamWriter) -> None:
        if does.hold is not None:
            await asyncio.to_thread(does.hold.wait, 20)
        await asyncio.sleep(3600 if does.hang else does.delay)
        if does.reset:
            plug: socket.socket = writer.get_extra_info("socket")
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            raise ConnectionResetError
        body = does.raw
        if body is None:
            text = does.text
            if text is None:
                text = f"{asked.text[:60].strip()} (version {next(self.numbers)})"
            body = json.dumps(answer(asked, text, does.stop)).encode()
        head = f"HTTP/1.1 {does.status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()


def answer(asked: Asked, text: str, stop: str) -> dict[str, Any]:
    """Return an answer in the contract of the request."""
    if "tool_output" in asked.body:
        data = {"compressed_output": text, "original_tokens": 1000, "compressed_tokens": 40}
        return {"success": True, "data": data | {"compression_ratio": 0.04, "tool_name": "x"}}
    if "contents" in asked.body:
        parts = [{"text": "hm", "thought": True}, {"text": text}]
        usage = {"promptTokenCount": 1000, "candidatesTokenCount": 30, "thoughtsTokenCount": 10}
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": stop or "STOP"}
        return {"candidates": [candidate], "usageMetadata": usage}
    if "system" in asked.body:
        usage = {"input_tokens": 1000, "output_tokens": 40}
        blocks = [{"type": "text", "text": text}]
        return {"type": "message", "content": blocks, "stop_reason": stop or "end_turn", "usage": usage}
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": stop or "stop"}
    return {"choices": [choice], "usage": {"prompt_tokens": 1000, "completion_tokens": 40}}
