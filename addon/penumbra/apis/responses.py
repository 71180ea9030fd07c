"""This module forwards the responses of an API to the client.

bytes ─► framing ─► event ─► turns ─► filters ─► framing ─► bytes

`Turns` removes the injected tool's calls and joins several turns into one response. Filters then edit the
remaining events, in their order. `ScaledUsage` is a filter that changes the reported input tokens, including
cached tokens. Totals change by the same number, and output tokens stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import Raw, structs

from penumbra.apis.base import ENDED_EARLY, Event, Failure, Filter, Turn
from penumbra.apis.call_arguments import CallArguments
from penumbra.apis.turns import BODY, SSE, Framing, State, Turns
from penumbra.apis.usage import UsageTable
from penumbra.errors import place
from penumbra.wire.document import Document
from penumbra.wire.framing import Piece

_log = logging.getLogger(__name__)


class Response:
    """A `Response` makes one message for the client, a stream or a document, from one or more turns. `feed`
    takes the decoded bytes of each turn and returns bytes for the client. A document is returned when it is
    complete. Without `turns`, nothing is hidden."""

    def __init__(
        self,
        framing: Framing,
        turns: Turns | None = None,
        filters: Iterable[Filter] = (),
        keep_alive: bytes = b"",
    ) -> None:
        self._framing = framing
        self._turns = turns
        self._filters = list(filters)
        self.keep_alive = keep_alive
        """The bytes of a keep-alive between two events; empty if the API has no keep-alive."""
        self._reader = framing.reader()
        self._around: tuple[bytes, ...] = ()
        """The bytes around the text of the last event if it only added text; otherwise empty."""
        self._texts: list[bytes] = []
        """The texts of the unread events, which have the same bytes around their texts."""
        self._rest: list[Event] = []
        """The events in the last bytes of a turn, until the response is continued or ended."""

    def attach(self, filter: Filter) -> None:
        self._filters.append(filter)

    @property
    def is_delayed(self) -> bool:
        return self._turns is not None and self._turns.is_delayed

    def feed(self, data: bytes) -> bytes:
        return self._write(self._read(self._reader.feed(data)))

    def end_turn(self) -> Turn:
        """End the provider's response, and return its turn. Delayed events stay delayed. An incomplete event
        with the name of the injected tool is dropped, because no client can read it."""
        rest = self._rest = self._read(self._reader.close())
        if self._turns is None:
            return Turn()
        self._read_texts(self._turns)
        name, turn = self._turns.injected_tool.encode(), self._turns.end_turn()
        self._rest = [
            event for event in rest if not (name and self._is_cut(event) and name in event.piece.raw)
        ]
        if self._framing.is_whole and len(self._rest) < len(rest):
            return structs.replace(turn, failure=Failure(None, b"", ENDED_EARLY))
        return turn

    def _is_cut(self, event: Event) -> bool:
        """Return whether an event is incomplete. A document that does not begin with `{` is never incomplete,
        because it may be of another type."""
        is_other = self._framing.is_whole and event.piece.raw.lstrip()[:1] != b"{"
        return event.document is None and not is_other

    def go_on(self) -> bytes:
        """Continue the response. Return the last bytes of this turn for the client."""
        rest, self._rest = self._rest, []
        events = [*rest, *self._turns.go_on()] if self._turns is not None else rest
        self._reader = self._framing.reader()
        return self._write(events)

    def restart(self) -> None:
        """Drop the current turn, of which the client has received nothing, and wait for a new one."""
        self._rest, self._reader = [], self._framing.reader()
        self._around, self._texts = (), []
        if self._turns is not None:
            self._turns.restart()

    def finish(self) -> bytes:
        """End the response. Return the last bytes for the client, changed as hidden turns require."""
        rest, self._rest = self._rest, []
        events = [*rest, *self._turns.finish()] if self._turns is not None else rest
        return self._write(events) + self._close()

    def fail(self, failure: Failure) -> bytes:
        """End a response whose continuation failed. A document becomes an error body of the API. A stream
        ends with an error event if the provider sent an error event; otherwise without one."""
        event = self._turns.fail(failure) if self._turns is not None else None
        return self._write([event] if event is not None else []) + self._close()

    def close(self) -> bytes:
        """End a response that has one turn. Return its last bytes."""
        self.end_turn()
        return self.finish()

    def _read(self, pieces: Iterable[Piece]) -> list[Event]:
        if self._turns is None:
            return [Event.read(piece) for piece in pieces]
        return [event for piece in pieces for event in self._events(self._turns, piece)]

    def _events(self, turns: Turns, piece: Piece) -> Iterable[Event]:
        """Return the events for the client instead of an event of the provider."""
        grows = turns.grows.fullmatch(piece.raw) if turns.grows is not None and not self._filters else None
        around = grows.group("head", "tail", "end") if grows is not None else ()
        if grows is not None and around == self._around:
            self._texts.append(grows["text"])
            return (Event(piece, None),)
        self._read_texts(turns)
        event = Event.read(piece)
        events = turns.event(event)
        is_plain = turns.state is State.READING and event.bytes() is piece.raw
        self._around = around if is_plain else ()
        return events

    def _read_texts(self, turns: Turns) -> None:
        """Read the unread events as one event with all their texts. The client has them already."""
        if self._texts:
            (head, *after), texts, self._texts = self._around, self._texts, []
            for piece in self._framing.reader().feed(b"".join((head, *texts, *after))):
                turns.event(Event.read(piece))

    def _write(self, events: Iterable[Event]) -> bytes:
        for filter in self._filters:
            events = [out for event in events for out in self._edited(filter, event)]
        return b"".join([self._framing.write(event) for event in events])

    def _close(self) -> bytes:
        """Return the bytes of the events that filters have delayed. Later filters also edit these events."""
        out = b""
        for number, filter in enumerate(self._filters):
            events: Iterable[Event] = filter.close()
            for later in self._filters[number + 1 :]:
                events = [out for event in events for out in self._edited(later, event)]
            out += b"".join([self._framing.write(event) for event in events])
        return out

    def _edited(self, filter: Filter, event: Event) -> Iterable[Event]:
        """Return the events that a filter returns for an event; after an error, the event itself."""
        event.settle()
        try:
            events = [event]
            if not self._framing.is_whole:
                events = list(filter.event(event))
            elif event.document is not None:
                filter.document(event.document)
            for edited in events:
                # This call raises ValueError if two edits overlap.
                edited.data()
            return events
        except Exception as error:
            _log.warning("Penumbra passes an event on as it came: %s", place(error))
            return (event.copy(),)


Count = Callable[[int], int]
"""A function that gets the provider's number of tokens and returns the number for the client."""


