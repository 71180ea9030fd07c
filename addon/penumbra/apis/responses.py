"""The response side of an API: what it says of its own, and what is made of that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from penumbra.apis.call_arguments import CallArguments, Open
from penumbra.apis.event import Filter
from penumbra.apis.scaled_usage import Count, ScaledUsage
from penumbra.apis.stream import Framing, Stream
from penumbra.apis.turns import Turns
from penumbra.apis.usage import UsageTable
from penumbra.apis.whole_turns import WholeResponse, WholeTurns


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
        """What hides the injected tool in a stream."""

    @abstractmethod
    def whole_turns(self, injected_tool: str, before: str) -> WholeTurns:
        """The same for documents."""

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
