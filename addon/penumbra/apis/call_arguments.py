"""The arguments of a client's tool calls within a response, read and changed on their way to the client.

A filter hands the arguments of each call to whoever `Open` gives for it, and puts into their place what
comes back. What that one holds back travels in a copy of the call's last event, as soon as it is given
free. Calls that the provider runs itself are left alone. Where calls stand is said by each API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from msgspec import Raw

from penumbra.apis.event import Event
from penumbra.wire.document import Document


class Arguments(Protocol):
    """Takes the arguments of one call."""

    def feed(self, fragment: str) -> str:
        """Some of them in, what can be passed on out."""
        ...

    def finish(self) -> str:
        """The call is complete: what was held back."""
        ...


class Open(Protocol):
    """Says what becomes of a call's arguments."""

    def __call__(self, tool: str, *, freeform: bool = False) -> Arguments | None:
        """None: they stay as they are. `freeform`: they are text, else JSON."""
        ...


Rewrite = Callable[[Document, str], None]
"""Puts a fragment of arguments into a copy of the event that its call had last."""


@dataclass(slots=True)
class Call:
    """One call of a stream."""

    arguments: Arguments
    last: Event | None = None
    """The event with its last fragment, without edits."""
    rewrite: Rewrite | None = None

    def feed(self, event: Event, fragment: str, rewrite: Rewrite) -> str:
        """One fragment."""
        self.last, self.rewrite = Event(event.piece, event.document, event.is_changed), rewrite
        return self.arguments.feed(fragment)

    def flush(self) -> list[Event]:
        """An event with what was held back; none if that is nothing."""
        held = self.arguments.finish()
        if not held or self.last is None or self.rewrite is None:
            return []
        event = self.last.copy()
        assert event.document is not None
        self.rewrite(event.document, held)
        return [event]


@dataclass(frozen=True, slots=True)
class Made:
    """A call in a document that has all of its arguments."""

    name: str
    arguments: Raw | None
    is_text: bool = False
    """They are text, else JSON."""


class CallArguments(ABC):
    """A filter: the arguments of the client's calls in one response."""

    def __init__(self, open_: Open) -> None:
        self._open = open_

    def event(self, event: Event) -> Iterable[Event]:
        if event.document is None:
            return self.no_json(event)
        return [*self.edit(event, event.document), event]

    def close(self) -> Iterable[Event]:
        return ()

    def document(self, document: Document) -> None:
        for made in self.made(document):
            if made.arguments is not None:
                edit_value(document, made.arguments, self._open(made.name, freeform=made.is_text))

    def no_json(self, event: Event) -> Iterable[Event]:
        """What goes on for an event that says nothing."""
        return (event,)

    @abstractmethod
    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        """Edit an event of a stream; the events that have to go in front of it."""

    @abstractmethod
    def made(self, document: Document) -> Iterator[Made]:
        """Each call in a document."""


class WholeArguments(CallArguments):
    """Calls arrive in one piece: each event is a document like a whole response."""

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        self.document(document)
        return ()


class BlockArguments(CallArguments):
    """Calls are numbered blocks with a begin, fragments and an end."""

    index: ClassVar[str]
    """The member that numbers blocks."""

    def __init__(self, open_: Open) -> None:
        super().__init__(open_)
        self._calls: dict[int, Call] = {}

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        members = event.members
        index = document.plain(members.get(self.index))
        if not isinstance(index, int):
            return ()
        if (name := self.begun(document, members)) is not None:
            arguments = self._open(name)
            if arguments is not None:
                self._calls[index] = Call(arguments)
        elif (fragment := self.fragment(document, members)) is not None:
            self._feed(event, document, fragment, index)
        elif self.ends(document, members) and index in self._calls:
            return self._calls.pop(index).flush()
        return ()

    def close(self) -> Iterable[Event]:
        calls, self._calls = self._calls, {}
        return [event for call in calls.values() for event in call.flush()]

    def _feed(self, event: Event, document: Document, fragment: Raw, index: int) -> None:
        call = self._calls.get(index)
        if call is None:
            return
        text = document.string(fragment) or ""
        new = call.feed(event, text, self._rewrite)
        if new != text:
            document.replace(fragment, new)

    def _rewrite(self, document: Document, text: str) -> None:
        fragment = self.fragment(document, document.members(document.root))
        assert fragment is not None
        document.replace(fragment, text)

    @abstractmethod
    def begun(self, document: Document, members: dict[str, Raw]) -> str | None:
        """The tool whose call begins with this event."""

    @abstractmethod
    def fragment(self, document: Document, members: dict[str, Raw]) -> Raw | None:
        """The fragment of arguments that it has: a string."""

    @abstractmethod
    def ends(self, document: Document, members: dict[str, Raw]) -> bool:
        """Whether the block ends with it."""


def whole(arguments: Arguments | None, text: str) -> str:
    """All arguments of a call at once."""
    return text if arguments is None else arguments.feed(text) + arguments.finish()


def edit_value(document: Document, value: Raw | None, arguments: Arguments | None) -> None:
    """The same for a value of a document: a string, or an object that is JSON itself."""
    if value is None or arguments is None:
        return
    text = document.string(value)
    if text is not None:
        new = whole(arguments, text)
        if new != text:
            document.replace(value, new)
    elif document.members(value):
        source = document.source(value).decode("utf-8")
        new = whole(arguments, source)
        if new != source:
            document.rewrite(value, new.encode("utf-8", "surrogatepass"))
