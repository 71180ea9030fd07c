"""Turns that the client does not see: several turns of the provider become one response, event by event.

           ┌──── restart ◄─────┬──────────────┐
           ▼                   │              │
        READING ─ injected ─► HOLDING ─ end ─► ASKING ─ go_on ─► CONTINUED  (which goes on like READING)
           │      tool called  │   of the turn  │
           └──────── finish ───┴────────────────┴───────────────► DONE
        anywhere ─ the provider's error, fail ──────────────────► FAILED

READING and CONTINUED: the client's events go on as they come. HOLDING: the end of the turn is held back,
since it may not be the end of the response. ASKING: the turn is over, and the tool loop fetches the results.
FAILED: after an error that the client has not got, nothing more goes on.

Subclasses know what an event of their API says, and how it is edited. `WholeTurns` does the same for
responses that are one JSON document each.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import ClassVar

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Event, Failure, Filter, Turn
from penumbra.apis.usage import Ending, EndingReader, EndingTable, Metrics, UsageTable, together
from penumbra.errors import place
from penumbra.wire.document import Document
from penumbra.wire.framing import Piece
from penumbra.wire.json_values import NotJson, encode


class State(Enum):
    """See the module."""

    READING = auto()
    HOLDING = auto()
    ASKING = auto()
    CONTINUED = auto()
    DONE = auto()
    FAILED = auto()


_SHORTEST_NAME = 6
"""Characters. Shorter ids are those of servers that number calls, and may stand elsewhere by chance."""


class HiddenNames:
    """The ids of hidden calls, and what is done about parts of a response that name them."""

    def __init__(self) -> None:
        self._names: dict[str, bytes] = {}

    def note(self, names: Iterable[str], *, hidden: bool) -> None:
        """Keep the ids of a hidden call; forget those of one that the client sees, since servers that number
        the calls of each turn give the same id again."""
        for name in names:
            if hidden and len(name) >= _SHORTEST_NAME:
                self._names[name] = name.encode("utf-8", "replace")
            elif not hidden:
                self._names.pop(name, None)

    def are_in(self, data: bytes) -> bool:
        """Return True if JSON text contains one of the ids."""
        return any(name in data for name in self._names.values()) if self._names else False

    def take_out(self, document: Document, value: Raw) -> None:
        """Remove what names one of the ids from a value: members whose key or string it is, and items of
        arrays that are such a string or have such a member."""
        if not self.are_in(document.source(value)):
            return
        members, items = document.members(value), document.items(value)
        kept = [item for item in items if not self._is_named(document, item)]
        stay = {
            key: one
            for key, one in members.items()
            if key not in self._names and document.string(one) not in self._names
        }
        if len(kept) < len(items):
            left = [self._without(document, item) for item in kept]
            document.rewrite(value, b"[" + b",".join(left) + b"]")
        elif len(stay) < len(members):
            left = [encode(key) + b":" + self._without(document, one) for key, one in stay.items()]
            document.rewrite(value, b"{" + b",".join(left) + b"}")
        else:
            for inner in (*items, *members.values()):
                self.take_out(document, inner)

    def _is_named(self, document: Document, item: Raw) -> bool:
        return any(document.string(one) in self._names for one in (item, *document.members(item).values()))

    def _without(self, document: Document, value: Raw) -> bytes:
        inner = Document(document.source(value))
        self.take_out(inner, inner.root)
        return inner.render()


class Turns(ABC):
    """One response for the client. Never raises on odd input."""

    usage: ClassVar[UsageTable]
    ends: ClassVar[EndingTable]

    def __init__(self, injected_tool: str) -> None:
        self.injected_tool = injected_tool
        self.continued = False
        """At least one turn is hidden."""
        self.hidden_usage: Metrics = {}
        """Usage of the turns that were continued."""
        self.hidden_names = HiddenNames()
        self.state = State.READING
        self.restart()

    # What the response calls

    @property
    def holding(self) -> bool:
        """Something is held back right now."""
        return self.state in (State.HOLDING, State.ASKING)

    def event(self, event: Event) -> Iterable[Event]:
        """Take one event of the current turn; return the events that go on now."""
        if self.failure is not None:
            return ()
        if event.document is None:
            return self.no_json(event)
        if self.is_error(event):
            return self._unnamed(self._error(event))
        out = self.read(event, event.document)
        if self.state is not State.FAILED:
            self.state = State.HOLDING if self.held or self.holds() else self._reading()
        return self._unnamed(out)

    def end_turn(self) -> Turn:
        """The provider's response has ended."""
        if self.state is State.HOLDING:
            self.state = State.ASKING
        usage = self.usage.of_turn(self.metrics)
        ending = self.ending.ending()
        return replace(self.turn(), failed=self.failed, failure=self.failure, usage=usage, ending=ending)

    def go_on(self) -> list[Event]:
        """A continuation follows: return the held events that the client gets all the same."""
        out = [event for event in map(self.without_end, self.held) if event is not None]
        self.hidden_usage = together(self.hidden_usage, self.usage.summed(self.metrics))
        self.continued = True
        self.hide_turn()
        self.restart()
        return self._unnamed(out)

    def restart(self) -> None:
        """The current turn begins, or begins once more."""
        self.state = self._reading()
        self.held: list[Event] = []
        self.metrics: Metrics = {}
        self.ending = EndingReader(self.ends)
        self.finished = False
        """The provider said that the turn is over."""
        self.failed = False
        """The provider has reported an error."""
        self.failure: Failure | None = None
        """The error, if the client has not got it."""
        self.begin_turn()

    def finish(self) -> list[Event]:
        """No continuation follows: the held events, put right for what the client saw."""
        held, self.held = self.held, []
        for event in held:
            self.put_right(event)
        self.state = State.DONE
        return self._unnamed(held)

    def fail(self, failure: Failure) -> Event | None:
        """The event that tells the client of a failure; None if it has got the provider's own error."""
        if self.failed and not self.continued:
            return None
        self.state = State.FAILED
        return Event.read(self.error(failure))

    def hold(self, event: Event) -> tuple[Event, ...]:
        """Keep an event for the end of the response."""
        event.settle()
        self.held.append(event)
        return ()

    def _unnamed(self, events: Iterable[Event]) -> list[Event]:
        """Events for the client without what names a hidden call."""
        events = list(events)
        for event in events:
            if event.document is not None and self.hidden_names.are_in(event.document.data):
                event.settle()
                self.hidden_names.take_out(event.document, event.document.root)
        return events

    def note_usage(self, document: Document, owner: Raw | None) -> None:
        """Keep the figures that an object of an event has, and what it says of the response."""
        self.ending.note(document, owner)
        for holder, metrics in self.usage.read(document, owner).items():
            self.metrics.setdefault(holder, {}).update(metrics)

    def _reading(self) -> State:
        return State.CONTINUED if self.continued else State.READING

    def _error(self, event: Event) -> Iterable[Event]:
        self.state, self.failed = State.FAILED, True
        self.held.clear()
        if not self.continued:
            return self.own_error(event)
        self.failure = self.failed_by(event)
        return ()

    # What an API says

    @abstractmethod
    def begin_turn(self) -> None:
        """Forget the turn before."""

    @abstractmethod
    def read(self, event: Event, document: Document) -> Iterable[Event]:
        """Note what an event says, and edit, keep or drop it."""

    @abstractmethod
    def holds(self) -> bool:
        """True if a part of the turn is hidden from the client, or may turn out to be."""

    @abstractmethod
    def turn(self) -> Turn:
        """The turn's content; the caller adds errors and usage."""

    @abstractmethod
    def is_error(self, event: Event) -> bool:
        """The provider reports an error."""

    @abstractmethod
    def error(self, failure: Failure) -> Piece:
        """An error as the API writes it, in words of ours."""

    def no_json(self, event: Event) -> Iterable[Event]:
        """An event that says nothing."""
        return (event,)

    def own_error(self, event: Event) -> Iterable[Event]:
        """An error of the provider's in the first turn, for the client."""
        return (event,)

    def failed_by(self, event: Event) -> Failure:
        """An error of the provider's that the client does not get."""
        return Failure(None, event.data(), ENDED_IN_AN_ERROR, reported=True)

    def without_end(self, event: Event) -> Event | None:
        """The part of a delayed event that still counts when the response goes on."""
        return None

    def hide_turn(self) -> None:
        """The turn that is over is continued: keep the parts of it that later turns need."""
        return

    def put_right(self, event: Event) -> None:
        """Edit an event at the end of the response."""
        return


