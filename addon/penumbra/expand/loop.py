"""The tool loop makes one response for the client from one or more turns of the provider. No I/O happens
here.

        feed ──► end_turn ──► Done      no call of the injected tool, or beside real calls: the client goes on
                    │
                   Ask ──► answered ──► Continue    the request for the next turn; feed it again
                    │               └──► Done
                 Broken ──► again                   the same request once more
                        └──► failed ──► Done        an error, or a stream that breaks off

After `ROUNDS` rounds the calls are refused. If the model still calls only the injected tool, one more request
forbids all calls, so that the model has to respond. The caller does the I/O, and may end the loop with
`failed` during a continuation. A client may repeat the visible part of a broken response in its next request,
so the hidden part is recorded for broken responses, too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penumbra.apis import upstream_error
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import ENDED_EARLY, Failure, Hidden, InjectedCall, MadeCall, Turn
from penumbra.apis.responses import Response
from penumbra.errors import place

ROUNDS = 5
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """An `Ask` has the model's calls of the injected tool. `answered` takes a text for each call."""

    calls: tuple[InjectedCall, ...]
    refused: bool
    """True if the model has asked too often. The answers must then refuse."""


@dataclass(frozen=True, slots=True)
class Continue:
    """A `Continue` is the request for the next turn."""

    out: bytes
    """The bytes for the client before that turn."""
    request: bytes


@dataclass(frozen=True, slots=True)
class Broken:
    """A `Broken` is a continuation that failed. The client does not know of the failure yet."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Done:
    out: bytes
    """The last bytes for the client; all bytes of a JSON response."""
    calls: tuple[str, ...] = ()
    text: str = ""
    hidden: Hidden | None = None
    """The hidden turns, which later requests need; None if no turn is hidden."""
    signature: str = ""
    """Signature of the last reasoning that the client got."""
    signed_late: bool = False
    """True if a hidden exchange precedes the last reasoning that the client got."""
    ids: tuple[str, ...] = ()
    made: tuple[MadeCall, ...] = ()
    """Tool calls for the store, because the client may leave them out of later requests."""
    tokens: tuple[str, ...] = ()
    """The hashes that identify the calls whose ids are missing or not unique."""
    item: str = ""
    """Id of the last output item."""
    sound: bool = True
    """True if the client got a complete message, False after an error or a broken stream."""
    status: int | None = None
    """HTTP status of an error that replaces a JSON response; None without an error."""
    broken: str = ""
    """The reason why the stream breaks off after `out`; empty if the stream ends regularly."""
    orphans: tuple[str, ...] = ()
    """Signatures of reasoning that later requests must not contain, as in `Turn.orphans`."""
    pending: tuple[bytes, ...] = ()
    """Results of the last turn's hidden calls, which the provider does not have."""


