"""Turns that the client does not see: several turns of the provider become one response, event by event.

           ┌──── restart ◄─────┬──────────────┐
           ▼                   │              │
        READING ─ injected ─► HOLDING ─ end ─► ASKING ─ go_on ─► CONTINUED  (which goes on like READING)
           │      tool called  │   of the turn  │
           └──────── finish ───┴────────────────┴───────────────► DONE
        anywhere ─ the provider's error, fail ──────────────────► FAILED

READING and CONTINUED: what is the client's goes on as it comes. HOLDING: the end of the turn is held back,
since it may not be the end of the response. ASKING: the turn is over, somebody else fetches the results.
FAILED: behind an error that the client has not got nothing goes on any more.

What differs from API to API is in the subclasses: what an event says, and how it is edited.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto
from typing import ClassVar

from msgspec import Raw

from penumbra.apis.base import ENDED_IN_AN_ERROR, Failure, Turn
from penumbra.apis.ending import EndingReader, EndingTable
from penumbra.apis.event import Event
from penumbra.apis.usage import Metrics, UsageTable, together
from penumbra.wire.document import Document
from penumbra.wire.framing import Piece


class State(Enum):
    """See the module."""

    READING = auto()
    HOLDING = auto()
    ASKING = auto()
    CONTINUED = auto()
    DONE = auto()
    FAILED = auto()


class Turns(ABC):
    """One response for the client. Never raises on odd input."""

    usage: ClassVar[UsageTable]
    ends: ClassVar[EndingTable]

    def __init__(self, injected_tool: str) -> None:
        self.injected_tool = injected_tool
        self.continued = False
        """At least one turn is hidden."""
        self.hidden_usage: Metrics = {}
        """Of the turns that were continued."""
        self.state = State.READING
        self.restart()

    # What the response calls

    @property
    def holding(self) -> bool:
        """Something is held back right now."""
        return self.state in (State.HOLDING, State.ASKING)

    def event(self, event: Event) -> Iterable[Event]:
        """One event of the current turn in; what is to go on now."""
        if self.failure is not None:
            return ()
        if event.document is None:
            return self.no_json(event)
        if self.is_error(event):
            return self._error(event)
        out = self.read(event, event.document)
        if self.state is not State.FAILED:
            self.state = State.HOLDING if self.held or self.holds() else self._reading()
        return out

    def end_turn(self) -> Turn:
        """The provider's response has ended."""
        if self.state is State.HOLDING:
            self.state = State.ASKING
        usage = self.usage.of_turn(self.metrics)
        ending = self.ending.ending()
        return replace(self.turn(), failed=self.failed, failure=self.failure, usage=usage, ending=ending)

    def go_on(self) -> list[Event]:
        """A continuation follows: what of the held events the client gets all the same."""
        out = [event for event in map(self.without_end, self.held) if event is not None]
        self.hidden_usage = together(self.hidden_usage, self.usage.summed(self.metrics))
        self.continued = True
        self.hide_turn()
        self.restart()
        return out

    def restart(self) -> None:
        """The current turn begins, or begins once more."""
        self.state = self._reading()
        self.held: list[Event] = []
        self.metrics: Metrics = {}
        self.ending = EndingReader(self.ends)
        self.finished = False
        """The provider said that the turn is over."""
        self.failed = False
        """It has reported an error."""
        self.failure: Failure | None = None
        """That error, if the client has not got it."""
        self.begin_turn()

    def finish(self) -> list[Event]:
        """No continuation follows: the held events, put right for what the client saw."""
        held, self.held = self.held, []
        for event in held:
            self.put_right(event)
        self.state = State.DONE
        return held

    def fail(self, failure: Failure) -> Event | None:
        """The event that tells the client; None if it has got the provider's own error."""
        if self.failed and not self.continued:
            return None
        self.state = State.FAILED
        return Event.read(self.error(failure))

    def hold(self, event: Event) -> tuple[Event, ...]:
        """Keep an event for the end of the response."""
        event.settle()
        self.held.append(event)
        return ()

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
        """Something of the turn is not the client's, or may turn out not to be."""

    @abstractmethod
    def turn(self) -> Turn:
        """What was said; errors and figures are added to it."""

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
        return Failure(None, event.data(), ENDED_IN_AN_ERROR)

    def without_end(self, event: Event) -> Event | None:
        """What a held event still has to say when the response goes on."""
        return None

    def hide_turn(self) -> None:
        """The turn that is over is continued: keep of it what later ones need."""
        return

    def put_right(self, event: Event) -> None:
        """Edit an event at the end of the response."""
        return
