"""A streamed response on its way to the client.

    bytes ─► framing ─► event ─► turns ─► filters ─► framing ─► bytes

`turns` take the injected tool's calls out and make one response of several turns, filters edit what is
left. Each reads what the one before has made of an event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from penumbra.apis.base import Event, Failure, Filter, Turn
from penumbra.apis.turns import Turns
from penumbra.errors import place
from penumbra.wire.framing import Piece, Reader

_log = logging.getLogger(__name__)


class Framing:
    """How the events of a stream are cut out of its bytes, and written again."""

    def __init__(self, reader: Callable[[], Reader]) -> None:
        self._new_reader = reader

    def reader(self) -> Reader:
        """A reader for the next turn."""
        return self._new_reader()

    def write(self, event: Event) -> bytes:
        """The bytes on the wire."""
        return event.bytes()


class Stream:
    """See `base.Response`. Without turns, a response in which nothing is hidden."""

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
        self._reader = framing.reader()
        self._rest: list[Event] = []
        """Output of the last bytes of a turn, until it is clear what follows."""

    def attach(self, filter: Filter) -> None:
        self._filters.append(filter)

    @property
    def holding(self) -> bool:
        return self._turns is not None and self._turns.holding

    def feed(self, data: bytes) -> bytes:
        return self._write(self._read(self._reader.feed(data)))

    def end_turn(self) -> Turn:
        self._rest = self._read(self._reader.close())
        return self._turns.end_turn() if self._turns is not None else Turn()

    def go_on(self) -> bytes:
        rest, self._rest = self._rest, []
        events = [*rest, *self._turns.go_on()] if self._turns is not None else rest
        self._reader = self._framing.reader()
        return self._write(events)

    def restart(self) -> None:
        self._rest, self._reader = [], self._framing.reader()
        if self._turns is not None:
            self._turns.restart()

    def finish(self) -> bytes:
        rest, self._rest = self._rest, []
        events = [*rest, *self._turns.finish()] if self._turns is not None else rest
        return self._write(events) + self._close()

    def fail(self, failure: Failure) -> bytes:
        event = self._turns.fail(failure) if self._turns is not None and failure.reported else None
        return self._write([event] if event is not None else []) + self._close()

    def close(self) -> bytes:
        """The end of a response that nobody continues."""
        self.end_turn()
        return self.finish()

    def _read(self, pieces: Iterable[Piece]) -> list[Event]:
        events = [Event.read(piece) for piece in pieces]
        if self._turns is None:
            return events
        return [out for event in events for out in self._turns.event(event)]

    def _write(self, events: Iterable[Event]) -> bytes:
        for filter in self._filters:
            events = [out for event in events for out in _edited(filter, event)]
        return b"".join([self._framing.write(event) for event in events])

    def _close(self) -> bytes:
        """Events that filters hold back; those of one filter still go through later ones."""
        out = b""
        for number, filter in enumerate(self._filters):
            events: Iterable[Event] = filter.close()
            for later in self._filters[number + 1 :]:
                events = [out for event in events for out in _edited(later, event)]
            out += b"".join([self._framing.write(event) for event in events])
        return out


def _edited(filter: Filter, event: Event) -> Iterable[Event]:
    """Filters an event. Never raises: an event that can't be read goes on as it is."""
    event.settle()
    try:
        events = list(filter.event(event))
        for edited in events:
            # Edits that contradict one another are found here.
            edited.data()
        return events
    except Exception as error:
        _log.warning("Penumbra passes an event on as it came: %s", place(error))
        return (event.copy(),)
