"""A read request, rewritten: decisions in, edits on its document and new decisions out.

May run outside of the event loop. Nothing here looks anything up: whoever does I/O has done so.

What got its form a turn ago is not gone through again. What is remembered of the first messages is taken only
where going through them would make the same: the same results, with the very decisions of the past that they
had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, is_

from penumbra.apis.parts import ResultText
from penumbra.compress.result import Redacted
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Decider, Inputs
from penumbra.conversation.earlier_texts import EarlierTexts, TextsSoFar
from penumbra.conversation.items import Item, Searched
from penumbra.conversation.model import Request, Rewritten, Shown
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Edit
from penumbra.wire.value_memory import Fold

_CALL_ID = attrgetter("result.call_id")
_ITEM_BYTES = 1_000
"""What a result takes here, roughly, beside its form."""


@dataclass(slots=True)
class Forms:
    """The results of the first messages, and what became of them."""

    texts: TextsSoFar
    items: list[Item] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    """Of the edits: in which message each is."""
    starts: list[int] = field(default_factory=list)
    """Where the messages stood when the edits were made."""
    size: int = 0
    """Bytes of the edits, roughly."""
    unedited: int = 0
    """How many of the edits are not made in the document yet: those that were remembered."""
    settled: int = 0
    """So many of what is shown, from the first on, is not new."""

    def copy(self) -> Forms:
        """Another one, for a later request: nothing in it is new."""
        return Forms(
            self.texts.copy(),
            self.items.copy(),
            self.keys.copy(),
            self.decisions.copy(),
            self._shown_again(),
            self.edits.copy(),
            self.turns.copy(),
            self.starts.copy(),
            self.size,
            len(self.edits),
            len(self.shown),
        )

    def _shown_again(self) -> list[Shown]:
        """What is shown, of which nothing is new any more."""
        last = self.shown[self.settled :]
        again = [replace(shown, new=False) if shown.new else shown for shown in last]
        return [*self.shown[: self.settled], *again]

    def weigh(self) -> int:
        """Bytes that it takes, roughly."""
        return self.size + _ITEM_BYTES * (1 + len(self.items))

    def fits(self, items: tuple[Item, ...], past: Mapping[bytes, Decision], texts: EarlierTexts) -> bool:
        """Whether a request with these results would come to the same."""
        count = len(self.items)
        return (
            len(items) >= count
            and all(map(is_, items, self.items))
            and (len(items) == count or items[count].result.turn >= len(self.starts))
            and all(map(is_, map(past.get, self.keys), self.decisions))
            and texts.tells_apart_as(self.texts, list(map(_CALL_ID, self.items)))
        )

    def edit(self, edits: list[Edit], starts: Sequence[int]) -> None:
        """Make the edits that were remembered. `starts`: where the messages begin."""
        if not self.unedited:
            return
        count = len(self.starts)
        if (now := list(starts[:count])) != self.starts:
            moved = [new - old for new, old in zip(now, self.starts, strict=True)]
            self.edits = [
                Edit(start + moved[turn], end + moved[turn], data)
                for turn, (start, end, data) in zip(self.turns, self.edits, strict=True)
            ]
            self.starts = now
        edits += self.edits
        self.unedited = 0

    def note(self, item: Item, decision: Decision, shown: Shown, edits: list[Edit]) -> None:
        """The next result. `edits`: those that gave it its form."""
        self.items.append(item)
        self.keys.append(item.key)
        self.decisions.append(decision)
        self.shown.append(shown)
        self.edits += edits
        self.turns += [item.result.turn] * len(edits)
        self.size += 2 * sum(len(edit.data) for edit in edits)


def rewrite(
    inputs: Inputs, line_indexes: LineIndexes, edited_calls: frozenset[str] = frozenset()
) -> Rewritten:
    """The request as it is to be sent.

    `line_indexes` keep what was learned of conversations under way. `edited_calls`: ids of calls whose
    arguments are not all there. Raises RedactionError; on any other failure of a stage the text stays as it
    came.
    """
    request = inputs.request
    earlier = EarlierTexts(
        request, line_indexes, edited_calls, inputs.held, inputs.clean, inputs.show, inputs.shown
    )
    decider = Decider(inputs, earlier)
    shown = _remembered(inputs, decider) if _may_remember(inputs, earlier) else []
    for item in request.items[len(shown) :]:
        shown.append(_put(inputs, decider, item)[1])
    for other in request.searched:
        shown += _search(inputs, decider, other)
    decider.earlier.give_back()
    return Rewritten(request.document.render(), tuple(shown), decider.decisions, decider.originals)


def _put(inputs: Inputs, decider: Decider, item: Item) -> tuple[Decision, Shown]:
    """The next result gets its form."""
    decider.earlier.note_call(item.result)
    decision, new = decider.decide(item)
    text = item.text if decision.text is None else decision.text
    if text != item.text:
        _replace(inputs.request, item.result, text)
    decider.earlier.note(item, text, decision.facts, new=new)
    return decision, Shown(item, decision.facts, new, inputs.show)


def _may_remember(inputs: Inputs, earlier: EarlierTexts) -> bool:
    """Whether the form of a result that was decided about depends on what stands before it alone."""
    is_bound = inputs.references is not None or inputs.stays_bound
    return is_bound and not (inputs.planned or inputs.reopened) and earlier.is_simple


def _remembered(inputs: Inputs, decider: Decider) -> list[Shown]:
    """The results of all messages get their forms: those that had them a turn ago from memory."""
    request, earlier = inputs.request, decider.earlier
    document, messages, items = request.document, request.conversation.messages, request.items
    if (starts := document.starts(messages)) is None:
        return []

    def step(forms: Forms, turn: int) -> None:
        forms.edit(document.edits, starts)
        earlier.go_on_from(forms.texts)
        forms.starts.append(starts[turn])
        while len(forms.items) < len(items) and items[len(forms.items)].result.turn == turn:
            item, before = items[len(forms.items)], len(document.edits)
            decision, shown = _put(inputs, decider, item)
            forms.note(item, decision, shown, document.edits[before:])
        forms.texts = earlier.so_far()

    fold = Fold(
        lambda: Forms(earlier.so_far()),
        Forms.copy,
        "forms",
        inputs.show,
        lambda forms: forms.fits(items, inputs.past, earlier),
    )
    forms = document.folded(messages, len(starts), fold, step)
    forms.edit(document.edits, starts)
    earlier.go_on_from(forms.texts)
    return forms.shown


def undecided(request: Request, past: Mapping[bytes, Decision]) -> list[Item]:
    """The items that `rewrite` would decide about."""
    inputs = Inputs(request, past, lambda text, hint: Redacted(text), None)
    decider = Decider(inputs, EarlierTexts(request, LineIndexes()))
    items: list[Item] = []
    for item in request.items:
        decider.earlier.note_call(item.result)
        if decider.is_open(item):
            items.append(item)
        decider.earlier.note_form(item, past[item.key].facts if item.key in past else Facts())
    return items


def _replace(request: Request, result: ResultText, text: str) -> None:
    document = request.document
    if result.part is None:
        document.replace(result.value, text)
    else:
        document.replace_part(result.value, *result.part, text)


def _search(inputs: Inputs, decider: Decider, other: Searched) -> list[Shown]:
    """Take the secrets out of what is not shortened."""
    request = inputs.request
    decision = inputs.past.get(other.key) or decider.decisions.get(other.key)
    new = decision is None
    if decision is None:
        seen = other.turn >= decider.last_decided
        may_keep = seen and inputs.unsaid is None
        if may_keep and other.keeps_secrets(request.settings.adopt, request.conversation, request.api.format):
            return []
        decision = decider.decisions[other.key] = other.redacted(request.document, inputs.redact)
    other.edit(request.document, decision)
    return [Shown(_item(other), decision.facts, new, inputs.show)] if decision.text is not None else []


def _item(other: Searched) -> Item:
    """What logs and metrics show of it."""
    return Item(ResultText(other.value, "", other.call, False, other.turn), "", b"", other.key)
