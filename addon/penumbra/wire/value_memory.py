"""What was read of the items of an array, remembered by whose they are and by their bytes.

Clients send their whole conversation again with every request, so nearly every message was read a turn ago.
What is remembered is a function of the bytes alone: without it all is the same, and slower. No scope meets
what another one has sent, and what was not used for the longest time goes first. No scope takes more than
half of the room, and no value more than an eighth: who sends a lot leaves room for the others.

What was made of the first values together is enough to go on from; what was opened in each of them is looked
at when they are new. So that goes when the request is done with it (`rest`), or for others before any value.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from threading import Lock
from typing import Any
from weakref import ref

from penumbra.wire.known_values import (
    ENTRY_BYTES,
    VALUE_BYTES,
    Beginning,
    KeptState,
    Key,
    Known,
    KnownValue,
    longest_beginning,
    standing,
    state_size,
    weight,
)

_MOST = 64_000_000
_CONTAINER_BYTES = 300
"""What a container takes that was opened, or what was made of a value."""
_MOST_BEGINNINGS = 16
"""Of one scope."""
_LAST = 3
"""Of values that were never seen together, so many at the end may be others in the next document: clients
move the marks of a cache from message to message."""
_MOST_STATES = 2
"""Of what one fold makes of one beginning, given different things."""

_IDLE_SECONDS = 1_800.0
"""What nobody has used for so long goes: a conversation that has rested is read anew when it goes on."""
_MARK_SECONDS = 60.0
"""What was used since is not noted again: each request would move all that its conversation has."""
_MOST_LET_GO = 100
"""Values at once, so that no request waits."""

_DATA, _KEPT, _KEY, _USED = map(attrgetter, ("data", "kept", "key", "used"))


@dataclass(slots=True)
class _Scope:
    """What is remembered of one scope."""

    known: OrderedDict[Key, KnownValue] = field(default_factory=OrderedDict)
    """What was used last stands last."""
    opened: OrderedDict[Key, KnownValue] = field(default_factory=OrderedDict)
    """Those in which something is, in the order in which it was put there."""
    beginnings: list[Beginning] = field(default_factory=list)
    """What was used last stands last."""
    bytes: int = 0


class ValueMemory:
    """Known values of all scopes. Safe between threads."""

    def __init__(self, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        """`most`: bytes that it may take, roughly."""
        self._most = most
        self.longest = most // 2 // ENTRY_BYTES
        """More values than these are not remembered."""
        self._known: OrderedDict[Key, KnownValue] = OrderedDict()
        self._scopes: dict[bytes, _Scope] = {}
        self._bytes = 0
        self._uses = 0
        self._clock = clock
        self._marks = deque[tuple[float, int]]()
        """How many uses there had been at a time."""
        self._lock = Lock()

    def begun(self, scope: bytes, data: bytes) -> Known | None:
        """The known values that a text has behind the very bytes that stood in front of them before."""
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
        """The longest beginning of values that something was made of before; and the one that later
        documents will most likely have too, the same where it is as long: what two had is not changed, and
        as many as were others this time will be others again. Where hardly any were known, all but the last.
        """
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
            # What a beginning is made of is kept for as long as it is there.
            there = 0 if old is None else len(old.values)
            if not all(map(_KEPT, first[there:])):
                return old, None
            if old is not None and old.before is not None:
                # It was expected, and is sure now.
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
        """Have what a fold made of a beginning remembered, in the place of what it made longest ago."""
        with self._lock:
            if beginning.values[-1].beginning is not beginning:
                return
            before = beginning.states.get(key, ())
            others = [kept for kept in before if kept.given != given][1 - _MOST_STATES :]
            entries = beginning.states[key] = (*others, KeptState(given, state, state_size(state)))
            counted = sum([kept.size for kept in entries])
            if beginning.before is not None:
                # Of what went on from another state, only what came to it is new.
                counted -= sum([kept.size for kept in beginning.before.states.get(key, ())])
            counted = max(VALUE_BYTES, counted)
            grown = counted - beginning.counted.get(key, 0)
            beginning.counted[key] = counted
            beginning.weight += grown
            scope = beginning.values[0].key[0]
            self._count(scope, grown)
            self._trim(scope)

    def keep_head(self, beginning: Beginning, head: bytes) -> None:
        """Note what stands in front of a beginning."""
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
        """More was made of a value: a container was opened that holds `count`, or something else was made."""
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

    def rest(self, values: Sequence[KnownValue]) -> None:
        """A request is done with what it has opened in values, and made of each."""
        with self._lock:
            for value in values:
                if value.kept and value.inside:
                    self._close(value)

    def _use(self, beginning: Beginning) -> None:
        """Note that a beginning was used; the one that was not for the longest time goes for another one."""
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
        """To be let go. It may be gone already."""
        if beginning.values[-1].beginning is not beginning:
            return
        scope = beginning.values[0].key[0]
        self._scope(scope).beginnings.remove(beginning)
        beginning.values[-1].beginning = beginning.before = None
        after = beginning.after
        if after is not None and after.before is beginning and after.values[-1].beginning is after:
            # That has now alone what both had.
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
        """Note that a scope takes more bytes, or less."""
        self._bytes += more
        held = self._scope(scope)
        held.bytes += more
        if not held.known and not held.beginnings:
            del self._scopes[scope]

    def _trim(self, scope: bytes) -> None:
        """Make room, after a scope has taken some."""
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
        """Some of what was not used for long."""
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
        """What is in a value makes room."""
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
        """Whether a use was so long ago that another one is noted."""
        marked, uses = self._marks[-1] if self._marks else (-_MARK_SECONDS, 0)
        return used < uses or self._clock() - marked >= _MARK_SECONDS

    def _touch_all(self, scope: bytes, values: Sequence[KnownValue]) -> None:
        """Values that are kept were used last."""
        keys = list(map(_KEY, values))
        deque(map(self._known.move_to_end, keys), 0)
        deque(map(self._scopes[scope].known.move_to_end, keys), 0)
        for value in values:
            value.used = self._uses

    def _touch(self, value: KnownValue) -> None:
        """A value was used last."""
        if value.kept:
            self._known.move_to_end(value.key)
            self._scopes[value.key[0]].known.move_to_end(value.key)

    def _next(self, previous: KnownValue | None, source: bytes) -> KnownValue | None:
        """What followed a value the last time, if it does so again: comparing is cheaper than hashing."""
        known = previous.next() if previous is not None and previous.next is not None else None
        if known is None or known.data != source:
            return None
        return known if self._known.get(known.key) is known else None

    def forget(self, count: int) -> None:
        """Let so many go."""
        with self._lock:
            for _ in range(min(count, len(self._known))):
                self._forget(next(iter(self._known.values())))

    def _forget(self, value: KnownValue) -> None:
        scope = value.key[0]
        held = self._scope(scope)
        for beginning in [*held.beginnings]:
            # What was used since can't have a value in it that was not.
            if beginning.used <= value.used and value in beginning.values:
                self._drop(beginning)
        del self._known[value.key], held.known[value.key]
        held.opened.pop(value.key, None)
        value.kept = False
        self._count(scope, -weight(value))

    def __len__(self) -> int:
        return len(self._known)