class ScaledUsage:
    """A filter that changes the counts of input tokens in one response."""

    def __init__(self, table: UsageTable, count: Count) -> None:
        self._table = table
        self._count = count
        self.real: dict[str, int] = {}
        """The input counts that the provider stated last."""

    def event(self, event: Event) -> Iterable[Event]:
        if event.document is not None:
            self.document(event.document)
        return (event,)

    def close(self) -> Iterable[Event]:
        return ()

    def document(self, document: Document) -> None:
        if not any(name.encode() in document.data for name in self._table.inputs):
            return
        for owner in self._table.within:
            outer = document.top.get(owner) if owner else document.root
            for holder in self._table.holders:
                self._scale(document, document.members(outer).get(holder) if holder else outer)

    def _scale(self, document: Document, value: Raw | None) -> None:
        usage = document.members(value)
        more = 0
        for name in self._table.inputs:
            for figure in _metrics(document, usage.get(name)):
                real = int(document.source(figure))
                scaled = self._count(real)
                if figure is usage.get(name):
                    self.real[name] = real
                    more += scaled - real if name in self._table.in_total else 0
                if scaled != real:
                    document.replace(figure, scaled)
        total = usage.get(self._table.total)
        if more and total is not None and document.source(total).isdigit():
            document.replace(total, int(document.source(total)) + more)


def _metrics(document: Document, value: Raw | None) -> Iterator[Raw]:
    """Yield the whole numbers in a value, which may be a number, an object or an array."""
    if value is None:
        return
    if document.source(value).isdigit():
        yield value
    for inner in (*document.members(value).values(), *document.items(value)):
        yield from _metrics(document, inner)


@dataclass(frozen=True, slots=True)
class Responses:
    """The readers of the responses of one API."""

    turns: type[Turns]
    arguments: type[CallArguments]
    framing: Callable[[], Framing] = lambda: SSE
    """A function that returns the framing, which splits a stream into events."""
    keep_alive: bytes = b""
    """The bytes of a keep-alive between two events of a stream; empty if the API has no keep-alive."""

    def scaled_usage(self, count: Count) -> ScaledUsage:
        """Return a filter that changes the reported input tokens by `count`."""
        return ScaledUsage(self.turns.usage, count)

    def passed(self, filters: Sequence[Filter], *, stream: bool) -> Response:
        """Return a reader, with the methods `feed` and `close`, of a response without hidden parts."""
        return Response(self.framing() if stream else BODY, filters=filters)
