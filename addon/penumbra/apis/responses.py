"""The response side of an API: the facts that each format states, and what is derived from them.

Usage scaling changes the input tokens that a response reports on their way to the client: tokens read from
the cache, tokens written to it, the remaining input, and totals by as much. Output tokens, prices and all
else stay to the byte.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from msgspec import Raw

from penumbra.apis.base import Event, Filter
from penumbra.apis.call_arguments import CallArguments, Open
from penumbra.apis.stream import Framing, Stream
from penumbra.apis.turns import Turns, WholeResponse, WholeTurns
from penumbra.apis.usage import UsageTable
from penumbra.wire.document import Document

Count = Callable[[int], int]
"""Maps a number of tokens to the number that is reported."""


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


class Responses(ABC):
    """Stateless."""

    usage: ClassVar[UsageTable]
    keep_alive: ClassVar[bytes] = b""
    """Bytes that may be sent between two events of a stream; empty if the API has none."""
    arguments: ClassVar[type[CallArguments]]

    @abstractmethod
    def framing(self) -> Framing:
        """How a stream is cut into events."""

    @abstractmethod
    def turns(self, framing: Framing, injected_tool: str, before: str) -> Turns:
        """A filter that hides the injected tool in a stream."""

    @abstractmethod
    def whole_turns(self, injected_tool: str, before: str) -> WholeTurns:
        """A filter that hides the injected tool in documents."""

    def call_arguments(self, open_: Open) -> CallArguments:
        """A filter that edits the arguments of calls."""
        return self.arguments(open_)

    def scaled_usage(self, count: Count) -> ScaledUsage:
        """A filter that reports other figures of the input."""
        return ScaledUsage(self.usage, count)

    def stream(self, injected_tool: str, before: str = "") -> Stream:
        """A response that arrives as a stream; `injected_tool` is the name of the injected tool.

        `before`: the id by which the client named the response that it goes on from.
        """
        framing = self.framing()
        return Stream(framing, self.turns(framing, injected_tool, before), keep_alive=self.keep_alive)

    def body(self, injected_tool: str, before: str = "") -> WholeResponse:
        """A response that arrives as one JSON document."""
        return WholeResponse(self.whole_turns(injected_tool, before))

    def passed(self, filters: Sequence[Filter], *, stream: bool) -> Stream | WholeResponse:
        """A response in which nothing is hidden: `feed` takes its bytes, `close` its end."""
        return Stream(self.framing(), filters=filters) if stream else WholeResponse(filters=filters)
