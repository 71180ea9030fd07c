"""This module has a filter that edits the arguments of the client's tool calls in a response.

`Open` returns an editor for a call, or None. The editor gets each piece of the arguments at once, and its
output replaces the piece. Text that the editor delays is sent in a copy of the call's last event. A subclass
for each API finds the calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from msgspec import Raw

from penumbra.apis.base import Event
from penumbra.apis.prompt import Kind, Part
from penumbra.wire.document import Document


class Arguments(Protocol):
    """An editor of one call's arguments."""

    def feed(self, fragment: str) -> str:
        """Add a fragment of the arguments, and return the text that can be sent now."""
        ...

    def finish(self) -> str:
        """Return the remaining text after the last fragment."""
        ...


class Open(Protocol):
    """A function that returns an editor for a call's arguments."""

    def __call__(self, tool: str, *, freeform: bool = False) -> Arguments | None:
        """Return the editor; None if the arguments stay. With `freeform`, the arguments are free text."""
        ...


Rewrite = Callable[[Document, str], None]
"""A function that writes a fragment of arguments into a copy of the call's last event."""


@dataclass(slots=True)
class EditedCall:
    """An `EditedCall` has the state of a call in a stream."""

    name: str = ""
    id: str = ""
    is_text: bool = False
    """True if the arguments are text; False if they are JSON."""
    arguments: Arguments | None = None
    """The editor; None if the arguments stay or have ended."""
    opened: bool = False
    """True after `Open` was asked for an editor."""
    last: Event | None = None
    """The event with the call's last fragment, without edits."""
    rewrite: Rewrite | None = None

    def feed(self, event: Event, fragment: str, rewrite: Rewrite) -> str:
        """Add one fragment of the arguments, and return the text that replaces it."""
        if self.arguments is None:
            return fragment
        self.last, self.rewrite = Event(event.piece, event.document, event.is_changed), rewrite
        return self.arguments.feed(fragment)

    def finish(self) -> str:
        """Return the text that was not sent before the arguments ended."""
        arguments, self.arguments = self.arguments, None
        return arguments.finish() if arguments is not None else ""

    def flush(self) -> list[Event]:
        """Return an event with the text that was not sent yet. Without such text, return no event."""
        left = self.finish()
        if not left or self.last is None or self.rewrite is None:
            return []
        event = self.last.copy()
        assert event.document is not None
        self.rewrite(event.document, left)
        return [event]


class CallArguments(ABC):
    """The filter for one response. A subclass needs only `blocks` and `parts` if calls arrive in one piece
    and events have the form of a whole response."""

    def __init__(self, open_: Open) -> None:
        self._open = open_
        self._calls: dict[Hashable, EditedCall] = {}
        """The calls that have not ended. The key is the id, index or place of a call in its events."""

    def event(self, event: Event) -> Iterable[Event]:
        """Edit an event of a stream, and return the events that the client gets instead."""
        if event.document is None:
            return self.no_json(event)
        return [*self.edit(event, event.document), event]

    def close(self) -> Iterable[Event]:
        """At the end of the stream, return events with the texts that are still delayed."""
        return self._flush(list(self._calls))

    def document(self, document: Document) -> None:
        for block in self.blocks(document):
            if (call := self._call(document, block)) is not None:
                self._edit_whole(document, call)

    def no_json(self, event: Event) -> Iterable[Event]:
        """Return the events that the client gets instead of an event without JSON."""
        return (event,)

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        """Edit an event with JSON, and return the events to send before it."""
        self.document(document)
        return ()

    @abstractmethod
    def blocks(self, document: Document) -> Iterable[Raw]:
        """Return the values in a whole response that may be calls."""

    @abstractmethod
    def parts(self, document: Document, block: Raw) -> Iterable[Part]:
        """Return the parts of a value from `blocks`, as for a request."""

    def _call(self, document: Document, value: Raw | None) -> Part | None:
        parts = () if value is None else self.parts(document, value)
        return next((part for part in parts if part.kind is Kind.CALL), None)

    def _edit_whole(self, document: Document, call: Part) -> None:
        if call.arguments is not None:
            edit_value(document, call.arguments, self._open(call.name, freeform=call.is_text))

    def _flush(self, keys: Iterable[Hashable]) -> list[Event]:
        """Drop calls that have ended, and return events with the unsent text of these calls."""
        calls = [self._calls.pop(key) for key in keys if key in self._calls]
        return [event for call in calls for event in call.flush()]


class NumberedArguments(CallArguments):
    """The filter for APIs that number calls. Each call has events for its beginning, fragments and end."""

    index: ClassVar[str]
    """The member of an event that has the number of the call."""
    begins: ClassVar[str]
    """The member that has a call's beginning, or a complete call."""
    fragment: ClassVar[tuple[str, ...]]
    """The path to a fragment of arguments, a string."""

    @abstractmethod
    def ends(self, document: Document, members: dict[str, Raw]) -> bool:
        """Return whether an event ends a call."""

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        members = event.members
        index = document.plain(members.get(self.index))
        if not isinstance(index, int):
            return ()
        known, begun = self._calls.get(index), self._call(document, members.get(self.begins))
        if begun is not None:
            # Some compatible servers send all arguments at once.
            self._edit_whole(document, begun)
        if self.ends(document, members):
            for name in ("arguments", "input") if known is not None else ():
                if known is not None and name in members:
                    edit_value(document, members[name], self._open(known.name, freeform=known.is_text))
            return self._flush([index])
        if begun is not None:
            editor = self._open(begun.name, freeform=begun.is_text)
            self._calls[index] = EditedCall(begun.name, is_text=begun.is_text, arguments=editor)
        elif known is not None and (fragment := self._fragment(document, members)) is not None:
            text = document.text_of(fragment)
            if (new := known.feed(event, text, self.rewrite)) != text:
                document.replace(fragment, new)
        return ()

    def rewrite(self, document: Document, text: str) -> None:
        """In a copy of an event, replace the fragment of arguments by another fragment."""
        fragment = self._fragment(document, document.top)
        assert fragment is not None
        document.replace(fragment, text)

    def _fragment(self, document: Document, members: dict[str, Raw]) -> Raw | None:
        *outer, last = self.fragment
        for name in outer:
            members = document.members(members.get(name))
        fragment = members.get(last)
        return fragment if fragment is not None and document.is_string(fragment) else None


def edit_value(document: Document, value: Raw, arguments: Arguments | None) -> None:
    """Edit all arguments of a call at once. `value` is a string or an object."""
    if arguments is None:
        return
    if (text := document.string(value)) is not None:
        if (new := arguments.feed(text) + arguments.finish()) != text:
            document.replace(value, new)
    elif document.members(value):
        source = document.source(value).decode("utf-8")
        if (new := arguments.feed(source) + arguments.finish()) != source:
            document.rewrite(value, new.encode("utf-8", "surrogatepass"))
