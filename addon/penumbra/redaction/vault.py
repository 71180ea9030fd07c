"""What placeholders stand for: in memory only, apart for each scope, and bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from penumbra.redaction.placeholder import PATTERN

MAX_SCOPES = 256
MAX_VALUES = 2_000
"""Placeholders of one scope."""
MAX_CHARACTERS = 1_000_000
"""Characters of all values of one scope."""


@dataclass(slots=True)
class _Entry:
    value: str
    paths: set[str]


@dataclass(slots=True)
class _Scope:
    entries: OrderedDict[str, _Entry] = field(default_factory=OrderedDict)
    characters: int = 0


class Vault:
    """Placeholder -> value, with the files that the value was read from. Safe between threads.

    The oldest scopes, and the oldest values of a scope, are forgotten first. Nothing of it is
    ever written anywhere; `repr` tells sizes only.
    """

    def __init__(
        self, *, scopes: int = MAX_SCOPES, values: int = MAX_VALUES, characters: int = MAX_CHARACTERS
    ) -> None:
        self._scopes: OrderedDict[str, _Scope] = OrderedDict()
        self._most_scopes = scopes
        self._most_values = values
        self._most_characters = characters
        self._lock = threading.Lock()

    def remember(self, scope: str, values: Mapping[str, str], path: str = "") -> None:
        """Keeps what a scan replaced in a text that was read from `path` (empty: from no file)."""
        if not values:
            return
        with self._lock:
            room = self._scopes.setdefault(scope, _Scope())
            self._scopes.move_to_end(scope)
            for placeholder, value in values.items():
                self._keep(room, placeholder, value, path)
            while len(self._scopes) > self._most_scopes:
                self._scopes.popitem(last=False)

    def _keep(self, room: _Scope, placeholder: str, value: str, path: str) -> None:
        entry = room.entries.get(placeholder)
        if entry is None:
            entry = room.entries[placeholder] = _Entry(value, set())
            room.characters += len(value)
        elif entry.value != value:
            # Two values with one fingerprint: neither may be written in the other's place.
            entry.paths.clear()
            return
        room.entries.move_to_end(placeholder)
        if path:
            entry.paths.add(path)
        while room.entries and (
            len(room.entries) > self._most_values or room.characters > self._most_characters
        ):
            _, oldest = room.entries.popitem(last=False)
            room.characters -= len(oldest.value)

    def for_path(self, scope: str, path: str) -> dict[str, str]:
        """Placeholder -> value, of the values that were read from this very path in this scope."""
        if not path:
            return {}
        with self._lock:
            room = self._scopes.get(scope)
            entries = room.entries.items() if room else ()
            return {placeholder: entry.value for placeholder, entry in entries if path in entry.paths}

    def placeholders(self, scope: str, text: str) -> dict[str, str]:
        """`text` is asked for by value: value -> placeholder, of the values that stand in it."""
        with self._lock:
            room = self._scopes.get(scope)
            entries = list(room.entries.items()) if room else []
        return {entry.value: placeholder for placeholder, entry in entries if entry.value in text}

    def hide(self, scope: str, text: str) -> str:
        """The text with every value that the scope knows turned back into its placeholder."""
        known = self.placeholders(scope, text)
        for value in sorted(known, key=lambda value: (-len(value), value)):
            text = text.replace(value, known[value])
        return text

    def knows(self, scope: str, text: str) -> set[str]:
        """The placeholders in a text that the scope has a value for."""
        with self._lock:
            room = self._scopes.get(scope)
            return {mark for mark in PATTERN.findall(text) if room and mark in room.entries}

    def forget(self, scope: str) -> None:
        """Drops all of a scope."""
        with self._lock:
            self._scopes.pop(scope, None)

    def __repr__(self) -> str:
        return f"<Vault of {len(self._scopes)} scopes>"
