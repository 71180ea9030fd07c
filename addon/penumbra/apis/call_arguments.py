"""The arguments of a client's tool calls within a response, read and changed on their way to the client.

`Open` returns an editor for a call, or None. A filter passes the arguments to the editor, and puts its output
in their place. Output that the editor delays travels in a copy of the call's last event. Calls that the
provider runs itself are left alone. Each API says where its calls stand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

from msgspec import Raw

from penumbra.apis.base import Event
from penumbra.wire.document import Document


class Arguments(Protocol):
    """An editor of one call's arguments."""

    def feed(self, fragment: str) -> str:
        """Take a fragment of the arguments; return the text that can be passed on."""
        ...

    def finish(self) -> str:
        """Return the text that was not passed on yet, after the last fragment."""
        ...


class Open(Protocol):
    """Opens an editor for a call's arguments."""

    def __call__(self, tool: str, *, freeform: bool = False) -> Arguments | None:
        """Returns None if the arguments stay unchanged. `freeform`: they are text, else JSON."""
        ...


Rewrite = Callable[[Document, str], None]
"""Puts a fragment of arguments into a copy of its call's last event."""


@dataclass(slots=True)
class Call:
    """One call of a stream, as far as it is known."""

    name: str = ""
    id: str = ""
    is_text: bool = False
    """The arguments are text, else JSON."""
    arguments: Arguments | None = None
    """The editor; None if the arguments stay unchanged, or have ended."""
    opened: bool = False
    """True after `Open` was asked for an editor."""
    last: Event | None = None
    """The event with its last fragment, without edits."""
    rewrite: Rewrite | None = None

    def feed(self, event: Event, fragment: str, rewrite: Rewrite) -> str:
        """Take one fragment of the arguments; return what stands in its place."""
        if self.arguments is None:
            return fragment
        self.last, self.rewrite = Event(event.piece, event.document, event.is_changed), rewrite
        return self.arguments.feed(fragment)

    def finish(self) -> str:
        """Return the text that was not passed on before the arguments ended."""
        arguments, self.arguments = self.arguments, None
        return arguments.finish() if arguments is not None else ""

    def flush(self) -> list[Event]:
        """Return an event with the text that was not passed on yet; no event if there is none."""
        held = self.finish()
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
    """The arguments are text, else JSON."""


class CallArguments(ABC):
    """A filter: the arguments of the client's calls in one response."""

    def __init__(self, open_: Open) -> None:
        self._open = open_
        self._calls: dict[Hashable, Call] = {}
        """Calls of a stream that have not ended, by the id, index or place in their events."""

    def event(self, event: Event) -> Iterable[Event]:
        if event.document is None:
            return self.no_json(event)
        return [*self.edit(event, event.document), event]

    def close(self) -> Iterable[Event]:
        return self._flush(list(self._calls))

    def _flush(self, keys: Iterable[Hashable]) -> list[Event]:
        """Forget calls that have ended; return events with the text of theirs that was not passed on yet."""
        calls = [self._calls.pop(key) for key in keys if key in self._calls]
        return [event for call in calls for event in call.flush()]

    def document(self, document: Document) -> None:
        for made in self.made(document):
            if made.arguments is not None:
                edit_value(document, made.arguments, self._open_made(made))

    def _open_made(self, made: Made) -> Arguments | None:
        return self._open(made.name, freeform=made.is_text)

    def no_json(self, event: Event) -> Iterable[Event]:
        """The events to pass on in place of an event without JSON."""
        return (event,)

    @abstractmethod
    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        """Edit an event of a stream; return the events to send before it."""

    @abstractmethod
    def made(self, document: Document) -> Iterator[Made]:
        """Each call in a document."""


class WholeArguments(CallArguments):
    """Calls arrive in one piece: each event is a document like a whole response."""

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        self.document(document)
        return ()


