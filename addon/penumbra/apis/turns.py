"""This module converts several turns of the provider to one response for the client, event by event.

           ┌──── restart ◄─────┬──────────────┐
           ▼                   │              │
        READING ─ injected ─► WAITING ─ end ─► ASKING ─ go_on ─► CONTINUED  (which goes on like READING)
           │      tool called  │   of the turn  │
           └──────── finish ───┴────────────────┴───────────────► DONE
        anywhere ─ the provider's error, fail ──────────────────► FAILED

READING and CONTINUED: the client gets events as they arrive. WAITING: the end of the turn is delayed, because
the response may be continued. ASKING: the turn is over, and the tool loop gets the results. FAILED: the
provider sent an error, or the continuation failed. If an earlier turn was continued, the client gets no
further events of the provider.

Subclasses edit the events of their API. A response in one JSON document is treated as a stream with one event
(`Framing.is_whole`). This event is delayed like the end of a turn.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar

from msgspec import Raw, structs

from penumbra.apis.base import ENDED_IN_AN_ERROR, Event, Failure, Turn, called_as
from penumbra.apis.upstream_error import DescribedError, described
from penumbra.apis.usage import Ending, EndingReader, EndingTable, Metrics, UsageTable, together
from penumbra.wire.document import Document
from penumbra.wire.framing import Piece, Reader, SseEvent, SseReader, event_bytes
from penumbra.wire.json_values import encode

_TEXT = (
    rb'(?P<text>(?:[^"\\\x00-\x1f\x80-\xff]++|\\["\\/bfnrt]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|'
    rb"[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|"
    rb"[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*+)"
)
"""The inside of a JSON string in UTF-8. Strings with escapes by number are left out, since two of them may
make one character."""


def growing(head: bytes, tail: bytes) -> re.Pattern[bytes]:
    """Return the pattern of a server-sent event that only adds to the text of the turn. Such events with the
    same `head`, `tail` and `end` have the effect of one event with all their texts."""
    return re.compile(rb"(?P<head>(?:event: ?[\w.]+\n)?data: ?" + head + rb'")' + _TEXT + tail)


class Frame(SseEvent):
    """A whole document: a body, or a frame of a WebSocket."""

    __slots__ = ()

    def with_data(self, data: bytes) -> bytes:
        return data


@dataclass(slots=True)
class BodyReader:
    """A `BodyReader` reads a body as one event. The event is returned at the end."""

    _body: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Sequence[Piece]:
        self._body += data
        return []

    def close(self) -> Sequence[Piece]:
        body = bytes(self._body)
        self._body.clear()
        return [Frame(body, "", body)] if body else []


def _frame(name: str, data: bytes) -> Frame:
    return Frame(data, name, data)


@dataclass(eq=False)
class Framing:
    """A `Framing` splits the bytes of a response into events, and writes events as bytes."""

    reader: Callable[[], Reader]
    piece: Callable[[str, bytes], Piece] = _frame
    """A function that makes an event from a name and JSON."""
    is_whole: bool = field(default=False, kw_only=True)
    """True if a response is one event."""

    def write(self, event: Event) -> bytes:
        return event.bytes()


SSE = Framing(SseReader, lambda name, data: SseEvent(event_bytes(name, data), name, data))
BODY = Framing(BodyReader, is_whole=True)


class State(Enum):
    READING = auto()
    WAITING = auto()
    ASKING = auto()
    CONTINUED = auto()
    DONE = auto()
    FAILED = auto()


_SHORTEST_NAME = 6
"""Shorter ids are not looked for. Servers that number calls write them, and other text may contain them."""


class HiddenNames:
    """The ids of hidden calls. Parts of a response that contain one of the ids are removed."""

    def __init__(self) -> None:
        self._names: dict[str, bytes] = {}

    def note(self, names: Iterable[str], *, hidden: bool) -> None:
        """Store the ids of a hidden call. Drop the ids of a call that the client sees, because servers that
        number the calls of each turn use ids again."""
        for name in names:
            if hidden and len(name) >= _SHORTEST_NAME:
                self._names[name] = name.encode("utf-8", "replace")
            elif not hidden:
                self._names.pop(name, None)

    def are_in(self, data: bytes) -> bool:
        """Return whether JSON text contains one of the ids."""
        return any(name in data for name in self._names.values()) if self._names else False

    def take_out(self, document: Document, value: Raw) -> None:
        """Remove each member whose name or string is a hidden id. Also remove each item of an array that is a
        hidden id, or that has a member with a hidden id as its string."""
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
    usage: ClassVar[UsageTable]
    ends: ClassVar[EndingTable]
    always_edits: ClassVar[bool] = False
    """True if a response must be edited even if it has no hidden call."""
    grows: ClassVar[re.Pattern[bytes] | None] = None
    """The pattern of events that are read together, as in `growing`; None if there are none."""

    def __init__(self, framing: Framing, injected_tool: str, before: str = "") -> None:
        """`before` is the id of the continued response, as the client knows it."""
        self.framing = framing
        self.injected_tool = injected_tool
        self.called_as = called_as(injected_tool)
        self.before = before
        self.continued = False
        """True after a turn was continued."""
        self.hidden_usage: Metrics = {}
        """Token counts of the turns that were continued."""
        self.hidden_names = HiddenNames()
        self.state = State.READING
        self._touched = self.always_edits
        self.restart()

    # Methods that the response calls

    @property
    def is_delayed(self) -> bool:
        return self.state in (State.WAITING, State.ASKING)

    def event(self, event: Event) -> Iterable[Event]:
        """Read one event of the current turn, and return the events for the client."""
        if self.failure is not None:
            return ()
        if event.document is None:
            return self.no_json(event)
        if self.framing.is_whole:
            return self._all_of_it(event, event.document)
        if self.is_error(event):
            return self._unnamed(self._error(event))
        out = self.read(event, event.document)
        if self.state is not State.FAILED:
            self.state = State.WAITING if self.delayed or self.hides() else self._reading()
        return self._unnamed(out)

    def end_turn(self) -> Turn:
        if self.state is State.WAITING:
            self.state = State.ASKING
        usage, ending = self.usage.of_turn(self.metrics), self.ending.ending()
        if not self.framing.is_whole:
            turn = structs.replace(self.turn(), failed=self.failed, failure=self.failure)
        else:
            turn = self._whole
            ending = ending if turn.finished else Ending(ending.model)
        return structs.replace(turn, usage=usage, ending=ending)

    def go_on(self) -> list[Event]:
        """Continue the response. Return the delayed events that the client still gets."""
        out: list[Event] = []
        for event in self.delayed:
            if self.framing.is_whole and event.document is not None:
                self.keep(event.document)
            elif (left := self.without_end(event)) is not None:
                out.append(left)
        self.hidden_usage = together(self.hidden_usage, self.usage.summed(self.metrics))
        self.continued = self._touched = True
        self.hide_turn()
        self.restart()
        return self._unnamed(out)

    def restart(self) -> None:
        """Begin the current turn, for the first time or again."""
        self.state = self._reading()
        self.delayed: list[Event] = []
        self.metrics: Metrics = {}
        self.ending = EndingReader(self.ends)
        self.finished = False
        """True if the provider said that the turn is complete."""
        self.failed = False
        """True if the provider reported an error."""
        self.failure: Failure | None = None
        """The error, if it was not sent to the client; otherwise None."""
        self._whole = Turn()
        """The turn, if the response is a document."""
        self.begin_turn()

    def finish(self) -> list[Event]:
        """End the response. Return the delayed events, changed as hidden turns require."""
        delayed, self.delayed = self.delayed, []
        for event in delayed:
            if not self.framing.is_whole:
                self.put_right(event)
            elif self._touched and event.document is not None:
                self.usage.add(event.document, self.owner(event.document), self.hidden_usage, {})
                self.put_together(event.document)
        self.state = State.DONE
        return self._unnamed(delayed)

    def fail(self, failure: Failure) -> Event | None:
        """Return the event that reports a failure. In a stream, return the event only if the provider
        reported the error and the client did not get this report; otherwise return None."""
        error = described(failure, self.injected_tool)
        if self.framing.is_whole:
            self.state = State.FAILED
            return Event.read(self.framing.piece("", self.error_body(error)))
        if not failure.reported or (self.failed and not self.continued):
            return None
        self.state = State.FAILED
        return Event.read(self.error(error))

    def delay(self, event: Event) -> tuple[Event, ...]:
        event.settle()
        self.delayed.append(event)
        return ()

    def _all_of_it(self, event: Event, document: Document) -> Iterable[Event]:
        turn = self._whole = self.read_whole(document)
        self._touched |= bool(turn.injected)
        self.hidden_names.note([name for call in turn.injected for name in call.names], hidden=True)
        self.hidden_names.note(turn.real_calls, hidden=False)
        self.note_usage(document, self.owner(document))
        self.state = State.WAITING
        return self.delay(event)

    def _unnamed(self, events: Iterable[Event]) -> list[Event]:
        """Remove the parts of events that name a hidden call."""
        events = list(events)
        for event in events:
            if event.document is not None and self.hidden_names.are_in(event.document.data):
                event.settle()
                self.hidden_names.take_out(event.document, event.document.root)
        return events

    def note_usage(self, document: Document, owner: Raw | None) -> None:
        """Store the token counts, the model and the stop reason in an object of an event."""
        self.ending.note(document, owner)
        for holder, metrics in self.usage.read(document, owner).items():
            self.metrics.setdefault(holder, {}).update(metrics)

    def _reading(self) -> State:
        return State.CONTINUED if self.continued else State.READING

    def _error(self, event: Event) -> Iterable[Event]:
        self.state, self.failed = State.FAILED, True
        self.delayed.clear()
        if not self.continued:
            return self.own_error(event)
        self.failure = self.failed_by(event)
        return ()

    # Methods of an API

    @abstractmethod
    def begin_turn(self) -> None:
        """Drop the state of the previous turn."""

    @abstractmethod
    def read(self, event: Event, document: Document) -> Iterable[Event]:
        """Read an event of a stream. Return the events that replace it for the client."""

    @abstractmethod
    def hides(self) -> bool:
        """Return whether a part of the turn is hidden from the client, or may later be hidden."""

    @abstractmethod
    def turn(self) -> Turn:
        """Return the turn without errors and usage, which the caller adds."""

    @abstractmethod
    def is_error(self, event: Event) -> bool:
        """Return whether an event is an error of the provider."""

    @staticmethod
    @abstractmethod
    def error_body(error: DescribedError) -> bytes:
        """Return an error as the API writes it."""

    def error(self, error: DescribedError) -> Piece:
        """Return an event of a stream that reports this error."""
        return self.framing.piece("", self.error_body(error))

    def no_json(self, event: Event) -> Iterable[Event]:
        """Return the events that the client gets instead of an event without JSON."""
        return (event,)

    def own_error(self, event: Event) -> Iterable[Event]:
        """Return the client's events for an error of the provider in the first turn."""
        return (event,)

    def failed_by(self, event: Event) -> Failure:
        """Return the failure for the provider's error in a later turn, which the client does not get."""
        return Failure(None, event.data(), ENDED_IN_AN_ERROR, reported=True)

    def without_end(self, event: Event) -> Event | None:
        """Return the part of a delayed event that the client gets if the response is continued; None if it
        gets no part."""
        return None

    @abstractmethod
    def hide_turn(self) -> None:
        """Store the parts of a continued turn that later turns need."""

    def put_right(self, event: Event) -> None:
        """Edit an event at the end of the response."""
        return

    # Methods for documents

    @abstractmethod
    def read_whole(self, document: Document) -> Turn:
        """Return the turn of a document."""

    @abstractmethod
    def keep(self, document: Document) -> None:
        """Store the visible parts of a document whose turn is continued."""

    @abstractmethod
    def put_together(self, document: Document) -> None:
        """Edit the document of the last turn so that it is the response of all turns."""

    def owner(self, document: Document) -> Raw:
        """Return the object of a document that has the token counts."""
        return document.root
