"""Prefixes of arrays, remembered by their bytes, with the states of computations over them.

Clients send their whole conversation again with every request, so nearly every message was read a turn ago.
A request whose array begins with the bytes of a remembered prefix continues from its states: neither its
text nor what was computed from it is read again. Every remembered value is a function of the bytes alone, so
the memory changes the speed of a computation and never its result.

Each array is remembered with two prefixes: the one that its last request has shown to stay, and a longer one
that the next request is expected to share, since clients change the last items (they move cache breakpoints).
A scope never sees the arrays of another. Arrays unused for the longest time are dropped first, and no scope
takes more than half of the memory.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

from cffi import FFI
from msgspec import Raw

ITEM_BYTES = 1_500
"""Approximate bytes of an item beside its text."""
VALUE_BYTES = 200
"""Approximate bytes of an object in a state."""
_MOST = 64_000_000
_MOST_ARRAYS = 16
"""Arrays of one scope."""
_LAST = 3
"""Items at the end of a new array that may differ in the next request."""
_MOST_STATES = 2
"""States of one computation at one prefix, with different inputs."""
_IDLE_SECONDS = 1_800.0
"""Seconds without use after which an array is dropped."""
_MOST_DROPPED = 4
"""Idle arrays dropped at once, so that no request waits."""
_LONGEST_HEAD = 200_000
"""Longest text before an array that is remembered with it."""
_LEAST_SPARED = 20_000
"""Bytes of the shortest prefix that it pays not to parse."""
_LAST_ADDRESS = 1 << 64
_SEPARATOR = re.compile(rb"[ \t\n\r]*+([,\]])[ \t\n\r]*+")
ffi = FFI()
POINTER = ffi.typeof("uintptr_t")
S = TypeVar("S")


def address_of(buffer: Any) -> int:
    """Return the address of a buffer in memory."""
    return int(ffi.cast(POINTER, ffi.from_buffer(buffer)))


class Computation(NamedTuple, Generic[S]):
    """A computation over the items of an array, one after the other."""

    begin: Callable[[], S]
    copy: Callable[[S], S]
    """Copies a state, so that both can continue."""
    key: Hashable
    """Identifies the computation, of which there are few."""
    inputs: Hashable = None
    """Further inputs. Computations with equal keys and inputs have equal results for equal bytes."""
    fits: Callable[[S], bool] = lambda state: True
    """Returns whether the computation can continue from a state of another document."""


def stepped(state: S, step: Callable[[S, int], None], start: int, end: int) -> S:
    """Return the state after the items from `start` to `end`."""
    for index in range(start, end):
        step(state, index)
    return state


class Segment(NamedTuple):
    """Items that one request has added to a prefix."""

    data: bytes
    """Text of the items, from the end of the previous segment's last item."""
    address: int
    items: tuple[Raw, ...]
    """Views of `data`."""


class KeptState(NamedTuple):
    """The state of a computation after the last item of a prefix; never changed."""

    inputs: Hashable
    state: Any
    size: int


@dataclass(slots=True, eq=False)
class Prefix:
    """The first items of an array, shared between requests and threads: only the states and the results of
    searches are added to."""

    segments: tuple[Segment, ...] = ()
    items: tuple[Raw, ...] = ()
    starts: tuple[int, ...] = ()
    """Offsets of the items from the first one."""
    size: int = 0
    """Bytes from the first item to the end of the last one."""
    states: dict[Hashable, tuple[KeptState, ...]] = field(default_factory=dict)
    """States by the key of their computation."""
    state_sizes: dict[Hashable, int] = field(default_factory=dict)
    """Bytes of the states, by the key of their computation."""
    contained: dict[bytes, bool] = field(default_factory=dict)
    """Results of searches for a few texts."""
    _places: list[tuple[int, int, int]] | None = None
    """First address, end and offset of each segment, by address; made when needed."""

    def plus(self, text: bytes, spans: Sequence[tuple[int, int]]) -> Prefix:
        """Return the prefix with more items. `text` has them, from the end of the last item of this prefix;
        `spans` are their offsets in it."""
        view = memoryview(text)
        items = tuple([Raw(view[start:end]) for start, end in spans])
        starts = tuple([self.size + start for start, _ in spans])
        segment = Segment(text, address_of(text), items)
        return Prefix(
            (*self.segments, segment), self.items + items, self.starts + starts, self.size + len(text)
        )

    def state(self, key: Hashable, inputs: Hashable) -> Any:
        """Return the state of a computation; None without one."""
        for kept in self.states.get(key, ()):
            if kept.inputs == inputs:
                return kept.state
        return None

    def offset(self, address: int) -> int | None:
        """Return the offset from the first item of a value at an address; None if the value is in no item."""
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

    def contains(self, text: bytes, before: Prefix) -> bool:
        """Return whether a text occurs in an item. `before` is a part of the prefix that was searched."""
        if text not in self.contained:
            new = self.segments[len(before.segments) :] if text in before.contained else self.segments
            found = before.contained.get(text, False)
            self.contained[text] = found or any(text in segment.data for segment in new)
        return self.contained[text]


