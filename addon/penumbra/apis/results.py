"""The results of a conversation, and the calls that they answer, read message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from penumbra.apis.parts import Conversation, OpenCalls, ResultText, ToolCall
from penumbra.apis.prompt import Kind, Message, Part, Prompt

Answered = Callable[[Part, Mapping[str, ToolCall], OpenCalls], ToolCall | None]


@dataclass(frozen=True, slots=True)
class Pairing:
    """How an API says which call a result answers."""

    answered: Answered
    named: bool
    """Every result names its call."""
    wait: bool
    """A result may answer a call of any message; False: of the last one that the model wrote."""


@dataclass(slots=True)
class Results:
    """What is known behind some of the messages."""

    pairing: Pairing
    _by_id: dict[str, ToolCall] = field(default_factory=dict)
    _waiting: OpenCalls = field(default_factory=OpenCalls)
    _responses: tuple[int, int] = (-1, -1)
    """The last two messages of the model."""
    _last_thinking: int = -1

    def __len__(self) -> int:
        """Calls that are known."""
        return len(self._by_id)

    def copy(self) -> Results:
        """The same, which goes on by itself."""
        by_id, waiting = self._by_id.copy(), self._waiting
        waiting = waiting if self.pairing.named else waiting.copy()
        return Results(self.pairing, by_id, waiting, self._responses, self._last_thinking)

    def add(self, message: Message) -> list[ResultText]:
        """The next message; the texts of its results."""
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
        made = [_call(part) for part in message.parts if part.kind is Kind.CALL]
        for call in made:
            self._by_id[call.id] = call
        if not self.pairing.named:
            self._waiting = self._waiting if self.pairing.wait else OpenCalls()
            self._waiting.add(made)
        return []

    def conversation(self, prompt: Prompt, opening: str, texts: Iterable[ResultText]) -> Conversation:
        """All of the conversation that was read."""
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


def _call(part: Part) -> ToolCall:
    return ToolCall(part.id, part.name, part.arguments, by_program=part.by_program)


def _texts(part: Part, call: ToolCall | None, turn: int) -> list[ResultText]:
    """The texts of a result."""
    if call is None and part.name:
        call = ToolCall(part.id, part.name)
    about = (part.id, call, part.is_error, turn, part.container)
    return [ResultText(text, *about, says_program=part.by_program) for text in part.texts]
