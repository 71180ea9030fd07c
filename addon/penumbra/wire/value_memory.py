"""Parsed items of arrays, remembered by scope and bytes, and results computed from the first items of an
array.

Clients send their whole conversation again with every request, so nearly every message was read a turn ago.
Every remembered value is a function of the bytes alone: without the memory every result is the same, and
slower. No scope meets values of another, and values that were not used for the longest time are dropped
first. No scope takes more than half of the memory, and no value more than an eighth of it.

A result computed from the first items together is enough to continue from; values opened within an item are
needed while the item is new. The latter are dropped when the request has ended (`release`), or before any
value where memory is short.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import ref

from msgspec import Raw

ENTRY_BYTES = 1_500
"""Bytes of an entry beside its data."""
VALUE_BYTES = 200
"""Bytes of a value in a container, or of an object in a state."""
_RUN = 200
"""Values that are compared together."""

_KNOWN_DATA = attrgetter("data")
Key = tuple[bytes, bytes, int]
"""Scope, bytes, and the number of earlier values with these bytes."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class KnownValue:
    """One value with bytes of its own, and readings of it. Shared between requests and threads: entries of
    its dicts are never changed."""

    key: Key
    data: bytes
    root: Raw
    address: int
    """Address of the bytes that its values view."""
    size: int
    """Bytes in an array, with a comma."""
    objects: dict[int, tuple[Raw, dict[str, Raw]]] = field(default_factory=dict)
    arrays: dict[int, tuple[Raw, list[Raw]]] = field(default_factory=dict)
    """Opened arrays, by the identity of their value."""
    opened: int = 0
    """Bytes of all containers ever opened, each counted once."""
    open: int = 0
    """Bytes of the containers that are open now."""
    inside: int = 0
    """Approximate bytes of open containers and results."""
    made: dict[Hashable, Any] = field(default_factory=dict)
    """Results computed from the value, by function."""
    kept: bool = False
    """A memory holds the value."""
    used: int = 0
    """Number of the last use, from a growing counter."""
    beginning: Beginning | None = None
    """The beginning that ends with this value."""
    next: ref[KnownValue] | None = None
    """The value that followed last time."""

    def note_opened(self, size: int) -> int:
        """Note that a container of `size` bytes is opened, and return the growth of `opened`."""
        self.open += size
        more = max(0, self.open - self.opened)
        self.opened += more
        return more

    def close(self) -> None:
        """Release opened containers and results. Present readers keep theirs."""
        self.objects, self.arrays, self.made = {}, {}, {}
        self.open = self.inside = 0

    def holds(self, address: int) -> bool:
        """True if an address lies in its bytes."""
        return self.address <= address < self.address + len(self.data)


class KeptState(NamedTuple):
    """A fold's result for the values of a beginning."""

    given: Hashable
    """Further inputs of the fold."""
    state: Any
    """The state after the last value, which is never changed."""
    size: int


@dataclass(slots=True, eq=False)
class Beginning:
    """The first values of an array, and results of folds over them. Shared, too."""

    values: tuple[KnownValue, ...]
    used: int = 0
    """At most the last use of any of its values."""
    states: dict[Hashable, tuple[KeptState, ...]] = field(default_factory=dict)
    """States by fold."""
    contained: dict[bytes, bool] = field(default_factory=dict)
    """Results of searches for a few texts."""
    counted: dict[Hashable, int] = field(default_factory=dict)
    """Bytes of the states beyond those shared with the beginning before."""
    weight: int = 0
    head: bytes = b""
    """Bytes before the first value last time; empty if they were long."""
    total: int = 0
    """Number of values of the last array with this beginning."""
    before: Beginning | None = None
    """A shorter beginning, for arrays that continue otherwise than expected."""
    after: Beginning | None = None
    """The beginning derived from this one last."""

    def state(self, key: Hashable, given: Hashable) -> Any:
        """The state of a fold; None without one."""
        for kept in self.states.get(key, ()):
            if kept.given == given:
                return kept.state
        return None


class Known(NamedTuple):
    """Known values that follow each other in a text, each with a comma after it."""

    values: tuple[KnownValue, ...]
    start: int
    """Offset of the first value."""
    end: int
    """Offset of the end of the last comma."""


