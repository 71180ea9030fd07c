"""The forms of a conversation's results, remembered: what got its form a turn ago is not gone through again.

What is remembered of the first messages is taken only where going through them would make the same: the same
results, with the very decisions of the past that they had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import is_

from penumbra.conversation.earlier_texts import EarlierTexts, TextsSoFar
from penumbra.conversation.items import Item
from penumbra.conversation.model import Shown
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document
from penumbra.wire.edits import Edit

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
    edits: list[tuple[int, Edit]] = field(default_factory=list)
    """Each with the index of its message, and its place within that."""
    messages: int = 0
    """How many there were."""
    from_past: bool = True
    """Every form was decided in the past."""
    size: int = 0
    """Bytes of the edits, roughly."""
    unedited: int = 0
    """How many of the edits are not made in the document yet: those that were remembered."""

    def copy(self) -> Forms:
        """Another one, for another document."""
        return Forms(
            self.texts.copy(),
            self.items.copy(),
            self.keys.copy(),
            self.decisions.copy(),
            self.shown.copy(),
            self.edits.copy(),
            self.messages,
            self.from_past,
            self.size,
            len(self.edits),
        )

    def weigh(self) -> int:
        """Bytes that it takes, roughly."""
        return self.size + _ITEM_BYTES * (1 + len(self.items))

    def fits(self, items: tuple[Item, ...], past: Mapping[bytes, Decision], texts: EarlierTexts) -> bool:
        """Whether a request with these results would come to the same."""
        count = len(self.items)
        return (
            self.from_past
            and len(items) >= count
            and all(map(is_, items, self.items))
            and (len(items) == count or items[count].result.turn >= self.messages)
            and all(map(is_, map(past.get, self.keys), self.decisions))
            and texts.tells_apart_as(self.texts, {item.result.call_id for item in self.items})
        )

    def edit(self, document: Document, starts: Callable[[int], int]) -> None:
        """Make the edits that were remembered. `starts`: where a message begins, by its index."""
        for index, edit in self.edits[: self.unedited]:
            start = starts(index)
            document.edits.append(Edit(start + edit.start, start + edit.end, edit.data))
        self.unedited = 0

    def note(self, item: Item, decision: Decision, shown: Shown, edits: list[Edit], start: int) -> None:
        """The next result. `edits`: those that gave it its form; `start`: where its message begins."""
        self.items.append(item)
        self.keys.append(item.key)
        self.decisions.append(decision)
        self.shown.append(shown)
        self.from_past = self.from_past and not shown.new
        for edit in edits:
            place = Edit(edit.start - start, edit.end - start, edit.data)
            self.edits.append((item.result.turn, place))
            self.size += 2 * len(edit.data)
