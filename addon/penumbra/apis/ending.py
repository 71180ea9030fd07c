"""What a response says of itself: the model that made it, and why it stopped. Names, never content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import Raw

from penumbra.wire.document import Document

_MOST = 16
"""Reasons that are kept of one response."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Of one turn. What is not known is empty."""

    model: str = ""
    reasons: tuple[str, ...] = ()
    """By the provider's names, one for each choice."""


NOT_READ = Ending()


@dataclass(frozen=True, slots=True)
class EndingTable:
    """Where an API writes them, from the object that also holds the figures."""

    reasons: tuple[tuple[str, ...], ...]
    """Paths to a string; the first that there is counts."""
    model: str = "model"
    choices: str = ""
    """The list whose items have reasons, each its own."""


class EndingReader:
    """State: what the events of one turn have said so far."""

    def __init__(self, table: EndingTable) -> None:
        self._table = table
        self._model = ""
        self._reasons: dict[int, str] = {}

    def note(self, document: Document, owner: Raw | None) -> None:
        """What an object says; later words of one choice count."""
        members = document.members(owner)
        self._model = document.string(members.get(self._table.model)) or self._model
        for number, holder in self._holders(document, owner, members):
            for path in self._table.reasons:
                if reason := document.string(_at(document, holder, path)):
                    if number in self._reasons or len(self._reasons) < _MOST:
                        self._reasons[number] = reason
                    break

    def ending(self) -> Ending:
        """What is known now."""
        return Ending(self._model, tuple(reason for _, reason in sorted(self._reasons.items())))

    def _holders(
        self, document: Document, owner: Raw | None, members: dict[str, Raw]
    ) -> Iterator[tuple[int, Raw | None]]:
        """What has a reason, by the number of its choice."""
        if not self._table.choices:
            yield 0, owner
            return
        for place, choice in enumerate(document.items(members.get(self._table.choices))):
            index = document.plain(document.members(choice).get("index"))
            yield index if isinstance(index, int) else place, choice


def _at(document: Document, owner: Raw | None, path: tuple[str, ...]) -> Raw | None:
    for name in path:
        owner = document.members(owner).get(name)
    return owner
