"""What the server needs to know of an API, and what it hands to one."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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


class Api:
    """An `Api` answers the requests of one provider; its state is what a provider remembers."""

    name = ""

    def __init__(self) -> None:
        self.cache = PrefixCache()
        self.reset()

    def reset(self) -> None:
        """Forget everything about conversations."""
        self.ids = itertools.count(1)
        self.cache.clear()

    def operation(self, received: Received) -> str:
        """Return which of this API's operations the request asks for; empty: none."""
        raise NotImplementedError

    def fault(self, status: int, message: str) -> dict[str, Any]:
        """Return an error's body."""
        raise NotImplementedError

    def refused(self, message: str, status: int = 400) -> Refused:
        """Return the exception that answers a request with an error."""
        return Refused(status, self.fault(status, message), message)

    def direct(self, operation: str, received: Received, body: Any) -> dict[str, Any] | None:
        """Return the answer of an operation for which no model is asked; None: the script answers."""
        return None

    def check(self, received: Received, body: Any) -> None:
        """Raise Refused for a request to the model that the API does not take."""
        raise NotImplementedError

    def render(self, received: Received, body: Any, answer: Turn) -> Rendered:
        """Return the model's turn as the API writes it."""
        raise NotImplementedError


def cut(text: str, size: int, given: Sequence[str] = ()) -> list[str]:
    """Return the pieces in which a stream brings a text: the given ones, or pieces of `size` characters."""
    return [*given] or [text[start : start + size] for start in range(0, len(text), size)]
