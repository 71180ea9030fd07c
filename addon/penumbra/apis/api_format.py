"""This module has the base class of the formats. Each format defines some methods, and the base class derives
the other methods from them.

A format returns the parts of a prompt with their places (`message` and a few other methods). From these
parts, this module derives results, calls, texts outside of results, and the features of hidden exchanges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec import Raw

from penumbra.apis.base import Hidden, InjectedCall, Reasoning, Tool, Tools, Turn, Visible
from penumbra.apis.parts import Conversation, OpenCalls, PastCall, ResultText, ToolCall
from penumbra.apis.prompt import Kind, Message, Part, Prompt
from penumbra.apis.responses import Response, Responses
from penumbra.apis.turns import BODY
from penumbra.apis.upstream_error import DescribedError
from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import encode

T = TypeVar("T")
Answered = Callable[[Part, Mapping[str, ToolCall], OpenCalls], ToolCall | None]


@dataclass(frozen=True, slots=True)
class Pairing:
    """A `Pairing` says how to find the call that a result answers."""

    answered: Answered
    named: bool
    """True if every result names its call."""
    wait: bool
    """True if a result may answer any earlier call; False for calls in the model's last message only."""


@dataclass(slots=True)
class Results:
    """A `Results` has the calls and results of the messages that it has read."""

    pairing: Pairing
    _by_id: dict[str, ToolCall] = field(default_factory=dict)
    _waiting: OpenCalls = field(default_factory=OpenCalls)
    _responses: tuple[int, int] = (-1, -1)
    """The indexes of the model's last two messages; -1 for a missing message."""
    _last_thinking: int = -1

    def __len__(self) -> int:
        """Return the number of calls with different ids."""
        return len(self._by_id)

    def copy(self) -> Results:
        by_id, waiting = self._by_id.copy(), self._waiting
        waiting = waiting if self.pairing.named else waiting.copy()
        return Results(self.pairing, by_id, waiting, self._responses, self._last_thinking)

    def add(self, message: Message) -> list[ResultText]:
        """Add the next message, and return the texts of its results."""
        if not message.by_model:
            texts: list[ResultText] = []
            for part in message.parts:
                if part.kind is Kind.RESULT:
                    call = self.pairing.answered(part, self._by_id, self._waiting)
                    if not self.pairing.named:
                        self._waiting.close(call)
                    texts += _texts(part, call, message.turn)
            return texts
        self._responses = (self._responses[1], message.turn)
        if message.bound:
            self._last_thinking = message.turn
        made = [
            ToolCall(part.id, part.name, part.arguments, by_program=part.by_program)
            for part in message.parts
            if part.kind is Kind.CALL
        ]
        for call in made:
            self._by_id[call.id] = call
        if not self.pairing.named:
            self._waiting = self._waiting if self.pairing.wait else OpenCalls()
            self._waiting.add(made)
        return []

    def conversation(self, prompt: Prompt, opening: str, texts: Iterable[ResultText]) -> Conversation:
        calls = self._by_id.copy()
        calls.pop("", None)
        before, last = self._responses
        return Conversation(
            model=prompt.model,
            results=tuple(texts),
            messages=prompt.place,
            last_response=last if last < len(prompt.messages) - 1 else before,
            last_thinking=self._last_thinking,
            opening=opening,
            calls=calls,
        )


def _texts(part: Part, call: ToolCall | None, turn: int) -> list[ResultText]:
    if call is None and part.name:
        call = ToolCall(part.id, part.name)
    about = (part.id, call, part.is_error, turn, part.container)
    return [ResultText(text, *about, says_program=part.by_program) for text in part.texts]