class NumberedArguments(CallArguments):
    """Calls are numbered, and have a beginning, fragments and an end."""

    index: ClassVar[str]
    """The member that has a call's number."""

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        members = event.members
        index = document.plain(members.get(self.index))
        if not isinstance(index, int):
            return ()
        call = self._calls.get(index)
        if (begun := self.begun(document, members)) is not None:
            self._calls[index] = begun
        elif (fragment := self.fragment(document, members)) is not None:
            if call is not None:
                text = document.text_of(fragment)
                if (new := call.feed(event, text, self._rewrite)) != text:
                    document.replace(fragment, new)
        elif self.ends(document, members, call):
            return self._flush([index])
        return ()

    def _rewrite(self, document: Document, text: str) -> None:
        fragment = self.fragment(document, document.top)
        assert fragment is not None
        document.replace(fragment, text)

    @abstractmethod
    def begun(self, document: Document, members: dict[str, Raw]) -> Call | None:
        """The call that begins with this event."""

    @abstractmethod
    def fragment(self, document: Document, members: dict[str, Raw]) -> Raw | None:
        """The fragment of arguments that an event has: a string."""

    @abstractmethod
    def ends(self, document: Document, members: dict[str, Raw], call: Call | None) -> bool:
        """True if an event ends a call, whose arguments it may repeat."""


def whole(arguments: Arguments | None, text: str) -> str:
    """All arguments of a call at once."""
    return text if arguments is None else arguments.feed(text) + arguments.finish()


def edit_value(document: Document, value: Raw | None, arguments: Arguments | None) -> None:
    """Edits the arguments in a document: a string, or an object that is JSON itself."""
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


CALLS = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
"""Items of calls that the client answers: the tool's name where the item has none, and its arguments."""

_SHAPES = {"function": "arguments", "custom": "input"}
_FRAGMENTS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_FINISHED = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}


class ChatArguments(CallArguments):
    """Chat Completions, also as compatible APIs write them. Calls are known by choice and index."""

    def no_json(self, event: Event) -> Iterable[Event]:
        return (event,) if event.piece.data is None else (*self.close(), event)

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        before: list[Event] = []
        for item in document.items(event.members.get("choices")):
            choice = document.members(item)
            number = document.plain(choice.get("index"))
            before += self._choice(event, document, choice, number if isinstance(number, int) else 0)
        return before

    def made(self, document: Document) -> Iterator[Made]:
        for item in document.items(document.top.get("choices")):
            message = document.members(document.members(item).get("message"))
            for value in document.items(message.get("tool_calls")):
                call = document.members(value)
                for shape, member in _SHAPES.items():
                    made = document.members(call.get(shape))
                    yield Made(document.text_of(made.get("name")), made.get(member), shape == "custom")

    def _choice(self, event: Event, document: Document, choice: dict[str, Raw], number: int) -> list[Event]:
        """Edit one choice of a chunk; return the events to send before the chunk."""
        ends = document.plain(choice.get("finish_reason")) is not None
        fragments: dict[tuple[int, int], list[Raw]] = {}
        for at, item in enumerate(document.items(document.members(choice.get("delta")).get("tool_calls"))):
            index = document.plain(document.members(item).get("index"))
            key = (number, index if isinstance(index, int) else at)
            fragments.setdefault(key, []).append(item)
        over = [key for key in self._calls if isinstance(key, tuple) and key[0] == number]
        over = [key for key in over if key not in fragments]
        before = self._flush(over if ends or fragments else [])
        for key, items in fragments.items():
            for item in items:
                last = ends and item is items[-1]
                before += self._fragment(event, document, document.members(item), key, last=last)
        return before

    def _fragment(
        self, event: Event, document: Document, item: dict[str, Raw], key: tuple[int, int], *, last: bool
    ) -> list[Event]:
        given = document.text_of(item.get("id"))
        call = self._calls.get(key)
        # Some providers use one index for several calls.
        before: list[Event] = []
        if call is not None and given and call.id and given != call.id:
            before, call = self._flush([key]), None
        if call is None:
            call = self._calls[key] = Call(id=given)
        shape = "custom" if "custom" in item else "function"
        made = document.members(item.get(shape))
        name = document.text_of(made.get("name"))
        call.name += "" if name == call.name else name
        value = made.get(_SHAPES[shape])
        if value is None or not call.name:
            return before
        text = document.string(value)
        if text is None:
            edit_value(document, value, self._open(call.name, freeform=shape == "custom"))
        elif text or call.opened:
            new = self._feed(event, call, key, shape, text)
            if last:
                new += call.finish()
                del self._calls[key]
            if new != text:
                document.replace(value, new)
        return before

    def _feed(self, event: Event, call: Call, key: tuple[int, int], shape: str, text: str) -> str:
        if not call.opened:
            call.opened, call.arguments = True, self._open(call.name, freeform=shape == "custom")
        return call.feed(event, text, partial(_only, key, shape))


