"""This module edits responses of Gemini and Ollama. Each message of a stream has a piece of the response.

Each call arrives in one piece, often together with the end of the turn. After a call of the injected tool,
the end is delayed until the hidden calls are answered. The client sees the texts of two turns as one text,
with white space between them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Raw, Struct, structs

from penumbra.apis.base import Event, InjectedCall, Turn
from penumbra.apis.parts import short_hash
from penumbra.apis.prompt import Part
from penumbra.apis.turns import Framing, Turns
from penumbra.wire.document import Document
from penumbra.wire.json_values import encode


@dataclass(slots=True)
class Seam:
    """A `Seam` puts an empty line between the texts of two turns if no white space separates them."""

    due: bool = False
    _last: str = ""

    def join(self, text: str) -> str:
        """Return the next text for the client. After a turn, a separator precedes it."""
        if not text:
            return text
        joined = gap(self._last, text) + text if self.due else text
        self._last, self.due = text, False
        return joined

    def edit(self, document: Document, texts: Iterable[Raw]) -> None:
        for value in texts:
            text = document.text_of(value)
            if (joined := self.join(text)) != text:
                document.replace(value, joined)


def gap(before: str, text: str) -> str:
    """Return the separator between the texts of two turns that are shown as one text."""
    return "" if not before or before[-1].isspace() or text[:1].isspace() else "\n\n"


def take_out_calls(document: Document, message: dict[str, Raw], is_hidden: Callable[[Raw], bool]) -> None:
    """Remove hidden calls from a message."""
    calls = document.items(message.get("tool_calls"))
    kept = [document.source(call) for call in calls if not is_hidden(call)]
    if not kept and calls:
        document.remove_member(message["tool_calls"])
    elif len(kept) < len(calls):
        document.rewrite(message["tool_calls"], b"[" + b",".join(kept) + b"]")


def call_tokens(document: Document, calls: Iterable[Part]) -> tuple[str, ...]:
    """Return a short hash of the name and the arguments of each call. Many clients drop the ids of calls."""
    return tuple([short_hash(call.name or None, document.plain(call.arguments)) for call in calls])


class Noted(Struct, frozen=True):
    """A `Noted` describes the content of one piece."""

    texts: Sequence[Raw] = ()
    """The JSON strings with visible text."""
    hides: bool = False
    """True if the piece has a call of the injected tool."""
    shows: bool = False
    """True if the piece has content that the client may see."""
    ends: bool = False
    """True if the piece ends the turn."""


@dataclass
class Reading(ABC):
    """The content of one turn so far."""

    injected_tool: str
    injected: list[InjectedCall] = field(default_factory=list)
    real_calls: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    reason: str = ""
    finished: bool = False

    @abstractmethod
    def note(self, document: Document) -> Noted:
        """Store the content of a piece."""

    def note_call(self, document: Document, call: Part, named: Mapping[str, str | None] | None) -> None:
        """Store a call. `named` has the members that name a hidden call in its result, or is None."""
        if named is None:
            self.real_calls.append(call.id)
            self.tokens += call_tokens(document, [call])
            return
        arguments = "{}" if call.arguments is None else document.source(call.arguments).decode()
        self.injected.append(InjectedCall(encode(named).decode(), arguments, (call.id,)))

    @abstractmethod
    def message(self) -> bytes | None:
        """Return the message as JSON for a later request; None if the message is empty."""

    @abstractmethod
    def is_continuable(self) -> bool:
        """Return whether results can be added after the turn."""

    def turn(self) -> Turn:
        calls = bool(self.injected or self.real_calls)
        return Turn(
            # If a turn was cut off after a call, a part of this call may be missing.
            message=self.message() if self.finished or not calls else None,
            injected=tuple(self.injected),
            real_calls=tuple(self.real_calls),
            tokens=tuple(self.tokens),
            text="".join(self.texts),
            signatures=tuple(self.signatures),
            finished=self.finished,
            continuable=self.is_continuable(),
        )


class PieceTurns(Turns):
    """The turns of a response in a stream of pieces, or in one document."""

    def __init__(self, framing: Framing, injected_tool: str, before: str = "") -> None:
        self.seam = Seam()
        super().__init__(framing, injected_tool, before)

    @abstractmethod
    def new_reading(self) -> Reading:
        """Return a reader for the next turn."""

    @abstractmethod
    def take_out(self, document: Document) -> None:
        """Remove the injected tool's calls."""

    @abstractmethod
    def join(self, document: Document) -> None:
        """Edit a piece of a later turn so that it continues the message of the first turn."""

    def begin_turn(self) -> None:
        self.seen = self.new_reading()

    def hide_turn(self) -> None:
        self.seam.due = True

    def hides(self) -> bool:
        return bool(self.seen.injected)

    def turn(self) -> Turn:
        return self.seen.turn()

    def read_whole(self, document: Document) -> Turn:
        self.seen.note(document)
        return structs.replace(self.seen.turn(), failed="error" in document.members(self.owner(document)))

    def read(self, event: Event, document: Document) -> Iterable[Event]:
        noted = self.seen.note(document)
        self.seam.edit(document, noted.texts)
        self.hidden_names.note([name for call in self.seen.injected for name in call.names], hidden=True)
        self.hidden_names.note(self.seen.real_calls, hidden=False)
        if noted.hides:
            event.settle()
            assert event.document is not None
            document = event.document
            self.take_out(document)
        self.join(document)
        if noted.ends and self.hides():
            return self.delay(event)
        return (event,) if noted.shows or not noted.hides else ()
