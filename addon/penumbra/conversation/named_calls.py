"""Which of several calls of one name a reference means.

A bare name means the last call of that name in front of the result that says it. Where that is another one,
calls are counted from the first: later calls don't change it. What would have to be counted far is not
referred to, nor where the first of them may not stand there for as long as the reference does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

_FARTHEST = 9
"""Calls that are counted."""
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


@dataclass(slots=True)
class NamedCall:
    """One call of a name."""

    key: bytes
    text: bytes
    """Key of the call whose result this one's is a duplicate of; else its own."""
    lasts: bool
    """Its result can be referred to, and stays as it is then."""
    shown: list[tuple[int, int]] = field(default_factory=list)
    """(first, last) number of the lines of a file that its result shows."""


@dataclass(frozen=True, slots=True)
class Name:
    """How a reference names a call."""

    name: str
    keys: frozenset[bytes]
    """What has to stand there for that to be so."""


@dataclass(slots=True)
class NamedCalls:
    """The calls of one request so far, by name."""

    _calls: dict[str, list[NamedCall]] = field(default_factory=dict)
    _places: dict[bytes, tuple[str, int]] = field(default_factory=dict)

    def note(self, key: bytes, name: str, same_as: bytes, *, lasts: bool) -> None:
        """One more call. `same_as`: key of the one that its result is a duplicate of; empty if it is none."""
        calls = self._calls.setdefault(name, [])
        self._places[key] = (name, len(calls))
        calls.append(NamedCall(key, same_as or key, lasts))

    def note_lines(self, name: str, first: int, last: int) -> None:
        """The last call of this name shows these lines of a file."""
        self._calls[name][-1].shown.append((first, last))

    def last(self, name: str) -> bytes | None:
        """The key of the text that the last call of this name showed; None if there is none."""
        calls = self._calls.get(name)
        return calls[-1].text if calls else None

    def name(self, key: bytes) -> Name | None:
        """How a whole result is named; None if it can't be."""
        name, place = self._places[key]
        text = self._calls[name][place].text
        return self._name(key, lambda call: call.text != text)

    def name_of_lines(self, key: bytes, first: int, last: int) -> Name | None:
        """How these lines of a file are named: a later call that does not show them can't be meant."""
        return self._name(key, lambda call: any(start <= last and first <= end for start, end in call.shown))

    def name_of_part(self, key: bytes) -> Name | None:
        """How a part of a result is named."""
        return self._name(key, lambda call: True)

    def _name(self, key: bytes, is_rival: Callable[[NamedCall], bool]) -> Name | None:
        """`is_rival`: whether a later call of the name might be taken for it."""
        name, place = self._places[key]
        calls = self._calls[name]
        if not any(map(is_rival, calls[place + 1 :])):
            return Name(name, frozenset({key}))
        if place >= _FARTHEST or not calls[0].lasts:
            return None
        return Name(
            f"{name} (the {place + 1}{_ENDINGS.get(place + 1, 'th')})", frozenset({key, calls[0].key})
        )