def standing(values: Sequence[KnownValue], data: bytes, at: int) -> tuple[int, int]:
    """The number of values that follow each other in a text from an offset on, each with a comma, and the end
    of the last comma."""
    if not values or not data.startswith(values[0].data, at):
        return 0, at
    for begin in range(0, len(values), _RUN):
        run = values[begin : begin + _RUN]
        # Nothing is done for each of them by itself: there are thousands.
        text = b",".join((*map(_KNOWN_DATA, run), b""))
        if data.startswith(text, at):
            at += len(text)
            continue
        for count, value in enumerate(run, begin):
            if not data.startswith(value.data + b",", at):
                return count, at
            at += value.size
    return len(values), at


def weight(value: KnownValue) -> int:
    """Approximate bytes that a memory spends on a value."""
    # Readings of a value in a state may be as large as its bytes.
    return ENTRY_BYTES + 2 * len(value.data) + value.inside


def longest_beginning(values: tuple[KnownValue, ...]) -> Beginning | None:
    """The beginning with the most of these values."""
    for at in range(len(values) - 1, -1, -1):
        beginning = values[at].beginning
        if beginning is not None and beginning.values == values[: at + 1]:
            return beginning
    return None


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


_MOST = 64_000_000
_CONTAINER_BYTES = 300
"""Bytes of an opened container, or of a result."""
_MOST_BEGINNINGS = 16
"""Beginnings in one scope."""
_LAST = 3
"""Values at the end that may differ in the next document, among values never seen together: clients move
cache marks from message to message."""
_MOST_STATES = 2
"""States of one fold at one beginning, with different inputs."""

_IDLE_SECONDS = 1_800.0
"""Seconds without use after which a value is dropped."""
_MARK_SECONDS = 60.0
"""Seconds within which a further use is not noted: each request would move all values of its conversation."""
_MOST_LET_GO = 100
"""Values dropped at once, so that no request waits."""

_DATA, _KEPT, _KEY, _USED = map(attrgetter, ("data", "kept", "key", "used"))


@dataclass(slots=True)
class _Scope:
    """The memory of one scope."""

    known: OrderedDict[Key, KnownValue] = field(default_factory=OrderedDict)
    """Values in the order of their last use."""
    opened: OrderedDict[Key, KnownValue] = field(default_factory=OrderedDict)
    """Values with open containers, in the order of opening."""
    beginnings: list[Beginning] = field(default_factory=list)
    """Beginnings in the order of their last use."""
    bytes: int = 0