class ToolLoop:
    """A `ToolLoop` makes one response from its turns."""

    def __init__(self, wire: ApiFormat, response: Response, request: bytes) -> None:
        self._wire = wire
        self._response = response
        self.request = request
        """The last request."""
        self.turns: list[Turn] = []
        self.rounds = 0
        """The number of continuations."""
        self._hidden: list[bytes] = []
        self._pending: tuple[bytes, ...] = ()
        self._covered = 0
        """The number of turns in the hidden part."""
        self._before = request
        """The request as it was before the last continuation."""
        self._broken = False
        """True if the response can't be read, so that the client gets it unchanged."""
        self._ended: Turn | None = None
        """The current turn if it has ended; otherwise None."""
        self._shown = self._shows = False
        """`_shown` is true if the client got a part of the response, and `_shows` if it got a part of the
        current turn."""

    @property
    def keep_alive(self) -> bytes:
        """Return bytes that keep the client's connection alive."""
        return b"" if self._broken else self._response.keep_alive

    @property
    def is_delayed(self) -> bool:
        """Return whether the client needs a keep-alive, because it gets no bytes for now."""
        return not self._broken and (self.rounds > 0 or self._response.is_delayed)

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the current turn, and return bytes for the client. After a failure, these are the
        same."""
        if self._broken:
            return data
        try:
            out = self._response.feed(data)
            self._shows |= bool(out)
            self._shown |= self._shows
            return out
        except Exception as error:
            _log.error("penumbra: a response is passed on unread: %s", place(error))
            self._broken = True
            return data

    def end_turn(self) -> Ask | Broken | Done:
        if self._broken:
            return Done(b"", sound=False)
        turn = self._ended = self._response.end_turn()
        if not turn.finished or turn.failed:
            return self._broken_off(turn)
        self.turns.append(turn)
        if not turn.injected or not turn.continuable:
            return self._done(turn)
        return Ask(turn.injected, refused=self.rounds >= ROUNDS)

    def answered(self, texts: Sequence[str]) -> Continue | Done:
        """Answer the calls of an `Ask`."""
        turn = self.turns[-1]
        results = [self._wire.result(call, text) for call, text in zip(turn.injected, texts, strict=True)]
        if turn.real_calls:
            return self._done(turn, tuple(results))
        self._hidden += self._wire.continuation(turn, results)
        self._covered = len(self.turns)
        if self.rounds > ROUNDS + 1:
            return self._done(Turn(finished=True))
        self.rounds += 1
        self._before = self.request
        self._go_on_with(results)
        return Continue(self._response.go_on(), self.request)

    def reanswered(self, texts: Sequence[str]) -> Continue | None:
        """Answer the same calls with other texts, because the provider has refused the request. Return None
        if the texts are not smaller."""
        turn, refused = self.turns[-1], sum(map(len, self._pending))
        results = [self._wire.result(call, text) for call, text in zip(turn.injected, texts, strict=True)]
        messages = self._wire.continuation(turn, results)
        self._hidden[len(self._hidden) - len(messages) :] = messages
        self._go_on_with(results)
        self._response.restart()
        return Continue(b"", self.request) if sum(map(len, results)) < refused else None

    def _go_on_with(self, results: Sequence[bytes]) -> None:
        turn = self.turns[-1]
        messages = self._wire.continuation(turn, results)
        self._pending, self._ended, self._shows = tuple(results), None, False
        self.request = self._wire.extended(self._before, messages, turn.response_id)
        if self.rounds == ROUNDS + 2:
            self.request = self._wire.without_calls(self.request)

    def failed(self, failure: Failure) -> Done:
        """End the response after a continuation has failed. An error that the provider reported in a stream
        reaches the client as an error. After any other failure, the stream breaks off as if the connection
        had failed, so that clients try again."""
        if not self._wire.breaks_off:
            failure = replace(failure, reported=True)
        left = self._left()
        out = b"" if self._broken else self._response.fail(failure)
        broken = "" if failure.reported else failure.message
        return replace(left, out=out, status=upstream_error.described(failure, "").status, broken=broken)

    def interrupted(self) -> Done:
        """End the response after the client has disconnected. Return the part that the client got."""
        return self._left()

    def again(self, request: bytes = b"") -> None:
        """Begin the same continuation again, with `request` if it is not empty."""
        self.request = request or self.request
        self._ended, self._shows = None, False
        self._response.restart()

    def _broken_off(self, turn: Turn) -> Broken | Done:
        if turn.failure is not None or (self.rounds and not self._shows):
            return Broken(turn.failure or Failure(None, b"", ENDED_EARLY))
        # The client gets what the provider sent, and then the response breaks off.
        return replace(self._left(), out=self._response.finish())

    def _left(self) -> Done:
        """Return the part of an unfinished response that the client got and may send again."""
        if self._broken:
            return Done(b"", sound=False)
        ended = self._ended if self._ended is not None else self._response.end_turn()
        # A turn with unanswered hidden calls also counts as unfinished.
        last = Turn() if self.turns and ended is self.turns[-1] else ended
        turns = [*self.turns, last] if self._shown else []
        text = "".join(turn.text for turn in turns)
        answers = last.text.strip() or last.real_calls
        hidden = None
        covered = self.rounds > 0 and self._covered == len(self.turns)
        if turns and covered and (last.message or not answers):
            signed = any(turn.signatures for turn in turns)
            hidden = Hidden(tuple(self._hidden), last.message, signed=signed, broken=True)
        ours = self.rounds or any(turn.injected for turn in turns)
        orphans = _orphans(turns) if ours else ()
        calls = last.real_calls if turns else ()
        done = Done(b"", calls, text, hidden, tokens=last.tokens, sound=False, orphans=orphans)
        if not turns:
            return done
        signature, late = _signed(turns)
        ids = tuple(turn.response_id for turn in self.turns if turn.response_id)
        done = replace(done, signature=signature, signed_late=late, ids=ids, item=last.item)
        return replace(done, pending=self._pending) if covered else done

    def _done(self, turn: Turn, results: tuple[bytes, ...] = ()) -> Done:
        """Return the end of the response. `turn` is the last turn that later requests have to repeat."""
        calls = self.turns[-1].real_calls
        text = "".join(each.text for each in self.turns)
        if not calls and not text.strip() and self.rounds > ROUNDS:
            message = "the model asked for shortened results only, again and again"
            return self.failed(Failure(None, b"", message))
        hidden = None
        if (self._hidden or results) and (results or not turn.injected):
            shown = any(each.signatures for each in self.turns)
            hidden = Hidden(tuple(self._hidden), turn.message, results, shown)
        signature, late = _signed(self.turns)
        ids = tuple(each.response_id for each in self.turns)
        out, last = self._response.finish(), self.turns[-1]
        # If a later request lacks the exchange, the exchange's reasoning must be removed from the request.
        orphans = _orphans(self.turns) if hidden is not None else ()
        known = last.made, last.tokens, last.item
        return Done(out, calls, text, hidden, signature, late, ids, *known, orphans=orphans)


def _orphans(turns: Sequence[Turn]) -> tuple[str, ...]:
    return tuple(orphan for turn in turns for orphan in turn.orphans)


def _signed(turns: Sequence[Turn]) -> tuple[str, bool]:
    """Return the signature of the last reasoning of a response, and whether hidden turns precede it."""
    signed = [number for number, each in enumerate(turns) if each.signatures]
    return turns[signed[-1]].signatures[-1] if signed else "", bool(signed and signed[-1])