@dataclass(slots=True, eq=False)
class _Array:
    """An array as its last request had it."""

    scope: bytes
    sure: Prefix = field(default_factory=Prefix)
    """Items that a later request has repeated."""
    likely: Prefix = field(default_factory=Prefix)
    """The items of `sure`, and further ones that the next request is expected to have."""
    head: bytes = b""
    """Text before the first item; empty if it is long."""
    count: int = 0
    tail: tuple[int, tuple[int, ...]] = 0, ()
    """Index of an item, and the hashes of that and all later ones."""
    used: float = 0.0
    weight: int = 0

    def weigh(self) -> int:
        """Return the approximate bytes that the array takes."""
        # Readings of an item may be as large as its text.
        size = ITEM_BYTES * (1 + len(self.likely.items)) + 2 * self.likely.size + len(self.head)
        for key in self.likely.states.keys() | self.sure.states.keys():
            # A state shares objects with the state that it continues, so only the larger one counts.
            size += VALUE_BYTES + max(self.sure.state_sizes.get(key, 0), self.likely.state_sizes.get(key, 0))
        return size


class Known(NamedTuple):
    """A remembered prefix at the beginning of an array in a text."""

    prefix: Prefix
    start: int
    """Offset of the first item."""
    end: int
    """Offset at which reading continues: after the prefix and the comma that may follow it."""
    is_followed: bool
    """True if a comma follows the prefix, so that another item is due."""


def _found(prefix: Prefix, data: bytes, start: int, end: int) -> Known | None:
    """Return the prefix from `start` to `end` of a text; None if its last item goes on after `end`."""
    separator = _SEPARATOR.match(data, end)
    if separator is None or not prefix.items:
        return None
    is_followed = separator[1] == b","
    return Known(prefix, start, separator.end() if is_followed else end, is_followed)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of equal first members of two sequences."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