def _only(key: tuple[int, int], shape: str, document: Document, text: str) -> None:
    """Reduce a copy of a chunk to some arguments of one call."""
    members = document.top
    call = {"index": key[1], shape: {_SHAPES[shape]: text}}
    choice = {"index": key[0], "delta": {"tool_calls": [call]}, "finish_reason": None}
    document.replace(members["choices"], [choice])
    if "usage" in members:
        document.replace(members["usage"], None)


class ResponsesArguments(NumberedArguments):
    """OpenAI Responses. Calls are known by their place in the response."""

    index = "output_index"

    def __init__(self, open_: Open) -> None:
        super().__init__(open_)
        self._added = 0
        """Events that the provider did not send."""
        self._number = 0
        """The next number of the sequence."""

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        number = document.plain(event.members.get("sequence_number"))
        self._number = number + self._added if isinstance(number, int) else self._number
        self.document(document)
        before = super().edit(event, document)
        if isinstance(number, int) and number != self._number:
            document.replace(event.members["sequence_number"], self._number)
        self._number += 1
        return before

    def made(self, document: Document) -> Iterator[Made]:
        top = document.top
        for response in (top, document.members(top.get("response"))):
            for item in document.items(response.get("output")):
                yield from _made(document, item)

    def begun(self, document: Document, members: dict[str, Raw]) -> Call | None:
        if document.string(members.get("type")) != "response.output_item.added":
            return None
        made = self._item(document, members)
        if made is None:
            return None
        return Call(made.name, arguments=self._open_made(made), is_text=made.is_text)

    def fragment(self, document: Document, members: dict[str, Raw]) -> Raw | None:
        return members.get("delta") if document.string(members.get("type")) in _FRAGMENTS else None

    def ends(self, document: Document, members: dict[str, Raw], call: Call | None) -> bool:
        name = document.text_of(members.get("type"))
        if name in _FINISHED and call is not None:
            edit_value(document, members.get(_FINISHED[name]), self._open(call.name, freeform=call.is_text))
        elif name == "response.output_item.done":
            self._item(document, members)
            return True
        return name in _FINISHED

    def _rewrite(self, document: Document, text: str) -> None:
        super()._rewrite(document, text)
        members = document.top
        if "sequence_number" in members:
            document.replace(members["sequence_number"], self._number)
            self._added += 1
            self._number += 1

    def _item(self, document: Document, members: dict[str, Raw]) -> Made | None:
        """Edit the call that an event's item is."""
        made = next(_made(document, members.get("item")), None)
        if made is not None:
            edit_value(document, made.arguments, self._open_made(made))
        return made


def _made(document: Document, item: Raw | None) -> Iterator[Made]:
    members = document.members(item)
    kind = document.text_of(members.get("type"))
    if kind in CALLS:
        default, member = CALLS[kind]
        name = document.string(members.get("name")) or default
        yield Made(name, members.get(member), kind == "custom_tool_call")
