"""What a shared store has still to be told: rows that could not be written, and those that were written so
short a time before it failed that it may not have kept them."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_MOST_BYTES = 64_000_000
"""Of what is owed; beyond it the oldest is forgotten."""
_RECENT_SECONDS = 10.0
"""So long what was written may not have been kept, by a store that is killed or that a replica takes over."""
_RECENT_BYTES = 8_000_000
_ROW_BYTES = 100
Command = tuple[Any, ...]


class Row(NamedTuple):
    """A record as it is written. `milliseconds`: how long it stays."""

    name: bytes
    record: bytes
    milliseconds: int

    def put(self) -> Command:
        """In the place of what is there."""
        return "SET", self.name, self.record, "PX", self.milliseconds

    def add(self) -> Command:
        """Where nothing is."""
        return (*self.put(), "NX")

    def weigh(self) -> int:
        """Bytes that it takes, roughly."""
        return len(self.record) + _ROW_BYTES


Owed = tuple[Row, bool]
"""A row, and whether it is put in the place of what is there."""


@dataclass(slots=True)
class OwedRows:
    """State: what is owed by name, and what was written last."""

    clock: Callable[[], float] = time.monotonic
    forgotten: int = 0
    """Rows that were owed and are lost."""
    _owed: OrderedDict[bytes, Owed] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _recent: deque[tuple[float, Row]] = field(default_factory=deque)
    """And when each was written."""
    _recent_bytes: int = 0

    def __len__(self) -> int:
        return len(self._owed)

    def owe(self, rows: Iterable[Row], *, over: bool) -> None:
        """They could not be written."""
        for row in rows:
            before, was_over = self._owed.pop(row.name, (None, False))
            if before is not None:
                self._bytes -= before.weigh()
            self._owed[row.name] = row, over or was_over
            self._bytes += row.weigh()
        while self._bytes > _MOST_BYTES:
            _, (row, _over) = self._owed.popitem(last=False)
            self._bytes -= row.weigh()
            self.forgotten += 1

    def first(self, count: int) -> list[Owed]:
        """So many of those that are owed longest."""
        return [owed for owed, _ in zip(self._owed.values(), range(count), strict=False)]

    def paid(self, rows: Sequence[Owed]) -> None:
        """They were written."""
        for row, over in rows:
            # A later one may have come in its place meanwhile.
            if self._owed.get(row.name) == (row, over):
                del self._owed[row.name]
                self._bytes -= row.weigh()

    def written(self, rows: Iterable[Row]) -> None:
        """The store says that it has them."""
        now = self.clock()
        for row in rows:
            self._recent.append((now, row))
            self._recent_bytes += row.weigh()
        begun = now - _RECENT_SECONDS
        while self._recent and (self._recent[0][0] < begun or self._recent_bytes > _RECENT_BYTES):
            self._recent_bytes -= self._recent.popleft()[1].weigh()

    def owe_recent(self) -> None:
        """The store has failed: what it was given last is added again where it is not there any more."""
        begun = self.clock() - _RECENT_SECONDS
        rows = [row for when, row in self._recent if when >= begun and row.name not in self._owed]
        self._recent.clear()
        self._recent_bytes = 0
        self.owe(rows, over=False)
