"""This module remembers the beginnings of arrays, with the states of computations over them.

Most clients send their whole conversation with every request, so most messages are known from earlier
requests. If an array begins with the bytes of a long remembered prefix, the prefix is not parsed again.
Computations continue from the states that are stored with the prefix. A state depends only on the bytes and
on the inputs of the computation, so the result is the same as without the memory.

Each array has two prefixes: one that the last request repeated, and a longer one that the next request will
probably repeat. Clients often change the last items, for example to move cache breakpoints. A scope (a hash)
separates callers: its arrays are used for this scope only, and take at most half of the memory. The least
recently used array is dropped first.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from _cffi_backend import FFI
from msgspec import Raw

ITEM_BYTES = 1_500
"""Approximate bytes of memory that an item takes in addition to its text."""
_VALUE_BYTES = 200
"""Approximate bytes of memory that an object in a state takes."""
_MOST = 64_000_000
_MOST_ARRAYS = 16
"""The greatest number of arrays of one scope."""
_LAST = 3
"""The number of items at the end of a new array that the next request may change."""
_MOST_STATES = 2
"""The greatest number of states of a computation at one prefix. Each state has other `inputs`."""
_IDLE_SECONDS = 1_800.0
"""Seconds without use after which an array is dropped."""
_MOST_DROPPED = 4
"""The greatest number of idle arrays that are dropped during one request, because dropping takes time."""
_LONGEST_HEAD = 200_000
"""If more bytes are before an array, these bytes are not stored."""
LEAST_SPARED = 20_000
"""The smallest number of bytes in a prefix that `first` returns."""
_LAST_ADDRESS = 1 << 64
_SEPARATOR = re.compile(rb"[ \t\n\r]*+([,\]])[ \t\n\r]*+")
# Modules that cffi generates use this class, which is written in C. `cffi.FFI` adds calls in Python.
ffi = FFI()
POINTER = ffi.typeof("uintptr_t")
S = TypeVar("S")


def address_of(buffer: Any) -> int:
    return int(ffi.cast(POINTER, ffi.from_buffer(buffer)))


class Segment(NamedTuple):
    """A `Segment` contains the items that one request added to a prefix."""

    data: bytes
    """The text of the items, which begins after the last item of the previous segment."""
    address: int
    items: tuple[Raw, ...]
    """The items, as views of `data`."""


class KeptState(NamedTuple):
    """A `KeptState` is a computation's state after the last item of a prefix. The state is never changed."""

    inputs: Hashable
    state: Any
    size: int


@dataclass(slots=True, eq=False)
class Prefix:
    """A `Prefix` contains the first items of an array. Requests and threads share a prefix, so its items
    never change. Only states and results of searches are added."""

    segments: tuple[Segment, ...] = ()
    items: tuple[Raw, ...] = ()
    starts: tuple[int, ...] = ()
    """Offsets of the items, counted from the first item."""
    size: int = 0
    """The number of bytes from the first item to the end of the last item."""
    states: dict[Hashable, tuple[KeptState, ...]] = field(default_factory=dict)
    """The states of each computation, by its key."""
    states_size: int = 0
    """Approximate bytes of the states."""
    contained: dict[bytes, bool] = field(default_factory=dict)
    """Maps a text to True if the prefix contains the text, and to False if not."""
    _places: list[tuple[int, int, int]] | None = None
    """Start address, end address and offset of each segment, sorted by address."""

    def plus(self, text: bytes, spans: Sequence[tuple[int, int]]) -> Prefix:
        """Return a longer prefix. `text` follows the last item of this prefix and contains the new items.
        `spans` are the ranges of the new items in `text`."""
        view = memoryview(text)
        items = tuple([Raw(view[start:end]) for start, end in spans])
        starts = tuple([self.size + start for start, _ in spans])
        segment = Segment(text, address_of(text), items)
        return Prefix(
            (*self.segments, segment), self.items + items, self.starts + starts, self.size + len(text)
        )

    def state(self, key: Hashable, inputs: Hashable, fits: Callable[[Any], bool] | None) -> Any:
        """Return the state from which a computation can continue; None if there is none."""
        for kept in self.states.get(key, ()):
            if kept.inputs == inputs and (fits is None or fits(kept.state)):
                return kept.state
        return None

    def keep(self, key: Hashable, inputs: Hashable, state: Any) -> None:
        """Store the state of a computation. The oldest of too many states is dropped."""
        before = self.states.get(key, ())
        others = [each for each in before if each.inputs != inputs][1 - _MOST_STATES :]
        size = _VALUE_BYTES * (1 + len(state)) if isinstance(state, list) else state.weigh()
        self.states[key] = states = (*others, KeptState(inputs, state, size))
        self.states_size += sum([each.size for each in states]) - sum([each.size for each in before])

    def offset(self, address: int) -> int | None:
        """Return the offset from the first item of the value at a memory address; None if it is not in the
        prefix."""
        if not self.segments:
            return None
        last = self.segments[-1]
        if 0 <= address - last.address < len(last.data):
            return self.size - len(last.data) + address - last.address
        if self._places is None:
            places, at = [], 0
            for segment in self.segments:
                places.append((segment.address, segment.address + len(segment.data), at))
                at += len(segment.data)
            self._places = sorted(places)
        begin, end, before = self._places[bisect_right(self._places, (address, _LAST_ADDRESS, 0)) - 1]
        return before + address - begin if begin <= address < end else None


