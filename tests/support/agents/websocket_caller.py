"""A small agent that talks Responses over WebSocket, as Codex does: only new items travel."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass, field
from typing import Any

from websockets.sync.client import ClientConnection, connect

from support.agents.agent import run_tool
from support.agents.callers import TOOLS, schema

HOST = "api.openai.com"


class Failed(Exception):
    """The answer ended in an error; the argument is its frame."""


def opened(proxy: Any, key: str, *, host: str = HOST, **headers: str) -> ClientConnection:
    """A socket through a proxy."""
    head = {"authorization": f"Bearer {key}", **headers}
    more: dict[str, Any] = {"additional_headers": head, "open_timeout": 30, "max_size": None}
    if proxy.is_reverse:
        way = connect(f"{proxy.url.replace('http', 'ws')}/v1/responses", proxy=None, **more)
    else:
        trust = proxy.trust()
        # The client reads in a thread of its own, and OpenSSL does not bear that a session ticket, which
        # newer versions send unasked, is read while another thread writes.
        trust.maximum_version = ssl.TLSVersion.TLSv1_2
        way = connect(f"wss://{host}/v1/responses", proxy=proxy.url, ssl=trust, **more)
    return way.__enter__()


@dataclass
class Talker:
    """Keeps its history, and sends it whole on a new socket."""

    proxy: Any
    key: str
    extra: dict[str, Any] = field(default_factory=dict)
    """Further members of every request."""
    tools_once: bool = False
    """Tools stand in the first input and are not said again."""
    lane: str = ""
    binary: bool = False
    """JSON in binary frames."""
    messages: list[Any] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)
    """All that was received."""
    socket: ClientConnection | None = None

    last_id: str = ""
    _asked_from: str | None = None
    """The answer that the last request went on from."""
    known: int = 0

    def say(self, words: str) -> str:
        """One prompt and all that follows from it; the model's last words."""
        self.start(words)
        while True:
            items = self.ask()
            calls = [item for item in items if item["type"] == "function_call"]
            self.messages += [self.result(call) for call in calls]
            if not calls:
                texts = (item["content"][0]["text"] for item in items if item["type"] == "message")
                return "".join(texts)

    def start(self, words: str) -> dict[str, Any]:
        """The frame that a prompt begins with."""
        self.messages.append({"type": "message", "role": "user", "content": words})
        return self.request()

    def ask(self) -> list[dict[str, Any]]:
        """The answer to what is new."""
        self.send(self.request())
        self.answer()
        return self.take(self.frames[-1]["response"])

    def take(self, response: dict[str, Any]) -> list[dict[str, Any]]:
        """Go on from an answer."""
        items: list[dict[str, Any]] = response["output"]
        self.last_id = response["id"]
        self.messages += items
        self.known = len(self.messages)
        return items

    def prewarm(self) -> None:
        """What Codex sends before the first prompt."""
        self.send({**self.request(), "generate": False})
        assert self.answer() == []

    def request(self) -> dict[str, Any]:
        """The frame that asks for the next answer."""
        tools = [{"type": "function", "name": n, "parameters": schema(k), "strict": False} for n, k in TOOLS]
        frame: dict[str, Any] = {"type": "response.create", "model": "gpt-5", "store": False}
        frame |= {"instructions": "Be careful.", "include": ["reasoning.encrypted_content"]} | self.extra
        if self.lane:
            frame["stream_id"] = self.lane
        frame["input"] = self.messages[self.known :]
        if self.last_id:
            frame["previous_response_id"] = self.last_id
        if not self.tools_once:
            frame["tools"] = tools
        elif self.known == 0 and self.messages:
            namespace = {"type": "namespace", "name": "functions", "tools": tools}
            item = {"type": "additional_tools", "role": "developer", "tools": [namespace]}
            frame["input"] = [item, *frame["input"]]
        return frame

    def send(self, frame: Any) -> None:
        if self.socket is None:
            self.socket = opened(self.proxy, self.key)
        if isinstance(frame, dict) and frame["type"] == "response.create":
            self._asked_from = frame.get("previous_response_id")
        text = frame if isinstance(frame, str | bytes) else json.dumps(frame, ensure_ascii=False)
        self.socket.send(text.encode() if self.binary and isinstance(text, str) else text)

    def receive(self) -> dict[str, Any]:
        assert self.socket is not None
        self.frames.append(json.loads(self.socket.recv(30)))
        return self.frames[-1]

    def answer(self) -> list[dict[str, Any]]:
        """The items of one answer. Every event must fit the ones before it."""
        return self.answer_begun([self.receive()])

    def answer_begun(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The same with the events that are there already."""
        while events[-1]["type"] not in ("response.completed", "response.incomplete"):
            if events[-1]["type"] in ("error", "response.failed"):
                raise Failed(events[-1])
            events.append(self.receive())
        items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
        assert [item["id"] for item in items] == added
        place = -1
        for number, event in enumerate(events):
            assert event["sequence_number"] == number
            assert event.get("stream_id", "") == self.lane
            place += event["type"] == "response.output_item.added"
            assert event.get("output_index", place) == place
        first, last = events[0]["response"], events[-1]["response"]
        assert first["id"] == last["id"]
        assert first["created_at"] == last["created_at"]
        assert first["previous_response_id"] == last["previous_response_id"]
        assert first["previous_response_id"] == self._asked_from
        # What the provider says without being asked goes on from here.
        self._asked_from = first["id"]
        assert last["output"] == items
        self.last_id = first["id"]
        return items

    def reconnect(self) -> None:
        """The socket is lost, and with it all that the provider has kept."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.last_id, self.known = None, "", 0

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()

    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        text = run_tool(call["name"], json.loads(call["arguments"]))
        return {"type": "function_call_output", "call_id": call["call_id"], "output": text}
