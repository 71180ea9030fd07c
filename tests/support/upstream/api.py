"""The base of the APIs, and the values that the server hands to them."""

import itertools
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from support.upstream.script import Text, Thinking, Turn


@dataclass
class Received:
    """A `Received` is a request as it arrived, and its outcome."""

    number: int
    """The number of the request since the last reset, from 0."""
    http_version: str
    """`1.1` or `2`."""
    method: str
    target: str
    """Path and query."""
    headers: list[tuple[str, str]]
    """All headers in order, with names spelled as received; for HTTP/2 with the pseudo headers."""
    raw_body: bytes
    """The body without its transfer coding."""
    body: bytes | None = None
    """The body without its content coding; None if it can't be decoded."""
    api: str = ""
    status: int = 0
    problem: str = ""
    """The reason for which the request was refused."""
    done: threading.Event = field(default_factory=threading.Event)
    cancelled: bool = False
    """True if the client left before the response was complete; wait for `done` first."""
    sent: int = 0
    """Bytes of a stream that its connection has taken."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        """The value of the decoded body."""
        return json.loads(self.body or b"null")

    def header(self, name: str) -> str | None:
        """Return the last value of a header; None if it is absent."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return values[-1] if values else None


class Refused(Exception):
    """Raised for a request that the API refuses, with the API's response."""

    def __init__(self, status: int, body: dict[str, Any], problem: str) -> None:
        super().__init__(problem)
        self.status = status
        self.body = body
        self.problem = problem


Event = tuple[str, Any]
"""An event is its name (empty: none) and its data, a JSON value, or a str that is sent unchanged."""


@dataclass(frozen=True)
class Rendered:
    """A `Rendered` is a turn as an API writes it."""

    document: dict[str, Any]
    events: Sequence[Event]
    streamed: bool
    """True if the request asked for a stream."""
    error_event: Event
    framing: str = "events"
    """The framing of a stream: server-sent `events`, JSON `lines`, one JSON `array`, or Amazon's
    `messages`."""


def words(text: str) -> frozenset[str]:
    """Return a set of names from one text."""
    return frozenset(text.split())


class Api:
    """An `Api` answers the requests of one provider and keeps the provider's state."""

    name = ""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything about conversations."""
        self.ids = itertools.count(1)

    def operation(self, received: Received) -> str:
        """Return the operation of this API that a request calls; empty if there is none."""
        raise NotImplementedError

    def fault(self, status: int, message: str) -> dict[str, Any]:
        """Return an error's body."""
        raise NotImplementedError

    def refused(self, message: str, status: int = 400) -> Refused:
        """Return the exception that answers a request with an error."""
        return Refused(status, self.fault(status, message), message)

    def direct(self, operation: str, received: Received, body: Any) -> dict[str, Any] | None:
        """Return the response of an operation without a model; None if the script answers."""
        return None

    def check(self, received: Received, body: Any) -> None:
        """Raise Refused for a request to the model that the API refuses."""
        raise NotImplementedError

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        """Return the model's turn as the API writes it."""
        raise NotImplementedError


def cut(text: str, size: int) -> list[str]:
    """Return the pieces of `size` characters of a text in a stream."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def tokens(body: dict[str, Any], *members: str) -> int:
    """Return the number of tokens in some members of a request: 4 characters are one."""
    return sum(len(json.dumps(body.get(member))) for member in members) // 4


def spoken(block: Text | Thinking, size: int) -> list[str]:
    """Return the pieces of a block's text in a stream."""
    return [*block.deltas] if isinstance(block, Text) and block.deltas else cut(block.text, size)
