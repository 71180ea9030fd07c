"""The forms of a conversation's results, remembered: what got its form a turn ago is not gone through again.

What is remembered of the first messages is taken only where going through them would make the same: the same
results, with the very decisions of the past that they had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, is_

from penumbra.conversation.earlier_texts import EarlierTexts, TextsSoFar
from penumbra.conversation.items import Item
from penumbra.conversation.model import Shown
from penumbra.store.decisions import Decision
from penumbra.wire.document import Edit

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
