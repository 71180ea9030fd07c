"""Values of a memory that stand for the items of one document's array."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from penumbra.wire.known_values import KnownValue
from penumbra.wire.value_memory import ValueMemory

S = TypeVar("S")
_LAST = 8
_ADDRESS = attrgetter("address")


class StandIn(NamedTuple):
    """A value, and the item that it stands for."""

    known: KnownValue
    start: int
    """Where the item begins in the document."""


class Fold(NamedTuple, Generic[S]):
    """What is made of the items of an array, one after the other."""

    begin: Callable[[], S]
    copy: Callable[[S], S]
    """Another one, which goes on by itself."""
    key: Hashable
    """What makes it: there are few."""
    given: Hashable = None
    """What it makes it of beside the items. Folds of which both are equal make the same of the same bytes."""
    fits: Callable[[S], bool] = lambda state: True
    """Whether a state of another document may be gone on from."""


class StandIns:
    """All of one array, in order."""

    def __init__(
        self, values: Sequence[KnownValue], starts: Sequence[int], known_before: int, memory: ValueMemory
    ) -> None:
        """`starts`: of the items; `known_before`: how many of the first values the memory had."""
        self.memory = memory
        self.values = tuple(values)
        self.changed: set[int] = set()
        """Identities of roots that were amended since, and read differently."""
        self.starts = starts
        self.span = (starts[0], starts[-1] + len(values[-1].data))
        """Where they stand in the document."""
        count = len(self.values)
        self._often: tuple[int, ...] = (*range(min(2, count)), *range(max(2, count - _LAST), count))
        """Indexes of the values that are looked at in every request: how it begins, and how it ends."""
        self._order: list[int] = []
        """Indexes of all, by address; empty: not needed so far."""
        self._addresses: list[int] = []
        self._old, self._new = memory.beginnings(self.values, known_before)
        reading = max(0, len(self._old.values) - 1) if self._old is not None else 0
        self.by_root = {id(value.root): value for value in self.values[reading:]}
        """Those that are read, by the identity of the item that they are."""
        self._reading = StandIn(self.values[reading], starts[reading])
        """What was looked at last; at first, the last that was there a turn ago."""
        self._next = reading + 1
        """Index of the value behind it."""

    def follow(self, head: bytes) -> None:
        """Note what stands in front of all of them."""
        if self._new is not None:
            self.memory.keep_head(self._new, head)

    def at(self, address: int) -> StandIn | None:
        """Whose bytes an address is within; None: it is none of these."""
        # What is read is read in order, mostly from the first that is new.
        reading = self._reading
        if 0 <= address - reading.known.address < len(reading.known.data):
            return reading
        index = self._index(address)
        if index is None:
            return None
        self._next = index + 1
        self._reading = StandIn(self.values[index], self.starts[index])
        return self._reading

    def _index(self, address: int) -> int | None:
        values, index = self.values, self._next
        if index < len(values) and values[index].holds(address):
            return index
        for index in self._often:
            # As `holds`, which would be called for each of them.
            value = values[index]
            if 0 <= address - value.address < len(value.data):
                return index
        if not self._order:
            addresses = list(map(_ADDRESS, values))
            self._order = sorted(range(len(addresses)), key=addresses.__getitem__)
            self._addresses = sorted(addresses)
        place = bisect_right(self._addresses, address) - 1
        if place < 0 or not values[index := self._order[place]].holds(address):
            return None
        return index

    def folded(self, fold: Fold[S], step: Callable[[S, int], None]) -> S:
        """What a fold makes of all of them; it goes on where it stood behind the same values before. `step`
        takes in the item at an index."""
        if self.changed:
            return stepped(fold.begin(), step, 0, len(self.values))
        for beginning in (self._new, self._old):
            kept: S | None = None if beginning is None else beginning.state(fold.key, fold.given)
            if beginning is not None and kept is not None and fold.fits(kept):
                at, state = len(beginning.values), fold.copy(kept)
                break
        else:
            at, state = 0, fold.begin()
        if self._new is not None and at < len(self._new.values):
            state = stepped(state, step, at, len(self._new.values))
            at = len(self._new.values)
            self.memory.keep_state(self._new, fold.key, fold.given, fold.copy(state))
        return stepped(state, step, at, len(self.values))

    def rest(self) -> None:
        """Let go what was opened in those that a fold goes on behind: the next document looks at what stands
        behind them."""
        if self._new is not None:
            begun = 0 if self._old is None else len(self._old.values)
            self.memory.rest(self.values[max(0, begun - 1) : len(self._new.values) - 1])

    def contain(self, text: bytes) -> bool:
        """Whether a text stands in one of the values: one of few that are asked for."""
        at, found = 0, False
        for beginning in (self._new, self._old):
            if beginning is not None and text in beginning.contained:
                at, found = len(beginning.values), beginning.contained[text]
                break
        if self._new is not None and at < len(self._new.values):
            found = found or self._holds(text, at, len(self._new.values))
            self._new.contained[text] = found
            at = len(self._new.values)
        return found or self._holds(text, at, len(self.values))

    def _holds(self, text: bytes, start: int, end: int) -> bool:
        return any(text in value.data for value in self.values[start:end])


def stepped(state: S, step: Callable[[S, int], None], start: int, end: int) -> S:
    """A state that has taken in the items from `start` to `end`."""
    for index in range(start, end):
        step(state, index)
    return state
