"""One answer for the client from as many upstream turns as it takes; no I/O.

        feed ──► end_turn ──► Done      no phantom call, or beside real calls: the client goes on
                    │
                   Ask ──► answered ──► Continue    the request for the next turn; feed it again
                                   └──► Done

After `ROUNDS` rounds the calls are refused; if the model still asks for nothing else, one more request
forbids all calls, so that it has to say something. Whoever does the I/O may end everything with
`failed` while a continuation is under way.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penumbra.failures import place
from penumbra.wire.answer import Answer, AnswerFormat, Failure, Hidden, MadeCall, PhantomCall, Turn

ROUNDS = 5
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """The model asks for originals; give the texts to `answered`, one for each call."""

    calls: tuple[PhantomCall, ...]
    refused: bool
    """The limit is reached: the text to give is a refusal."""


@dataclass(frozen=True, slots=True)
class Continue:
    """The next turn is to be had from the provider."""

    out: bytes
    """Bytes for the client before it."""
    request: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """The answer is complete."""

    out: bytes
    """Last bytes for the client; of a JSON answer, all."""
    calls: tuple[str, ...] = ()
    """Ids of the calls that the client sees."""
    text: str = ""
    """The text that the client sees."""
    hidden: Hidden | None = None
    """What the client did not see, for later requests; None if there is nothing."""
    signature: str = ""
    """By what the provider recognises the last reasoning that the client got."""
    signed_late: bool = False
    """That reasoning came after something that the client did not see."""
    ids: tuple[str, ...] = ()
    """The provider's ids of all turns."""
    made: tuple[MadeCall, ...] = ()
    """The calls among them that later requests may not repeat."""
    tokens: tuple[str, ...] = ()
    """What the calls are known by where their ids don't tell."""
    item: str = ""
    """The id of the last item that the client sees."""
    sound: bool = True
    """The client got a complete message; False: an error, or a stream that broke off."""
    status: int | None = None
    """HTTP status of an error that takes the place of a JSON answer."""


class Exchange:
    """The turns behind one answer."""

    def __init__(self, wire: AnswerFormat, answer: Answer, request: bytes) -> None:
        self._wire = wire
        self._answer = answer
        self.request = request
        """What was sent last."""
        self.turns: list[Turn] = []
        self.rounds = 0
        """Turns that were continued."""
        self._hidden: list[bytes] = []
        self._broken = False

    @property
    def keep_alive(self) -> bytes:
        """Bytes that may go to the client while nothing else does."""
        return b"" if self._broken else self._answer.keep_alive

    @property
    def holding(self) -> bool:
        """Something is held back, so a keep-alive is due after a while."""
        return not self._broken and (self.rounds > 0 or self._answer.holding)

    def feed(self, data: bytes) -> bytes:
        """Bytes of the current turn in, bytes for the client out. Never raises."""
        if self._broken:
            return data
        try:
            return self._answer.feed(data)
        except Exception as error:
            _log.error("penumbra: an answer goes on as it comes: %s", place(error))
            self._broken = True
            return data

    def end_turn(self) -> Ask | Done:
        """The upstream's answer has ended."""
        if self._broken:
            return Done(b"", sound=False)
        turn = self._answer.end_turn()
        self.turns.append(turn)
        if not turn.finished or turn.failed:
            return self._broken_off(turn)
        if not turn.phantoms or not turn.continuable:
            return self._done(turn)
        return Ask(turn.phantoms, refused=self.rounds >= ROUNDS)

    def answered(self, texts: Sequence[str]) -> Continue | Done:
        """Go on with the texts for the calls of an Ask."""
        turn = self.turns[-1]
        results = [self._wire.result(call, text) for call, text in zip(turn.phantoms, texts, strict=True)]
        if turn.real_calls:
            return self._done(turn, tuple(results))
        self._hidden += self._wire.continuation(turn, results)
        if self.rounds > ROUNDS + 1:
            return self._done(Turn(finished=True))
        messages = self._wire.continuation(turn, results)
        self.request = self._wire.extended(self.request, messages, turn.answer_id)
        if self.rounds == ROUNDS + 1:
            self.request = self._wire.without_calls(self.request)
        self.rounds += 1
        return Continue(self._answer.go_on(), self.request)

    def failed(self, failure: Failure) -> Done:
        """The continuation can't be had."""
        out = b"" if self._broken else self._answer.fail(failure)
        return Done(out, sound=False, status=failure.status or 502)

    def interrupted(self) -> Done:
        """The client went away: what it has got of the answer."""
        if not self._broken:
            self.turns.append(self._answer.end_turn())
        last = self.turns[-1] if self.turns else Turn()
        text = "".join(turn.text for turn in self.turns)
        return Done(b"", last.real_calls, text, tokens=last.tokens, sound=False)

    def again(self) -> None:
        """The continuation is asked for again; the client has seen nothing of it."""
        self._answer.restart()

    def _broken_off(self, turn: Turn) -> Done:
        if turn.failed or not self.rounds:
            return Done(self._answer.finish(), sound=False)
        return self.failed(Failure(None, b"", "the upstream ended its answer early"))

    def _done(self, turn: Turn, results: tuple[bytes, ...] = ()) -> Done:
        """The end; `turn` is the last one that later requests are to know of."""
        calls = self.turns[-1].real_calls
        text = "".join(each.text for each in self.turns)
        if not calls and not text.strip() and self.rounds > ROUNDS:
            message = "the model asked for shortened results only, again and again"
            return self.failed(Failure(None, b"", message))
        hidden = None
        if (self._hidden or results) and (results or not turn.phantoms):
            shown = any(each.signatures for each in self.turns)
            hidden = Hidden(tuple(self._hidden), turn.message, results, shown)
        signed = [number for number, each in enumerate(self.turns) if each.signatures]
        signature = self.turns[signed[-1]].signatures[-1] if signed else ""
        late = bool(signed and signed[-1])
        ids = tuple(each.answer_id for each in self.turns)
        out, last = self._answer.finish(), self.turns[-1]
        done = Done(out, calls, text, hidden, signature, late, ids)
        return replace(done, made=last.made, tokens=last.tokens, item=last.item)