@dataclass(slots=True, eq=False)
class _Array:
    """An `_Array` is an array in the form of its last request."""

    scope: bytes
    sure: Prefix = field(default_factory=Prefix)
    """The items that a later request has repeated."""
    likely: Prefix = field(default_factory=Prefix)
    """The items of `sure`, and further items that the next request will probably repeat."""
    head: bytes = b""
    """The text of the request before the first item; empty if the text is long."""
    count: int = 0
    tail: tuple[int, tuple[int, ...]] = 0, ()
    """The index of an item, and hashes: one of this item, and one of each later item."""
    used: float = 0.0
    weight: int = 0

    def weigh(self) -> int:
        """Return the approximate bytes of memory that the array takes."""
        # The objects parsed from an item may be as large as the item's text.
        size = ITEM_BYTES * (1 + len(self.likely.items)) + 2 * self.likely.size + len(self.head)
        # The states at the two prefixes share objects.
        return size + max(self.sure.states_size, self.likely.states_size)


class Known(NamedTuple):
    """A `Known` is a remembered prefix that was found in a text."""

    prefix: Prefix
    start: int
    """Offset of the first item."""
    end: int
    """Offset at which parsing continues: after the prefix, or after the comma that follows the prefix."""
    is_followed: bool
    """True if a comma follows the prefix. Another item must then follow."""


def _found(prefix: Prefix, data: bytes, start: int, end: int) -> Known | None:
    """Return the prefix at `start` to `end` of a text, or None if no item ends at `end`."""
    separator = _SEPARATOR.match(data, end)
    if separator is None or not prefix.items:
        return None
    is_followed = separator[1] == b","
    return Known(prefix, start, separator.end() if is_followed else end, is_followed)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of equal elements at the beginning of two sequences."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


