"""What the client did not see is put back where its answer stands in a later request.

The provider then finds the very prefix that it has cached and that its signed reasoning is bound to,
and the model still knows what it read. An answer that is not found, or was edited, gets nothing: the
request stays as the client wrote it, and reasoning that came after the missing exchange is dropped in
the way that the API offers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penumbra.shadow import answers
from penumbra.shadow.answers import Known, Place
from penumbra.wire.answer import AnswerFormat, Hidden, Visible
from penumbra.wire.document import Document


@dataclass(frozen=True, slots=True)
class History:
    """The answers of a request, and what they are found by."""

    visible: tuple[Visible, ...]
    keys: tuple[bytes, ...]
    """One for each."""
    signed: tuple[bytes | None, ...]
    """The key of the last reasoning in each; None where there is none."""
    opening: str
    """A hash of how the conversation begins."""

    @property
    def is_elsewhere(self) -> bool:
        """The provider keeps what came before, and the request names its last answer."""
        return bool(self.visible and self.visible[0].answer_id)

    def all_keys(self) -> list[bytes]:
        """What is to be looked up."""
        return [*self.keys, *(key for key in self.signed if key is not None)]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What was put back."""

    behind: tuple[bytes, ...] = ()
    """Keys of the exchanges that now stand in the request, in order."""
    exchanges: tuple[Hidden, ...] = ()
    dropped: bool = False
    """Reasoning was dropped, or the provider was asked to drop it."""


def read(wire: AnswerFormat, document: Document, scope: bytes, opening: str) -> History:
    """The answers of a request. `opening`: a hash of how its conversation begins."""
    visible = tuple(wire.visible(document))
    keys = tuple(answers.key(scope, one, opening) for one in visible)
    signed = (answers.signature_key(scope, one.signature) if one.signature else None for one in visible)
    return History(visible, keys, tuple(signed), opening)


def next_answer(
    history: History, calls: tuple[str, ...], tokens: tuple[str, ...], text: str, start: Place
) -> Visible:
    """How an answer to this request will look in one that carries the whole history.

    `start`: where it stands if the request shows no answers itself.
    """
    last = history.visible[-1] if history.visible else None
    index = last.index + 1 if last else 0
    if last is not None and last.open:
        # It goes on from what is left of an answer that broke off.
        place = Place(last.ordinal, last.last_call, last.since)
        calls, text = last.calls + calls, last.text + text
    else:
        place = start if last is None or last.answer_id else behind(last)
    return Visible(index, place.ordinal, calls, text, place.last_call, place.since, tokens=tokens)


def behind(visible: Visible) -> Place:
    """Where the answer after this one stands."""
    last_call, since = (visible.calls[-1], 0) if visible.calls else (visible.last_call, visible.since + 1)
    return Place(visible.ordinal + 1, last_call, since)


def put_back(
    wire: AnswerFormat, document: Document, history: History, known: Mapping[bytes, Known], offered: bool
) -> Replayed:
    """Edit a request: every hidden exchange whose answer stands there unchanged.

    `offered`: the request may ask the provider to drop reasoning that is bound to something else.
    """
    behind: list[bytes] = []
    exchanges: list[Hidden] = []
    unbound: int | None = None
    for visible, one, signed in zip(history.visible, history.keys, history.signed, strict=True):
        found = known.get(one)
        if (
            found is not None
            and found.hidden is not None
            and one not in behind
            and _unchanged(visible, found)
            and wire.put_back(document, visible, found.hidden)
        ):
            behind.append(one)
            exchanges.append(found.hidden)
        bound = known.get(signed) if signed is not None else None
        if unbound is None and bound is not None and not set(bound.behind) <= set(behind):
            unbound = visible.index
    dropped = unbound is not None and wire.drop_unbound(document, unbound, offered)
    return Replayed(tuple(behind), tuple(exchanges), dropped)


def _unchanged(visible: Visible, known: Known) -> bool:
    """Clients may leave the text of an answer with calls out; another text is an edited answer."""
    return not visible.text.strip() or answers.text_hash(visible.text) == known.text
