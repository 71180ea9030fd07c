"""A small agent that uses Responses over WebSocket and sends only new items, like Codex."""

import json
import ssl
from dataclasses import dataclass, field
from typing import Any

from websockets.sync.client import ClientConnection, connect

from support.agents.callers import ResponsesAgent

HOST = "api.openai.com"


class Failed(Exception):
    """Raised if a response ends in an error. The argument is the error's frame."""


def opened(proxy: Any, key: str, *, host: str = HOST, **headers: str) -> ClientConnection:
    """Return a socket through a proxy."""
    head = {"authorization": f"Bearer {key}", **headers}
    more: dict[str, Any] = {"additional_headers": head, "open_timeout": 30, "max_size": None}
    if proxy.is_reverse:
        way = connect(f"{proxy.url.replace('http', 'ws')}/v1/responses", proxy=None, **more)
    else:
        trust = proxy.trust()
        # The client reads in a thread of its own. OpenSSL fails if it reads a session ticket of TLS 1.3 while
        # another thread writes.
        trust.maximum_version = ssl.TLSVersion.TLSv1_2
        way = connect(f"wss://{host}/v1/responses", proxy=proxy.url, ssl=trust, **more)
    return way.__enter__()


@dataclass
class Talker(ResponsesAgent):
    """A `Talker` keeps its history, and sends all of it on a new socket. `client` is the proxy."""

    key: str = ""
    tools_once: bool = False
    """True if only the first input declares tools."""
    stream_id: str = ""
    """The `stream_id` of all frames."""
    binary: bool = False
    """True if requests are sent in binary frames."""
    frames: list[dict[str, Any]] = field(default_factory=list)
    """All frames that were received."""
    socket: ClientConnection | None = None
    asked_from: str | None = None
    """The id of the response that the last request continues."""

    def prompt(self, words: str) -> dict[str, Any]:
        return {"type": "message", "role": "user", "content": words}

    def start(self, words: str) -> dict[str, Any]:
        """Add a prompt; return the frame that sends it."""
        self.begin(words)
        return self.request()

    def ask(self) -> list[dict[str, Any]]:
        """Send the new items and keep the response."""
        self.send(self.request())
        self.answer()
        return self.take(self.frames[-1]["response"])

    def keep(self, answer: Any) -> None:
        """Do nothing, since `ask` has kept the response."""

    def take(self, response: dict[str, Any]) -> list[dict[str, Any]]:
        """Add the items of a response to the history, and continue that response from now on."""
        items: list[dict[str, Any]] = response["output"]
        self.last_id = response["id"]
        super().keep(items)
        return items

    def prewarm(self) -> None:
        """Send the frame that Codex sends before the first prompt."""
        self.send({**self.request(), "generate": False})
        assert self.answer() == []

    def request(self) -> dict[str, Any]:
        """Return the frame that asks for the next answer."""
        tools = self.declared["tools"]
        frame: dict[str, Any] = {"type": "response.create", "model": "gpt-5", "store": False}
        frame |= {"instructions": "Be careful.", "include": ["reasoning.encrypted_content"]} | dict(
            self.extra
        )
        if self.stream_id:
            frame["stream_id"] = self.stream_id
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
            self.socket = opened(self.client, self.key)
        if isinstance(frame, dict) and frame["type"] == "response.create":
            self.asked_from = frame.get("previous_response_id")
        text = frame if isinstance(frame, str | bytes) else json.dumps(frame, ensure_ascii=False)
        self.socket.send(text.encode() if self.binary and isinstance(text, str) else text)

    def receive(self) -> dict[str, Any]:
        assert self.socket is not None
        self.frames.append(json.loads(self.socket.recv(30)))
        return self.frames[-1]

    def answer(self) -> list[dict[str, Any]]:
        """Return the items of one answer, each of whose events must fit the ones before it."""
        return self.answer_begun([self.receive()])

    def answer_begun(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the items of an answer whose first events were received already."""
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
            assert event.get("stream_id", "") == self.stream_id
            place += event["type"] == "response.output_item.added"
            assert event.get("output_index", place) == place
        first, last = events[0]["response"], events[-1]["response"]
        assert first["id"] == last["id"]
        assert first["created_at"] == last["created_at"]
        assert first["previous_response_id"] == last["previous_response_id"]
        assert first["previous_response_id"] == self.asked_from
        # A response without a request continues this one.
        self.asked_from = first["id"]
        assert last["output"] == items
        self.last_id = first["id"]
        return items

    def reconnect(self) -> None:
        """Close the socket, so that the provider drops its history."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.last_id, self.known = None, "", 0

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
