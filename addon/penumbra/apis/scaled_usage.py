"""The input tokens that a response reports, changed on their way to the client.

Only figures of the input change: what was read from the cache, what was written to it, and the rest,
and totals by as much. Output tokens, prices and all else stay to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Raw

from penumbra.apis.event import Event
from penumbra.apis.usage import UsageTable
from penumbra.wire.document import Document

Count = Callable[[int], int]
"""What is reported instead of a number of tokens."""


class ScaledUsage:
    """A filter: the figures of one response."""

    def __init__(self, table: UsageTable, count: Count) -> None:
        self._table = table
        self._count = count
        self.real: dict[str, int] = {}
        """The figures as they came, of the last event that had some."""

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
            outer = document.members(document.root).get(owner) if owner else document.root
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
    """The whole numbers in a value: itself, or those in its members and items."""
    if value is None:
        return
    if document.source(value).isdigit():
        yield value
    for inner in (*document.members(value).values(), *document.items(value)):
        yield from _metrics(document, inner)