class ValueMemory:
    """Known values of all scopes. Thread-safe."""

    def __init__(self, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        """`most`: approximate bytes in all."""
        self._most = most
        self.longest = most // 2 // ENTRY_BYTES
        """Most values of one array that are remembered."""
        self._known: OrderedDict[Key, KnownValue] = OrderedDict()
        self._scopes: dict[bytes, _Scope] = {}
        self._bytes = 0
        self._uses = 0
        self._clock = clock
        self._marks = deque[tuple[float, int]]()
        """Times of uses, by their number."""
        self._lock = Lock()

    def begun(self, scope: bytes, data: bytes) -> Known | None:
        """The known values of a text that begins with the same bytes before them as last time."""
        with self._lock:
            held = self._scopes.get(scope)
            heads = (
                {} if held is None else {each.head: None for each in reversed(held.beginnings) if each.head}
            )
        for head in heads:
            if data.startswith(head):
                values, end = self.first(scope, data, len(head))
                if values:
                    return Known(values, len(head), end)
        return None

    def first(self, scope: bytes, data: bytes, at: int) -> tuple[tuple[KnownValue, ...], int]:
        """Known values that stand in a text one after the other from an offset on, each with a comma behind,
        and where the last comma ends. Comparing is far cheaper than reading."""
        with self._lock:
            held = self._scopes.get(scope)
            listed = [] if held is None else [beginning.values for beginning in reversed(held.beginnings)]
        best: tuple[tuple[KnownValue, ...], int] = ((), at)
        for values in listed:
            count, end = standing(values, data, at)
            if count > len(best[0]):
                best = values[:count], end
            if count == len(values):
                break
        return best

    def of(
        self,
        scope: bytes,
        sources: Sequence[bytes],
        make: Callable[[Key], KnownValue],
        first: Sequence[KnownValue] = (),
    ) -> tuple[list[KnownValue], int]:
        """The values with these bytes, which follow each other, and how many of the first were known.

        Each is another one, equal ones too, since each has a place of its own. `first`: what was found
        before, which stands in front of them.
        """
        numbers = dict[bytes, int]()
        with self._lock:
            self._uses += 1
            known_before = len(first) + len(sources)
            values: list[KnownValue] = []
            is_noted = True
            if first and all(map(_KEPT, first)):
                values += first
                is_noted = self._is_late(first[0].used)
                if is_noted:
                    self._touch_all(scope, first)
            else:
                sources = [*map(_DATA, first), *sources]

            def stands_in_front(value: KnownValue) -> bool:
                nonlocal is_noted
                if not is_noted:
                    self._touch_all(scope, first)
                    is_noted = True
                return value.used == self._uses

            previous: KnownValue | None = values[-1] if values else None
            for source in sources:
                value = self._next(previous, source)
                if value is not None and stands_in_front(value):
                    value = None
                while value is None:
                    number = numbers.get(source, 0)
                    numbers[source] = number + 1
                    value = self._known.get((scope, source, number))
                    if value is None:
                        value = self._put(make((scope, source, number)))
                        known_before = min(known_before, len(values))
                    elif stands_in_front(value):
                        value = None
                self._touch(value)
                value.used = self._uses
                if previous is not None and (previous.next is None or previous.next() is not value):
                    previous.next = ref(value)
                values.append(value)
                previous = value
            self._trim(scope)
            self._let_go_idle()
        return values, known_before

    def beginnings(
        self, values: tuple[KnownValue, ...], known_before: int
    ) -> tuple[Beginning | None, Beginning | None]:
        """The longest known beginning with a state, and the beginning that later documents will most likely
        share; the same where it is unchanged."""
        count = len(values)
        with self._lock:
            old = longest_beginning(values)
            if old is not None:
                self._use(old)
                changed = min(max(0, old.total - known_before), _LAST)
                old.total = count
            else:
                changed = _LAST if 2 * known_before < count else count
            likely = max(known_before, count - changed)
            if likely <= 0 or (old is not None and len(old.values) >= likely):
                return old, old
            first = values[:likely]
            # The parts of a beginning are kept as long as the beginning.
            there = 0 if old is None else len(old.values)
            if not all(map(_KEPT, first[there:])):
                return old, None
            if old is not None and old.before is not None:
                # The value was expected, and is certain now.
                self._drop(old.before)
            if (other := first[-1].beginning) is not None:
                self._drop(other)
            new = first[-1].beginning = Beginning(
                first, weight=VALUE_BYTES + 8 * len(first), total=count, before=old
            )
            new.used = min(map(_USED, first[there:]))
            if old is not None:
                old.after, new.used = new, min(old.used, new.used)
            scope = first[0].key[0]
            self._count(scope, new.weight)
            self._use(new)
            self._trim(scope)
            return old, new

    def keep_state(self, beginning: Beginning, key: Hashable, given: Hashable, state: Any) -> None:
        """Remember a fold's state at a beginning, in place of its oldest one."""
        with self._lock:
            if beginning.values[-1].beginning is not beginning:
                return
            before = beginning.states.get(key, ())
            others = [kept for kept in before if kept.given != given][1 - _MOST_STATES :]
            entries = beginning.states[key] = (*others, KeptState(given, state, state_size(state)))
            counted = sum([kept.size for kept in entries])
            if beginning.before is not None:
                # A state that continues another one adds only its own part.
                counted -= sum([kept.size for kept in beginning.before.states.get(key, ())])
            counted = max(VALUE_BYTES, counted)
            grown = counted - beginning.counted.get(key, 0)
            beginning.counted[key] = counted
            beginning.weight += grown
            scope = beginning.values[0].key[0]
            self._count(scope, grown)
            self._trim(scope)

    def keep_head(self, beginning: Beginning, head: bytes) -> None:
        """Note the bytes before a beginning."""
        if beginning.head == head:
            return
        with self._lock:
            if beginning.values[-1].beginning is not beginning:
                return
            grown = len(head) - len(beginning.head)
            beginning.head = head
            beginning.weight += grown
            scope = beginning.values[0].key[0]
            self._count(scope, grown)
            self._trim(scope)

    def grown(self, value: KnownValue, count: int = 0) -> None:
        """Note that a value has grown by a container that holds `count`, or by a result."""
        more = _CONTAINER_BYTES + count * VALUE_BYTES
        with self._lock:
            value.inside += more
            if not value.kept:
                return
            key = value.key
            held = self._scopes[key[0]]
            held.opened[key] = value
            held.opened.move_to_end(key)
            held.bytes += more
            self._bytes += more
            if weight(value) > self._most // 8:
                self._forget(value)
            # Asked here, since this is done for everything that is opened.
            if held.bytes > self._most // 2 or self._bytes > self._most:
                self._trim(key[0])

    def release(self, values: Sequence[KnownValue]) -> None:
        """Release containers and results of values at the end of a request."""
        with self._lock:
            for value in values:
                if value.kept and value.inside:
                    self._close(value)

    def _use(self, beginning: Beginning) -> None:
        """Note a use of a beginning; the one unused for the longest time is dropped."""
        scope = beginning.values[0].key[0]
        if self._is_late(beginning.used):
            beginning.used = min(map(_USED, beginning.values))
        listed = self._scope(scope).beginnings
        if beginning in listed:
            listed.remove(beginning)
        listed.append(beginning)
        if len(listed) > _MOST_BEGINNINGS:
            self._drop(listed[0])

    def _drop(self, beginning: Beginning) -> None:
        """Drop a beginning, unless it is gone."""
        if beginning.values[-1].beginning is not beginning:
            return
        scope = beginning.values[0].key[0]
        self._scope(scope).beginnings.remove(beginning)
        beginning.values[-1].beginning = beginning.before = None
        after = beginning.after
        if after is not None and after.before is beginning and after.values[-1].beginning is after:
            # The remaining state now owns the shared values alone.
            after.before = None
            for key in after.counted.keys() & beginning.counted.keys():
                after.counted[key] += beginning.counted[key]
                after.weight += beginning.counted[key]
                self._count(scope, beginning.counted[key])
        self._count(scope, -beginning.weight)

    def _scope(self, scope: bytes) -> _Scope:
        held = self._scopes.get(scope)
        if held is None:
            held = self._scopes[scope] = _Scope()
        return held

    def _count(self, scope: bytes, more: int) -> None:
        """Add to the bytes of a scope."""
        self._bytes += more
        held = self._scope(scope)
        held.bytes += more
        if not held.known and not held.beginnings:
            del self._scopes[scope]

    def _trim(self, scope: bytes) -> None:
        """Drop values after a scope has grown."""
        while (held := self._scopes.get(scope)) and held.bytes > self._most // 2 and held.known:
            if held.opened:
                self._close(next(iter(held.opened.values())))
            else:
                self._forget(next(iter(held.known.values())))
        while self._bytes > self._most and self._known:
            oldest = next(iter(self._known.values()))
            opened = self._scope(oldest.key[0]).opened
            if opened:
                self._close(next(iter(opened.values())))
            else:
                self._forget(oldest)

    def _let_go_idle(self) -> None:
        """Drop some values that were not used for long."""
        now = self._clock()
        if not self._marks or now - self._marks[-1][0] >= _MARK_SECONDS:
            self._marks.append((now, self._uses))
        while len(self._marks) > 1 and now - self._marks[1][0] > _IDLE_SECONDS:
            self._marks.popleft()
        begun, uses = self._marks[0]
        if now - begun <= _IDLE_SECONDS:
            return
        for _ in range(_MOST_LET_GO):
            oldest = next(iter(self._known.values()), None)
            if oldest is None or oldest.used > uses:
                return
            self._forget(oldest)

    def _close(self, value: KnownValue) -> None:
        """Release the containers of a value."""
        before = weight(value)
        value.close()
        del self._scope(value.key[0]).opened[value.key]
        self._count(value.key[0], weight(value) - before)

    def _put(self, value: KnownValue) -> KnownValue:
        if weight(value) <= self._most // 8:
            self._known[value.key] = self._scope(value.key[0]).known[value.key] = value
            value.kept = True
            self._count(value.key[0], weight(value))
        return value

    def _is_late(self, used: int) -> bool:
        """True if the last noted use is old enough for a new note."""
        marked, uses = self._marks[-1] if self._marks else (-_MARK_SECONDS, 0)
        return used < uses or self._clock() - marked >= _MARK_SECONDS

    def _touch_all(self, scope: bytes, values: Sequence[KnownValue]) -> None:
        """Note a use of values."""
        keys = list(map(_KEY, values))
        deque(map(self._known.move_to_end, keys), 0)
        deque(map(self._scopes[scope].known.move_to_end, keys), 0)
        for value in values:
            value.used = self._uses

    def _touch(self, value: KnownValue) -> None:
        """Note a use of a value."""
        if value.kept:
            self._known.move_to_end(value.key)
            self._scopes[value.key[0]].known.move_to_end(value.key)

    def _next(self, previous: KnownValue | None, source: bytes) -> KnownValue | None:
        """The value that followed last time, if it does again: comparing is cheaper than hashing."""
        known = previous.next() if previous is not None and previous.next is not None else None
        if known is None or known.data != source:
            return None
        return known if self._known.get(known.key) is known else None

    def forget(self, count: int) -> None:
        """Drop `count` values."""
        with self._lock:
            for _ in range(min(count, len(self._known))):
                self._forget(next(iter(self._known.values())))

    def _forget(self, value: KnownValue) -> None:
        scope = value.key[0]
        held = self._scope(scope)
        for beginning in [*held.beginnings]:
            # A state used since can only contain values used since.
            if beginning.used <= value.used and value in beginning.values:
                self._drop(beginning)
        del self._known[value.key], held.known[value.key]
        held.opened.pop(value.key, None)
        value.kept = False
        self._count(scope, -weight(value))

    def __len__(self) -> int:
        return len(self._known)


S = TypeVar("S")
_LAST_ITEMS = 8
_ADDRESS = attrgetter("address")


class KnownItem(NamedTuple):
    """A known value, and the item in its place."""

    known: KnownValue
    start: int
    """Offset of the item in the document."""


class Fold(NamedTuple, Generic[S]):
    """A computation over the items of an array, one after the other."""

    begin: Callable[[], S]
    copy: Callable[[S], S]
    """Copies a state, so that both can continue."""
    key: Hashable
    """Identifies the computation; there are few."""
    given: Hashable = None
    """Further inputs. Folds with equal keys and inputs have equal results for equal bytes."""
    fits: Callable[[S], bool] = lambda state: True
    """True if the fold can continue from a state of another document."""


class KnownItems:
    """Known values in the place of all items of one array, in order."""

    def __init__(
        self, values: Sequence[KnownValue], starts: Sequence[int], known_before: int, memory: ValueMemory
    ) -> None:
        """`starts`: offsets of the items; `known_before`: number of first values that the memory had."""
        self.memory = memory
        self.values = tuple(values)
        self.changed: set[int] = set()
        """Identities of amended roots, which are read otherwise."""
        self.starts = starts
        self.span = (starts[0], starts[-1] + len(values[-1].data))
        """Span of the items in the document."""
        count = len(self.values)
        self._often: tuple[int, ...] = (*range(min(2, count)), *range(max(2, count - _LAST_ITEMS), count))
        """Indexes of values that every request reads: the first and the last ones."""
        self._order: list[int] = []
        """Indexes by address; empty until needed."""
        self._addresses: list[int] = []
        self._old, self._new = memory.beginnings(self.values, known_before)
        reading = max(0, len(self._old.values) - 1) if self._old is not None else 0
        self.by_root = {id(value.root): value for value in self.values[reading:]}
        """Values that are read, by the identity of their item."""
        self._reading = KnownItem(self.values[reading], starts[reading])
        """The value read last; at first, the last one known a turn ago."""
        self._next = reading + 1
        """Index of the next value."""

    def follow(self, head: bytes) -> None:
        """Note the bytes before the items."""
        if self._new is not None:
            self.memory.keep_head(self._new, head)

    def at(self, address: int) -> KnownItem | None:
        """The value whose bytes contain an address; None without one."""
        # Values are read in order, mostly from the first new one.
        reading = self._reading
        if 0 <= address - reading.known.address < len(reading.known.data):
            return reading
        index = self._index(address)
        if index is None:
            return None
        self._next = index + 1
        self._reading = KnownItem(self.values[index], self.starts[index])
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
        """The result of a fold over all items, continued after known values. `step` takes in the item at an
        index."""
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

    def release(self) -> None:
        """Release containers of values that a fold does not read again."""
        if self._new is not None:
            begun = 0 if self._old is None else len(self._old.values)
            self.memory.release(self.values[max(0, begun - 1) : len(self._new.values) - 1])

    def contain(self, text: bytes) -> bool:
        """True if a text occurs in one of the values; for a few texts only."""
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
    """The state after the items from `start` to `end`."""
    for index in range(start, end):
        step(state, index)
    return state
