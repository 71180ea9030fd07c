"""What is remembered of an array: its values, and its beginnings with what was made of them.

Both are shared between requests and threads, and are functions of bytes alone. Who keeps them, and for how
long, is a matter of the memory (`value_memory.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from typing import Any, NamedTuple
from weakref import ref

from msgspec import Raw

ENTRY_BYTES = 1_500
"""What an entry takes beside its bytes."""
VALUE_BYTES = 200
"""What a value takes in a container, or a thing in a state."""
_RUN = 200
"""Values that are compared at once."""

_DATA = attrgetter("data")
Key = tuple[bytes, bytes, int]
"""Scope, bytes, and how many values with these bytes stood in front of it."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class KnownValue:
    """One value with bytes of its own, and what was read of it. Shared between requests and threads: what is
    put into its dicts stays there, unchanged."""

    key: Key
    data: bytes
    root: Raw
    address: int
    """Of the bytes that its values are views of."""
    room: int
    """What it takes in an array: its bytes and a comma."""
    objects: dict[int, tuple[Raw, dict[str, Raw]]] = field(default_factory=dict)
    arrays: dict[int, tuple[Raw, list[Raw]]] = field(default_factory=dict)
    """What was opened, by the identity of its value."""
    opened: int = 0
    """Bytes of all that was ever opened; a container counts once."""
    open: int = 0
    """The same of what is there."""
    inside: int = 0
    """Bytes that all of it and what was made of it take, roughly."""
    made: dict[Hashable, Any] = field(default_factory=dict)
    """What was made of it, by what makes it."""
    kept: bool = False
    """A memory has it."""
    used: int = 0
    """When it was used last: a number that grows."""
    beginning: Beginning | None = None
    """Of which it is the last."""
    next: ref[KnownValue] | None = None
    """What stood behind it the last time."""

    def note_opened(self, size: int) -> int:
        """A container of so many bytes is opened; how many more than ever before that makes."""
        self.open += size
        more = max(0, self.open - self.opened)
        self.opened += more
        return more

    def close(self) -> None:
        """Let go what was opened, and what was made. Who is reading it goes on with what he has."""
        self.objects, self.arrays, self.made = {}, {}, {}
        self.open = self.inside = 0

    def holds(self, address: int) -> bool:
        """Whether bytes are its own."""
        return self.address <= address < self.address + len(self.data)


class KeptState(NamedTuple):
    """What a fold made of the values of a beginning."""

    given: Hashable
    """What it was given beside them."""
    state: Any
    """As it was behind the last of them, and stays so."""
    size: int


@dataclass(slots=True, eq=False)
class Beginning:
    """The first values of an array, and what was made of them one after the other. Shared, too."""

    values: tuple[KnownValue, ...]
    used: int = 0
    """No later than any of its values was used last."""
    states: dict[Hashable, tuple[KeptState, ...]] = field(default_factory=dict)
    """By what makes them."""
    contained: dict[bytes, bool] = field(default_factory=dict)
    """Of few texts: whether they stand in any of the values."""
    counted: dict[Hashable, int] = field(default_factory=dict)
    """Bytes of the states, but for what they share with those of the one before."""
    weight: int = 0
    head: bytes = b""
    """What stood in front of the first value the last time; empty if that was long."""
    total: int = 0
    """How many values the last array had that began so."""
    before: Beginning | None = None
    """A shorter one, for arrays that don't go on as this one expected."""
    after: Beginning | None = None
    """The one that was made of it last."""

    def state(self, key: Hashable, given: Hashable) -> Any:
        """None: there is none."""
        for kept in self.states.get(key, ()):
            if kept.given == given:
                return kept.state
        return None


class Known(NamedTuple):
    """Known values that stand in a text one after the other, each with a comma behind."""

    values: tuple[KnownValue, ...]
    start: int
    """Where the first begins."""
    end: int
    """Where the last comma ends."""


def standing(values: Sequence[KnownValue], data: bytes, at: int) -> tuple[int, int]:
    """How many of the first values stand in a text from an offset on, each with a comma behind, and where the
    last comma ends."""
    if not values or not data.startswith(values[0].data, at):
        return 0, at
    for begin in range(0, len(values), _RUN):
        run = values[begin : begin + _RUN]
        # Nothing is done for each of them by itself: there are thousands.
        text = b",".join((*map(_DATA, run), b""))
        if data.startswith(text, at):
            at += len(text)
            continue
        for count, value in enumerate(run, begin):
            if not data.startswith(value.data + b",", at):
                return count, at
            at += value.room
    return len(values), at


def weight(value: KnownValue) -> int:
    """Bytes that a memory spends on a value, roughly."""
    # What was read of a value, and is in a state then, may be as large as its bytes again.
    return ENTRY_BYTES + 2 * len(value.data) + value.inside


def longest_beginning(values: tuple[KnownValue, ...]) -> Beginning | None:
    """The one of the most of these values, from the first on."""
    for at in range(len(values) - 1, -1, -1):
        beginning = values[at].beginning
        if beginning is not None and beginning.values == values[: at + 1]:
            return beginning
    return None


def state_size(state: Any) -> int:
    """Bytes that a state takes, roughly."""
    if weigh := getattr(state, "weigh", None):
        return int(weigh())
    if isinstance(state, tuple):
        return VALUE_BYTES + sum(map(state_size, state))
    if isinstance(state, list | dict | set | frozenset):
        return VALUE_BYTES * (1 + len(state))
    if is_dataclass(state):
        return sum(state_size(getattr(state, each.name)) for each in fields(state))
    return VALUE_BYTES
