"""Values of a memory that stand for the items of one document's array."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from penumbra.wire.value_memory import KnownValue, ValueMemory

S = TypeVar("S")


class StandIn(NamedTuple):
    """A value, and the item that it stands for."""

    known: KnownValue
    start: int
    """Where the item begins in the document."""


@dataclass(frozen=True, slots=True)
class Fold(Generic[S]):
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
        self.by_root = {id(value.root): value for value in values}
        self.changed: set[int] = set()
        """Identities of roots that were amended since, and read differently."""
        self.starts = starts
        self.span = (starts[0], starts[-1] + len(values[-1].data))
        """Where they stand in the document."""
        self._by_address: list[StandIn] = []
        self._addresses: list[int] = []
        self._old, self._new = memory.beginnings(self.values, known_before)
        self._reading = len(self._old.values) if self._old is not None else 0
        """Index of the value that was looked at last."""

    def at(self, address: int) -> StandIn | None:
        """Whose bytes an address is within; None: it is none of these."""
        # What is read is read in order, mostly from the first that is new.
        for index in range(self._reading, min(self._reading + 2, len(self.values))):
            if self.values[index].holds(address):
                self._reading = index
                return StandIn(self.values[index], self.starts[index])
        if not self._by_address:
            both = map(StandIn, self.values, self.starts)
            self._by_address = sorted(both, key=lambda each: each.known.address)
            self._addresses = [each.known.address for each in self._by_address]
        place = bisect_right(self._addresses, address) - 1
        if place < 0 or not (found := self._by_address[place]).known.holds(address):
            return None
        return found

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

    def contain(self, text: bytes) -> bool:
        """Whether a text stands in one of the values."""

        def step(found: list[bool], index: int) -> None:
            if text in self.values[index].data:
                found[:] = [True]

        return bool(self.folded(Fold(list, list.copy, ("contain", text)), step))


def stepped(state: S, step: Callable[[S, int], None], start: int, end: int) -> S:
    """A state that has taken in the items from `start` to `end`."""
    for index in range(start, end):
        step(state, index)
    return state