class ApiFormat(ABC):
    """An `ApiFormat` reads and edits the requests and responses of one API, and has no state."""

    messages = "messages"
    """The name of the member that contains the messages."""
    opens_with_first = True
    """True if the opening of a conversation is the user's first message; False if it is all messages of the
    user before the first response."""
    calls_wait = False
    """True if a result may answer any earlier call; False for calls in the model's last message only."""
    names_calls = True
    """True if every result names the call that it answers."""
    breaks_off = True
    """True if a response that can't be completed is cut off. False if it ends with an error instead, because
    other responses share the connection."""
    joins_messages = False
    """True if adjacent messages of the model are one response."""

    no_calls = "tool_choice", b'"none"'
    """The name and the JSON value of the member that forbids calls."""

    def __init__(self, readers: Responses | None = None) -> None:
        """`readers` read the API's responses; None if responses can't be read."""
        self.readers = readers

    # Facts about an API

    @abstractmethod
    def message(self, document: Document, value: Raw, turn: int = 0) -> Message:
        """Return one message with its parts."""

    @staticmethod
    @abstractmethod
    def error_body(error: DescribedError) -> bytes:
        """Return an error as the API writes it."""

    def error(self, status: int, message: str) -> bytes:
        """Return an error body for a status and a message."""
        return self.error_body(DescribedError(status, message))

    def members(self, document: Document) -> Mapping[str, Raw]:
        """Return the members of the request. Some APIs wrap the request in another object."""
        return document.top

    def model(self, document: Document) -> str:
        """Return the name of the model in the body; empty if the body has none."""
        return document.text_of(document.top.get("model"))

    def system(self, document: Document) -> Iterable[Part]:
        """Return the instructions outside of the messages."""
        return ()

    def tool_arrays(self, document: Document) -> Iterable[Raw | None]:
        """Return the arrays that may declare tools."""
        return (self.members(document).get("tools"),)

    def answered(self, result: Part, by_id: Mapping[str, ToolCall], waiting: OpenCalls) -> ToolCall | None:
        """Return the call that a result answers, from the calls `by_id` or those `waiting` for a result."""
        return by_id.get(result.id)

    def tokens(self, document: Document, calls: list[Part]) -> tuple[str, ...]:
        """Return `Visible.tokens` for the calls of a response; empty if clients keep the ids."""
        return ()

    def blocks(self, document: Document, message: Raw) -> Raw | None:
        """Return the array of a message's blocks."""
        return document.members(message).get("content")

    def schema_arrays(self, document: Document) -> Iterable[Raw]:
        """Return the arrays that contain schemas of arguments."""
        return self.prompt(document).tools

    @abstractmethod
    def tools(self, request: Document) -> Tools:
        """Return the tools of a request."""

    @abstractmethod
    def declare(self, request: Document, tool: Tool) -> None:
        """Declare a tool after the last tool of a request."""

    def declare_after(self, request: Document, tool: Tool, count: int) -> bool:
        """Declare a tool after the first `count` messages. Return False if that is impossible."""
        return False

    def brings(self, request: Document, tool: Tool) -> bool:
        """Return whether a summary in the request, which the provider wrote, already declares the tool."""
        return False

    def may_declare_after(self, request: Document) -> bool:
        """Return whether a tool can be declared after the last message without losing the cached prefix."""
        return False

    @abstractmethod
    def result(self, call: InjectedCall, text: str) -> bytes:
        """Return the result of an injected call as JSON, in the form of `Hidden.results`."""

    def without_calls(self, request: bytes) -> bytes:
        """Return the request, changed so that the model makes no calls, as far as the API allows that."""
        document = Document(request)
        document.set_member(document.root, *self.no_calls)
        return document.render()

    @abstractmethod
    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        """Put a hidden exchange back at a visible message. Return False if that is impossible."""

    def user_message(self, text: str) -> bytes:
        return encode({"role": "user", "content": text})

    def pair(self, part: Part) -> str:
        """Return the id by which a call and its results belong together."""
        return part.id

    def thinking(self, request: Document) -> Raw | None:
        """Return the thinking settings of a request; None if the API does not bind reasoning to a prefix."""
        return None

    def continuation(self, turn: Turn, results: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the messages that continue a conversation after a turn: the turn itself, and its results."""
        return (turn.message, *results) if turn.message else tuple(results)

    def extended(self, request: bytes, messages: Sequence[bytes], response_id: str = "") -> bytes:
        """Return the request with these messages after its last message. If the provider stores the history,
        the messages continue the response `response_id`."""
        document = Document(request)
        document.append(self.members(document)[self.messages], b",".join(messages))
        return document.render()

    def reasoning(self, request: Document) -> list[Reasoning]:
        """Return the reasoning in a request; none if the API accepts reasoning at the end of a response."""
        return []

    def take_out(self, request: Document, places: Collection[int]) -> None:
        """Remove the messages with these indexes."""
        return

    def continued(self, document: Document) -> str:
        """Return the id of the stored response that a request continues; empty if there is none."""
        return ""

    def compared_with(self, request: Document) -> Raw | None:
        """Return the id of the response whose prompt the provider compares with this one; None without
        one."""
        return None

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        """Drop the reasoning of message `first` and later messages, because it belongs to another prefix.
        With `offered`, the provider can be asked to drop it. Return False if the reasoning stays."""
        return False

    # Methods that are derived from the methods above

    @property
    def responses(self) -> Responses:
        assert self.readers is not None
        return self.readers

    def stream(self, injected_tool: str, before: str = "") -> Response:
        """Return a reader of a response that arrives as a stream. `before` is the id of the continued
        response, as the client knows it; empty if there is none."""
        framing, readers = self.responses.framing(), self.responses
        return Response(framing, readers.turns(framing, injected_tool, before), (), readers.keep_alive)

    def body(self, injected_tool: str, before: str = "") -> Response:
        """Return a reader of a response that arrives as one JSON document."""
        return Response(BODY, self.responses.turns(BODY, injected_tool, before))

    def prompt(self, document: Document) -> Prompt:
        return document.once(self._prompt)

    def _prompt(self, document: Document) -> Prompt:
        place = self.members(document).get(self.messages)
        return Prompt(
            self.model(document),
            tuple(self.system(document)),
            place,
            tuple(self._messages(document, place)),
            tuple(array for array in self.tool_arrays(document) if array is not None),
        )

    def _messages(self, document: Document, place: Raw | None) -> list[Message]:
        items = document.items(place)

        def step(messages: list[Message], turn: int) -> None:
            message = document.about(items[turn], self.message)
            messages.append(message if message.turn == turn else msgspec.structs.replace(message, turn=turn))

        return document.computed(place, len(items), list, step, self.message)

    def read(self, document: Document) -> Conversation:
        """Return the conversation of a request body. Unknown parts are ignored."""
        prompt, results = self.prompt(document), self.results()
        texts = [text for message in prompt.messages for text in results.add(message)]
        return results.conversation(prompt, self.opening(document), texts)

    def results(self) -> Results:
        """Return a reader that takes messages one by one and returns their results."""
        return Results(Pairing(self.answered, self.names_calls, self.calls_wait))

    def opening(self, document: Document) -> str:
        """Return the opening of a conversation, which distinguishes conversations without ids."""
        texts: list[Raw] = []
        for message in self.prompt(document).messages:
            if message.by_model and not self.opens_with_first:
                break
            if message.role == "user":
                texts += [text for part in message.of(Kind.TEXT) for text in part.texts]
                if self.opens_with_first:
                    break
        return "\n".join([document.text_of(text) for text in texts])

    def outside_results(self, document: Document) -> Iterator[Raw]:
        """Yield the values outside of tool results: the texts of system, user and model, and the arguments of
        calls. Ids, names, schemas, reasoning, signatures, images and documents are left out."""
        prompt = self.prompt(document)
        for parts in (prompt.system, *(message.of(Kind.TEXT, Kind.CALL) for message in prompt.messages)):
            for part in parts:
                yield from part.texts
                if part.arguments is not None:
                    yield part.arguments

    def past_calls(self, document: Document) -> Iterator[PastCall]:
        """Yield the calls of the client's tools that have arguments, in order."""
        for message in self.prompt(document).messages:
            for part in message.of(Kind.CALL):
                if part.arguments is not None:
                    yield PastCall(message.turn, part.name, part.arguments)

    def response_at(self, document: Document, start: int) -> list[Message]:
        """Return the messages of the response that begins at an index."""
        messages, end = self.prompt(document).messages, start + 1
        while self.joins_messages and end < len(messages) and messages[end].by_model:
            end += 1
        return list(messages[start:end])

    def replace_run(self, request: Document, run: list[Message], texts: Iterable[bytes]) -> bool:
        """Replace the messages of one response by other messages in JSON. If the messages have edits, change
        nothing and return False."""
        start, end = request.place(run[0].value)[0], request.place(run[-1].value)[1]
        if request.is_edited(start, end):
            return False
        request.edits.append(Edit(start, end, b",".join(texts)))
        return True

    def visible(self, document: Document) -> list[Visible]:
        """Return the responses in a request, in order. Their features identify hidden exchanges."""
        return [visible for visible, _ in self.responses_with(document, lambda visible: None)]

    def responses_with(
        self, document: Document, make: Callable[[Visible], T], inputs: Hashable = None
    ) -> list[tuple[Visible, T]]:
        """Return each response in a request, in order, with the result of `make`, which depends only on the
        earlier messages and on `inputs`."""
        prompt = self.prompt(document)
        messages, before = prompt.messages, self.continued(document)

        def begins(turn: int) -> bool:
            joins = self.joins_messages and turn > 0 and messages[turn - 1].by_model
            return messages[turn].by_model and not joins

        def add_before(found: list[tuple[Visible, T]], turn: int) -> None:
            """Add the latest response before a message, which is complete with its results."""
            start = next(filter(begins, range(turn - 1, -1, -1)), -1)
            if start >= 0:
                last = found[-1][0] if found else Visible(-1, (), "", "", -1)
                visible = self._visible(document, self.response_at(document, start), last)
                found.append((visible, make(visible)))

        def step(found: list[tuple[Visible, T]], turn: int) -> None:
            if begins(turn):
                add_before(found, turn)

        found = document.computed(
            prompt.place, len(messages), list, step, ("responses", self.message), inputs
        )
        add_before(found, len(messages))
        if before:
            stored = Visible(-1, (), "", "", 0, response_id=before)
            found.insert(0, (stored, make(stored)))
        return found

    def _visible(self, document: Document, messages: list[Message], last: Visible) -> Visible:
        """Return the response that consists of these messages. `last` is the response before it."""
        last_call, since = (last.calls[-1], 0) if last.calls else (last.last_call, last.since + 1)
        parts = [part for message in messages for part in message.parts]
        calls = [
            part
            for part in parts
            if part.counts and (part.kind is Kind.CALL or (part.kind is Kind.OTHER and part.id))
        ]
        texts = [text for part in parts if part.kind in (Kind.TEXT, Kind.OTHER) for text in part.texts]
        joined = "".join([document.text_of(text) for text in texts])
        signed = [part.signature for part in parts if part.signature is not None]
        ids = tuple([part.id for part in calls])
        return Visible(
            messages[0].turn,
            ids,
            joined,
            last_call,
            since,
            signed=bool(signed),
            signature=signed[-1] if signed else "",
            tokens=self.tokens(document, calls),
        )

    def without_reasoning(self, document: Document, message: Raw) -> list[bytes] | None:
        """Return a message's blocks without its reasoning; None if the message has no reasoning."""
        reasoning = {id(part.block) for part in self.message(document, message).of(Kind.REASONING)}
        blocks = document.items(self.blocks(document, message))
        left = [document.source(block) for block in blocks if id(block) not in reasoning]
        return None if len(left) == len(blocks) else left
