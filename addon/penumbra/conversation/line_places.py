"""Where each line of many texts stands.

There are as many places as there are lines in all conversations under way, and most are never looked up. So
of a line it is noted in which texts it stands, for all lines of a text at once; where in a text, only once
one of its lines is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")
_TELLING = 12
"""Characters that a line must have (blanks aside) to be looked up."""
_MOST = 12
"""Places of one line that are told: so many of the first and of the latest ones."""


def is_telling(line: str) -> bool:
    """Whether a line is worth looking up."""
    return len(line) >= _TELLING and len(line.strip()) >= _TELLING


@dataclass(slots=True)
class _Placed(Generic[T]):
    text: T
    lines: Sequence[str | None]
    _positions: dict[str, list[int]] | None = None

    def positions(self, line: str) -> list[int]:
        """Where a line stands in the text, in order."""
        if self._positions is None:
            self._positions = {}
            for position, other in enumerate(self.lines):
                if other is not None:
                    self._positions.setdefault(other, []).append(position)
        return self._positions[line]


@dataclass(slots=True)
class LinePlaces(Generic[T]):
    """The places of the telling lines of some texts."""

    first: dict[str, int] = field(default_factory=dict)
    """By line, the number of the first text that it stands in."""
    _others: dict[str, list[int]] = field(default_factory=dict)
    """The numbers of the texts behind that one."""
    _texts: list[_Placed[T]] = field(default_factory=list)

    def note(self, text: T, lines: Sequence[str | None]) -> None:
        """Add a text. `lines` are not to be changed; None for those that are not looked up."""
        number = len(self._texts)
        self._texts.append(_Placed(text, lines))
        # `is_telling`, for every line of every text.
        telling = {
            line
            for line in lines
            if line is not None and len(line) >= _TELLING and len(line.strip()) >= _TELLING
        }
        again = telling & self.first.keys()
        for line in again:
            self._others.setdefault(line, []).append(number)
        self.first.update(dict.fromkeys(telling - again, number))

    def latest_first(self, line: str | None) -> Iterator[tuple[T, int]]:
        """The first and the latest places of a line, text and position, the latest one first."""
        first = None if line is None else self.first.get(line)
        if line is None or first is None:
            return
        others = self._others.get(line, [])
        latest = self._beginning(line, chain(reversed(others), [first]), latest=True)
        early = self._beginning(line, chain([first], others), latest=False) if len(latest) == _MOST else []
        for number, position in [*latest, *reversed([place for place in early if place < latest[-1]])]:
            yield self._texts[number].text, position

    def _beginning(self, line: str, numbers: Iterable[int], *, latest: bool) -> list[tuple[int, int]]:
        """The first places of a line in texts of these numbers. `latest`: each text read from its end."""
        places: list[tuple[int, int]] = []
        for number in numbers:
            positions, room = self._texts[number].positions(line), _MOST - len(places)
            found = reversed(positions[-room:]) if latest else positions[:room]
            places += [(number, position) for position in found]
            if len(places) == _MOST:
                break
        return places
