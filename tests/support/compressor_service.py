"""A service that shortens texts over HTTP/1.1 with any contract. A function of the request decides about the
response. The service records requests and how many ran at once."""

from __future__ import annotations

import itertools
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
    """A `Does` describes the response to a request."""

    text: Any = None
    """The short text; if None, the first 60 characters and a number that grows with every response."""
    status: int = 200
    raw: bytes | None = None
    """A body that replaces the contract's."""
    delay: float = 0.0
    hang: bool = False
    reset: bool = False
    stop: str = ""
    """The reason for which the model stopped, in its provider's words."""
    hold: threading.Event | None = None
    """An event for which the response waits."""


Behaviour = Callable[[Asked], Does]


class Service:
    """A `Service` is a running service and a context manager, which ends it."""

    def __init__(self) -> None:
        self._lock, self._ends = threading.Lock(), threading.Event()
        self.reset()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads, self._server.block_on_close = True, False
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def does(self, **how: Any) -> None:
        """Set the response to all later requests."""
        self.behaviour: Behaviour = lambda asked: Does(**how)

    def reset(self) -> None:
        self.asked: list[Asked] = []
        self.at_once = self.most_at_once = 0
        self.numbers = itertools.count(1)
        self.does()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._server.shutdown()
        self._server.server_close()

    def perform(self, asked: Asked) -> Does:
        """Return the behaviour for a request after its delay."""
        with self._lock:
            self.asked.append(asked)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            does = self.behaviour(asked)
            if does.hold is not None:
                does.hold.wait(20)
            self._ends.wait(3600 if does.hang else does.delay)
            return does
        finally:
            with self._lock:
                self.at_once -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, service: Service, *given: Any) -> None:
        self._service = service
        super().__init__(*given)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.path, headers, body)
        does = self._service.perform(asked)
        if does.reset or does.hang:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        text = does.text
        if text is None:
            text = f"{asked.text[:60].strip()} (version {next(self._service.numbers)})"
        data = json.dumps(answer(asked, text, does.stop)).encode() if does.raw is None else does.raw
        self.send_response(does.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


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
