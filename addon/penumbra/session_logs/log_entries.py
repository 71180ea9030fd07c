"""A conversation as a session log tells it, whatever agent wrote it.

Readers of formats make these; what a request to an API would have looked like is made of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A call of a tool. `arguments`: a dict, or the text of a freeform tool."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class LoggedResult:
    """What a tool gave, text by text."""

    call_id: str
    texts: tuple[str, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class LoggedUsage:
    """Tokens of one request as its provider counted them."""

    input: int
    """All of the prompt."""
    cached: int = 0
    """Of them, read from the provider's cache."""
    written: int = 0
    """Of them, written into it at a price of their own."""


@dataclass(frozen=True, slots=True)
class LoggedResponse:
    """What the model said to one request."""

    key: str
    """Stands for this response in every log that holds it; empty: it is known by what stands before it."""
    text: str = ""
    calls: tuple[LoggedCall, ...] = ()
    model: str = ""
    at: float = 0.0
    """Seconds since the epoch; 0: not logged."""
    usage: LoggedUsage | None = None


@dataclass(frozen=True, slots=True)
class LoggedPrompt:
    """What the user said, or what the client put in the place of older history."""

    text: str


Entry = LoggedPrompt | LoggedResponse | LoggedResult


@dataclass(frozen=True, slots=True)
class LoggedConversation:
    """Entries in the order in which the model saw them; the request behind a response holds all before it."""

    agent: str
    entries: tuple[Entry, ...]

    @property
    def models(self) -> Iterator[str]:
        """Of its responses, as far as they are logged."""
        return (entry.model for entry in self.entries if isinstance(entry, LoggedResponse) and entry.model)


def response_keys(entries: Iterable[Entry]) -> Iterator[str]:
    """For each response what it is known by: the log's own key, else a hash of all that was said so far.

    A session that was resumed or forked into another log begins with the same entries, and has the same keys.
    """
    chain = hashlib.blake2b(digest_size=16)
    for entry in entries:
        chain.update(repr(_lasting(entry)).encode("utf-8", "surrogatepass"))
        if isinstance(entry, LoggedResponse):
            yield entry.key or chain.hexdigest()


def _lasting(entry: Entry) -> tuple[object, ...]:
    """What of an entry is the same in a copy of it."""
    if isinstance(entry, LoggedResponse):
        return entry.text, [(call.id, call.name, call.arguments) for call in entry.calls]
    if isinstance(entry, LoggedResult):
        return entry.call_id, entry.texts
    return (entry.text,)
