"""What the server needs to know of an API, and what it hands to one."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from support.upstream.script import Turn


@dataclass
class Received:
    """One request, as it arrived, and what became of it."""

    number: int
    """From 0, over the requests since the last reset."""
    connection: int
    http_version: str
    """1.1 or 2."""
    tls: bool
    method: str
    target: str
    """Path and query."""
    headers: list[tuple[str, str]]
    """In order, names spelled as received; for HTTP/2 with the pseudo headers."""
    raw_body: bytes
    """As on the wire, transfer coding removed."""
    body: bytes | None = None
    """Without its content encoding; None if it can't be decoded."""
    api: str = ""
    status: int = 0
    problem: str = ""
    """Why it was refused."""
    done: threading.Event = field(default_factory=threading.Event)
    cancelled: bool = False
    """The client went away before the answer was complete. Wait for `done` first."""
    sent: int = 0
    """Bytes of a stream that its connection has taken."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        """The decoded body's value."""
        return json.loads(self.body or b"null")

    def header(self, name: str) -> str | None:
        """The last value of a header; None if it is absent."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return values[-1] if values else None


class Refused(Exception):
    """The API's answer to a request that it does not take."""

    def __init__(self, status: int, body: dict[str, Any], problem: str) -> None:
        super().__init__(problem)
        self.status = status
        self.body = body
        self.problem = problem


Event = tuple[str, Any]
"""Event name (empty: none) and its data: JSON value, or a str that is sent as it is."""


@dataclass(frozen=True)
class Rendered:
    """A turn in an API's words."""

    document: dict[str, Any]
    events: Sequence[Event]
    streamed: bool
    """The request asked for a stream."""
    error_event: Event
    ping: str
    """A keep-alive, as text of the stream."""
    headers: tuple[tuple[str, str], ...] = ()
    framing: str = "events"
    """How a stream is written: server-sent `events`, JSON `lines`, one JSON `array`, or Amazon's `messages`."""


class Api(Protocol):
    """One provider's API."""

    name: str

    def operation(self, received: Received) -> str:
        """Which of this API's operations it is; empty: none."""
        ...

    def fault(self, status: int, message: str) -> dict[str, Any]:
        """An error's body."""
        ...

    def direct(self, operation: str, received: Received, body: Any) -> dict[str, Any] | None:
        """The checked answer of an operation that no model is asked for; None: ask the script."""
        ...

    def check(self, received: Received, body: Any) -> None:
        """Raises Refused for a request to the model that the API does not take."""
        ...

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        """The model's turn as the API would write it."""
        ...

    def reset(self) -> None:
        """Forget everything about conversations."""
        ...


def words(text: str) -> frozenset[str]:
    """A set of names, written as one text."""
    return frozenset(text.split())


class PrefixCache:
    """What a provider's prompt cache would hold: every prefix that it was ever sent, by scope."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()

    def read(self, scope: str, parts: Sequence[str]) -> tuple[int, int]:
        """Estimated tokens (4 characters each) found in the cache, and in all; then remembers."""
        found = total = 0
        chain = hash(scope)
        whole = True
        for part in parts:
            chain = hash((chain, part))
            total += len(part)
            whole = whole and (scope, chain) in self._seen
            found = total if whole else found
            self._seen.add((scope, chain))
        return found // 4, total // 4

    def clear(self) -> None:
        self._seen.clear()