_log = logging.getLogger(__name__)


class WholeTurns(ABC):
    """Hides the parts of an API's documents that the client does not see."""

    usage: ClassVar[UsageTable]
    ends: ClassVar[EndingTable]

    def __init__(self, injected_tool: str) -> None:
        self.injected_tool = injected_tool
        self.hidden_usage: Metrics = {}
        """Usage of the turns that were continued."""

    @abstractmethod
    def turn(self, document: Document) -> Turn:
        """A document's content; the caller adds its usage."""

    @abstractmethod
    def hide_turn(self, document: Document) -> None:
        """The turn is continued: keep the parts of it that the client is to see."""

    @abstractmethod
    def put_right(self, document: Document) -> None:
        """Edit the last turn's document, so that it is the response to the client."""

    @abstractmethod
    def error(self, failure: Failure) -> bytes:
        """An error as the API writes it, in words of ours."""

    def owner(self, document: Document) -> Raw:
        """The object whose members hold figures."""
        return document.root

    def always_edits(self) -> bool:
        """True if a response has parts that are not the client's even where nothing is hidden."""
        return False


class WholeResponse:
    """See `base.Response`. Without turns, a response in which nothing is hidden."""

    keep_alive = b""

    def __init__(self, turns: WholeTurns | None = None, filters: Iterable[Filter] = ()) -> None:
        self._turns = turns
        self._filters = list(filters)
        self._body = bytearray()
        self._document: Document | None = None
        self._touched = turns is not None and turns.always_edits()
        self._hidden_names = HiddenNames()

    def attach(self, filter: Filter) -> None:
        self._filters.append(filter)

    @property
    def holding(self) -> bool:
        return bool(self._body)

    def feed(self, data: bytes) -> bytes:
        self._body += data
        return b""

    def end_turn(self) -> Turn:
        try:
            document = self._document = Document(bytes(self._body))
        except NotJson:
            self._document = None
            return Turn()
        if self._turns is None:
            return Turn()
        turn = self._turns.turn(document)
        self._touched |= bool(turn.injected)
        self._hidden_names.note([name for call in turn.injected for name in call.names], hidden=True)
        self._hidden_names.note(turn.real_calls, hidden=False)
        owner = self._turns.owner(document)
        metrics, said = self._turns.usage.read(document, owner), EndingReader(self._turns.ends)
        said.note(document, owner)
        ending = said.ending() if turn.finished else Ending(said.ending().model)
        return replace(turn, usage=self._turns.usage.of_turn(metrics), ending=ending)

    def go_on(self) -> bytes:
        if self._turns is not None and self._document is not None:
            turns, document = self._turns, self._document
            metrics = turns.usage.read(document, turns.owner(document))
            turns.hidden_usage = together(turns.hidden_usage, turns.usage.summed(metrics))
            turns.hide_turn(document)
        self._touched = True
        self.restart()
        return b""

    def restart(self) -> None:
        self._body.clear()
        self._document = None

    def finish(self) -> bytes:
        document = self._document
        if document is None:
            return bytes(self._body)
        if self._turns is not None and self._touched:
            self._turns.usage.add(document, self._turns.owner(document), self._turns.hidden_usage, {})
            self._turns.put_right(document)
            if self._hidden_names.are_in(document.data):
                document = Document(document.render())
                self._hidden_names.take_out(document, document.root)
        return _filtered(document, self._filters)

    def fail(self, failure: Failure) -> bytes:
        return self._turns.error(failure) if self._turns is not None else b""

    def close(self) -> bytes:
        """The end of a response that nobody continues."""
        self.end_turn()
        return self.finish()


def _filtered(document: Document, filters: Sequence[Filter]) -> bytes:
    """The filtered bytes of a document. Never raises: a document that can't be read stays as it is."""
    for filter in filters:
        document = Document(document.render()) if document.edits else document
        try:
            filter.document(document)
            # Edits that contradict one another are found here.
            document.render()
        except Exception as error:
            _log.warning("Penumbra passes a response on as it came: %s", place(error))
            document = Document(document.data)
    return document.render()