class PrefixMemory:
    """A `PrefixMemory` keeps the prefixes of the arrays of all scopes, and is thread-safe."""

    def __init__(self, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty memory of at most about `most` bytes."""
        self.most = most
        self.longest = most // 2 // ITEM_BYTES
        """The greatest number of items in a remembered array."""
        self.bytes = 0
        """Approximate bytes in use."""
        self._arrays = OrderedDict[_Array, None]()
        """All arrays, in the order of their last use."""
        self._scopes: dict[bytes, OrderedDict[_Array, None]] = {}
        self._clock = clock
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._arrays)

    def first(self, scope: bytes, data: bytes) -> Known | None:
        """Return the longest remembered prefix in an unparsed text; None if no prefix has at least
        `LEAST_SPARED` bytes."""
        heads = {head for head, _, _ in self._listed(scope) if head and data.startswith(head)}
        found = filter(None, (self.at(scope, data, len(head)) for head in heads))
        known = max(found, key=lambda known: known.prefix.size, default=None)
        return None if known is None or known.prefix.size < LEAST_SPARED else known

    def at(self, scope: bytes, data: bytes, start: int) -> Known | None:
        """Return the longest remembered prefix whose first item is at `start`; None if there is none."""
        best: Known | None = None
        for _, sure, likely in self._listed(scope):
            ends = [start]
            for segment in likely.segments:
                if not data.startswith(segment.data, ends[-1]):
                    break
                ends.append(ends[-1] + len(segment.data))
            for prefix in (sure, likely):
                is_there = len(prefix.segments) < len(ends)
                if is_there and (best is None or prefix.size > best.prefix.size):
                    best = _found(prefix, data, start, ends[len(prefix.segments)]) or best
        return best

    def _listed(self, scope: bytes) -> list[tuple[bytes, Prefix, Prefix]]:
        """Return `head`, `sure` and `likely` of each array of a scope. The last used array comes first."""
        with self._lock:
            return [(each.head, each.sure, each.likely) for each in reversed(self._scopes.get(scope, ()))]

    def extended(
        self, scope: bytes, data: bytes, prefix: Prefix, start: int, spans: Sequence[tuple[int, int]]
    ) -> tuple[_Array, Prefix]:
        """Store an array. Return it, and the prefix that the next request will probably repeat. `prefix` was
        found in the text `data`. The array's first item is at `start`, and `spans` are the ranges of the
        items after the prefix."""
        hashes = tuple([hash(data[begin:end]) for begin, end in spans])
        with self._lock:
            array, is_new = self._array(scope, prefix, hashes)
            begin, tail = array.tail
            there = len(prefix.items)
            known = there + (_common(hashes, tail[there - begin :]) if there >= begin else 0)
            count = there + len(spans)
            changed = _LAST if is_new else min(max(0, array.count - known), _LAST)
            more = spans[: max(known, count - changed) - there]
            likely = prefix
            if more:
                after = start + prefix.size
                text = data[after : more[-1][1]]
                likely = prefix.plus(text, [(first - after, last - after) for first, last in more])
                array.sure, array.likely = prefix, likely
            array.tail, array.count = (there, hashes), count
            array.head = data[:start] if start <= _LONGEST_HEAD else b""
            self._use(array)
            return array, likely

    def _array(self, scope: bytes, prefix: Prefix, hashes: Sequence[int]) -> tuple[_Array, bool]:
        """Return the array that has this prefix, or a new array; and whether all its items are new."""
        for array in reversed(self._scopes.get(scope, ())):
            if prefix.items and prefix in (array.sure, array.likely):
                return array, False
            # A short array has no prefix. Its first item identifies it.
            if not (prefix.items or array.likely.items) and array.tail[1][:1] == hashes[:1]:
                return array, False
        return _Array(scope, prefix, prefix), not prefix.items

    def _use(self, array: _Array) -> None:
        """Record the use of an array, and drop arrays that exceed the limits."""
        array.used = self._clock()
        listed = self._scopes.setdefault(array.scope, OrderedDict())
        for order in (self._arrays, listed):
            order[array] = None
            order.move_to_end(array)
        self._weigh(array, array.weigh())
        if len(listed) > _MOST_ARRAYS:
            self._drop(next(iter(listed)))
        for oldest in list(islice(self._arrays, _MOST_DROPPED)):
            if array.used - oldest.used > _IDLE_SECONDS:
                self._drop(oldest)

    def _weigh(self, array: _Array, weight: int) -> None:
        """Record the weight of an array, and drop the arrays that then exceed the limits."""
        self.bytes += weight - array.weight
        array.weight = weight
        listed, most = self._scopes[array.scope], self.most // 2
        while self.bytes > most and sum([each.weight for each in listed]) > most:
            self._drop(next(iter(listed)))
        while self.bytes > self.most:
            self._drop(next(iter(self._arrays)))

    def _drop(self, array: _Array) -> None:
        del self._arrays[array]
        listed = self._scopes[array.scope]
        del listed[array]
        if not listed:
            del self._scopes[array.scope]
        self.bytes -= array.weight
        array.weight = 0

    def keep(self, array: _Array, prefix: Prefix, key: Hashable, inputs: Hashable, state: Any) -> None:
        """Store the state of a computation at a prefix of an array."""
        with self._lock:
            prefix.keep(key, inputs, state)
            if array in self._arrays:
                self._weigh(array, array.weigh())


class Remembered(NamedTuple):
    """A `Remembered` is an array of a document. The first items of the array are in a `PrefixMemory`."""

    memory: PrefixMemory
    array: _Array
    found: Prefix
    """The prefix that was known before this request."""
    likely: Prefix
    """The prefix that the next request will probably repeat."""
    starts: Sequence[int]
    """Offsets of all items in the document."""

    def state(
        self, key: Hashable, inputs: Hashable, fits: Callable[[Any], bool] | None
    ) -> tuple[Any, int, int]:
        """Return the state from which a computation continues, or None; the number of the state's items; and
        the number of items after which the next state is kept."""
        end = len(self.likely.items)
        if (state := self.likely.state(key, inputs, fits)) is not None:
            return state, end, end
        state = self.found.state(key, inputs, fits)
        return state, 0 if state is None else len(self.found.items), end

    def keep(self, key: Hashable, inputs: Hashable, state: Any) -> None:
        """Store the state of a computation at the prefix that the next request will probably repeat."""
        self.memory.keep(self.array, self.likely, key, inputs, state)

    def contains(self, data: bytes, text: bytes) -> bool:
        """Return whether a text occurs in the document. Results are stored, so callers use few texts."""
        start, likely, before = self.starts[0], self.likely, self.found
        if text not in likely.contained:
            # A shorter prefix may have been searched before.
            new = likely.segments[len(before.segments) if text in before.contained else 0 :]
            found = before.contained.get(text, False)
            likely.contained[text] = found or True in [text in segment.data for segment in new]
        return (
            likely.contained[text]
            or data.find(text, 0, start) >= 0
            or data.find(text, start + likely.size) >= 0
        )
