"""What placeholders stand for: in memory only, apart for each conversation, and bounded."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MAX_SCOPES = 256
MAX_READS = 2_000
"""Results of one scope."""
MAX_CHARACTERS = 1_000_000
"""Characters of all values of one scope."""
_LONGEST_LINE = 1_000
"""Characters: agents cut longer lines, and a value that was cut is another value."""
_NUMBERED = re.compile(r"\n[ \t]*[0-9]+[ \t]*[\t:|\u2192]")


@dataclass(frozen=True, slots=True)
class Read:
    """One result: the file that it shows, and the values that were taken out of it."""

    path: str
    values: Mapping[str, str]
    """Placeholder -> value. Secret."""

    @property
    def characters(self) -> int:
        return sum(map(len, self.values.values()))


@dataclass(slots=True)
class _Scope:
    reads: OrderedDict[bytes, Read] = field(default_factory=OrderedDict)
    characters: int = 0


class Values:
    """Placeholder -> value for each file: what may be put back into the edits of one response."""

    def __init__(self, reads: Iterable[Read] = ()) -> None:
        """Two values with one fingerprint: neither may be written in the other's place."""
        self._by_path: dict[str, dict[str, str]] = {}
        every: dict[str, str] = {}
        clashing: set[str] = set()
        for read in reads:
            for mark, value in read.values.items():
                if every.setdefault(mark, value) != value:
                    clashing.add(mark)
                if read.path:
                    self._by_path.setdefault(read.path, {})[mark] = value
        for values in self._by_path.values():
            for mark in clashing:
                values.pop(mark, None)
        self._known = frozenset(mark for values in self._by_path.values() for mark in values)

    def __contains__(self, mark: str) -> bool:
        """Some file has a value for this placeholder."""
        return mark in self._known

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, path: str) -> Mapping[str, str]:
        """Placeholder -> value, of the values that were read from this very file."""
        return self._by_path.get(path, {})

    def every(self) -> dict[str, str]:
        """Placeholder -> value, of all files."""
        return {mark: value for values in self._by_path.values() for mark, value in values.items()}

    def __repr__(self) -> str:
        return f"<Values of {len(self._by_path)} files>"


class Vault:
    """What was read in each conversation. Safe between threads.

    The oldest scopes, and the oldest results of a scope, are forgotten first. Nothing of it is ever
    written anywhere; `repr` tells sizes only.
    """

    def __init__(
        self, *, scopes: int = MAX_SCOPES, reads: int = MAX_READS, characters: int = MAX_CHARACTERS
    ) -> None:
        self._scopes: OrderedDict[bytes, _Scope] = OrderedDict()
        self._most_scopes = scopes
        self._most_reads = reads
        self._most_characters = characters
        self._lock = threading.Lock()

    def has(self, scope: bytes, key: bytes) -> bool:
        """Whether the result of this key was kept."""
        with self._lock:
            room = self._scopes.get(scope)
            return room is not None and key in room.reads

    def keep(self, scope: bytes, key: bytes, path: str, values: Mapping[str, str]) -> None:
        """Keeps what a scan took out of a result that shows the file `path` (empty: no file)."""
        with self._lock:
            room = self._scopes.setdefault(scope, _Scope())
            self._scopes.move_to_end(scope)
            if key in room.reads:
                return
            read = room.reads[key] = Read(path, dict(values))
            room.characters += read.characters
            while room.reads and (
                len(room.reads) > self._most_reads or room.characters > self._most_characters
            ):
                _, oldest = room.reads.popitem(last=False)
                room.characters -= oldest.characters
            while len(self._scopes) > self._most_scopes:
                self._scopes.popitem(last=False)

    def values(self, scope: bytes, keys: Iterable[bytes]) -> Values:
        """What was read in the results of these keys."""
        with self._lock:
            room = self._scopes.get(scope)
            reads = [room.reads[key] for key in keys if key in room.reads] if room else []
        return Values(reads)

    def __repr__(self) -> str:
        return f"<Vault of {len(self._scopes)} scopes>"


def exact(values: Mapping[str, str], text: str) -> dict[str, str]:
    """Those values of a scanned text that are beyond doubt spelt as in the file that the text shows.

    Left out: what a tool may have cut, numbered, coloured, or escaped for a JSON document of its own.
    """
    is_json = text.lstrip()[:1] in ("{", "[")
    return {
        mark: value
        for mark, value in values.items()
        if max(map(len, value.split("\n"))) <= _LONGEST_LINE
        and "\x1b" not in value
        and "[REDACTED:" not in value
        and not _NUMBERED.search(value)
        and not (is_json and "\\" in value)
    }