class PrefixMemory:
    """Prefixes of the arrays of all scopes. Thread-safe."""

    def __init__(self, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        """`most` is the limit of the approximate bytes."""
        self.most = most
        self.longest = most // 2 // ITEM_BYTES
        """Most items of an array that is remembered."""
        self.bytes = 0
        """Approximate bytes in use."""
        self._arrays = OrderedDict[_Array, None]()
        """In the order of their last use."""
        self._scopes: dict[bytes, OrderedDict[_Array, None]] = {}
        self._clock = clock
        self._lock = Lock()

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._arrays)

    def first(self, scope: bytes, data: bytes) -> Known | None:
        """Return the longest remembered prefix in a text that is not parsed yet; None if there is none, or
        only a short one."""
        heads = {head for head, _, _ in self._listed(scope) if head and data.startswith(head)}
        found = filter(None, (self.at(scope, data, len(head)) for head in heads))
        known = max(found, key=lambda known: known.prefix.size, default=None)
        return None if known is None or known.prefix.size < _LEAST_SPARED else known

    def at(self, scope: bytes, data: bytes, start: int) -> Known | None:
        """Return the longest prefix in a text whose array has its first item at `start`."""
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
        """Return head and prefixes of the arrays of a scope, the one used last first."""
        with self._lock:
            return [(each.head, each.sure, each.likely) for each in reversed(self._scopes.get(scope, ()))]

    def extended(
        self, scope: bytes, data: bytes, prefix: Prefix, start: int, spans: Sequence[tuple[int, int]]
    ) -> Prefix:
        """Return the prefix that the next request most likely has.

        `prefix` was found in a text, `start` is the offset of the array's first item there, and `spans` are
        the places of the items after the prefix.
        """
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
            return likely

    def _array(self, scope: bytes, prefix: Prefix, hashes: Sequence[int]) -> tuple[_Array, bool]:
        """Return the array of a prefix that was found, or a new array; True with a new one."""
        for array in reversed(self._scopes.get(scope, ())):
            if prefix.items and prefix in (array.sure, array.likely):
                return array, False
            # A short array has no prefix, and is known by its first item.
            if not (prefix.items or array.likely.items) and array.tail[1][:1] == hashes[:1]:
                return array, False
        return _Array(scope, prefix, prefix), not prefix.items

    def _use(self, array: _Array) -> None:
        """Note a use of an array, and drop arrays beyond the limits."""
        array.used = self._clock()
        listed = self._scopes.setdefault(array.scope, OrderedDict())
        for order in (self._arrays, listed):
            order[array] = None
            order.move_to_end(array)
        self._weigh(array)
        if len(listed) > _MOST_ARRAYS:
            self._drop(next(iter(listed)))
        for _ in range(_MOST_DROPPED):
            oldest = next(iter(self._arrays), array)
            if array.used - oldest.used > _IDLE_SECONDS:
                self._drop(oldest)

    def _weigh(self, array: _Array) -> None:
        weight = array.weigh()
        self.bytes += weight - array.weight
        array.weight = weight
        listed = self._scopes[array.scope]
        while listed and sum([each.weight for each in listed]) > self.most // 2:
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

    def keep(self, scope: bytes, prefix: Prefix, computation: Computation[S], state: S) -> None:
        """Remember a computation's state at a prefix, in place of its oldest one there."""
        kept = KeptState(computation.inputs, state, state_size(state))
        with self._lock:
            before = prefix.states.get(computation.key, ())
            others = [each for each in before if each.inputs != computation.inputs][1 - _MOST_STATES :]
            prefix.states[computation.key] = (*others, kept)
            prefix.state_sizes[computation.key] = sum([each.size for each in (*others, kept)])
            for array in reversed(self._scopes.get(scope, ())):
                if prefix in (array.likely, array.sure):
                    self._weigh(array)
                    break

    def forget(self, count: int) -> None:
        """Drop the `count` arrays that were not used for the longest time."""
        with self._lock:
            for array in list(self._arrays)[:count]:
                self._drop(array)


def state_size(state: Any) -> int:
    """Approximate bytes of a state."""
    if weigh := getattr(state, "weigh", None):
        return int(weigh())
    if isinstance(state, tuple):
        return VALUE_BYTES + sum(map(state_size, state))
    if isinstance(state, list | dict | set | frozenset):
        return VALUE_BYTES * (1 + len(state))
    if is_dataclass(state):
        return sum(state_size(getattr(state, each.name)) for each in fields(state))
    return VALUE_BYTES


class Remembered(NamedTuple):
    """An array in a document of which a memory has a prefix."""

    memory: PrefixMemory
    scope: bytes
    found: Prefix
    """The prefix that was known before."""
    likely: Prefix
    """The prefix that later requests will find."""
    starts: Sequence[int]
    """Offsets of all items in the document."""

    def offset(self, address: int) -> int | None:
        """Return the offset in the document of a value at an address in a remembered item; None: the value is
        in no such item."""
        offset = self.likely.offset(address)
        return None if offset is None else self.starts[0] + offset

    def computed(self, computation: Computation[S], step: Callable[[S, int], None]) -> S:
        """Return the result of a computation over all items, continued from a prefix. `step` adds the item at
        an index."""
        at, state, end = 0, None, len(self.likely.items)
        for prefix in (self.likely, self.found):
            kept: S | None = prefix.state(computation.key, computation.inputs)
            if kept is not None and computation.fits(kept):
                at, state = len(prefix.items), computation.copy(kept)
                break
        state = computation.begin() if state is None else state
        if at < end:
            state = stepped(state, step, at, end)
            self.memory.keep(self.scope, self.likely, computation, computation.copy(state))
        return stepped(state, step, max(at, end), len(self.starts))

    def contains(self, data: bytes, text: bytes) -> bool:
        """Return whether a text occurs in the document. Results are kept, so there should be few texts."""
        start = self.starts[0]
        return (
            self.likely.contains(text, self.found)
            or data.find(text, 0, start) >= 0
            or data.find(text, start + self.likely.size) >= 0
        )
