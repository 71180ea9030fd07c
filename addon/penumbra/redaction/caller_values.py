"""This module keeps the redacted secrets of each caller, and finds them in later texts of the caller.

Only values of 8 to 16,384 bytes that are secrets in any text, and are no numbers, are searched for. A value
such as `postgres`, which is a secret only after a name, is not searched for.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType

import ahocorasick_rs
from cachetools import LRUCache

from penumbra.compress.result import Redacted
from penumbra.redaction import placeholder
from penumbra.redaction.redactor import Scan
from penumbra.redaction.span import is_part
from penumbra.redaction.values import has_shape
from penumbra.store.decisions import KNOWN_VALUE
from penumbra.wire.json_values import encode

_CALLERS = 1_000
_VALUES = 2_000
"""The greatest number of values of one caller."""
_BYTES = 1_000_000
"""The greatest number of bytes of all values of one caller."""
_LEAST, _MOST = 8, 16_384
"""The smallest and the greatest number of bytes of one value."""
_MADE = 1_000
"""The greatest number of remembered placeholders of one caller."""
_NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class _Known:
    """A `_Known` has one caller's values and their first placeholders. The least recently learned is
    first."""

    marks: OrderedDict[bytes, bytes] = field(default_factory=OrderedDict)
    made: LRUCache[str, bool] = field(default_factory=lambda: LRUCache(_MADE))
    """The placeholders that replaced secrets of the caller."""
    size: int = 0
    version: int = 0
    """A number that changes whenever the values change."""
    automaton: tuple[ahocorasick_rs.BytesAhoCorasick, list[bytes]] | None = None
    """An automaton for all spellings of the values, and each spelling's placeholder; None after a change."""


class CallerValues:
    """A `CallerValues` keeps the values of each caller, only in memory. The least recently learned values are
    forgotten first. Several threads may use a `CallerValues`."""

    def __init__(self, callers: int = _CALLERS, values: int = _VALUES, size: int = _BYTES) -> None:
        """Keep at most `callers` callers. Each has at most `values` values and `size` bytes."""
        self._values, self._size = values, size
        self._known: LRUCache[bytes, _Known] = LRUCache(callers)
        self._versions = count(1)
        self._lock = threading.Lock()

    def learn(self, caller: bytes, found: Mapping[str, str], made: Collection[str] = ()) -> None:
        """Keep the values in `found`, which are secrets in any text, and the placeholders in `made`. The keys
        of `found` are placeholders."""
        fitting = {
            data: mark.encode("ascii")
            for mark, value in found.items()
            if _LEAST <= len(data := value.encode("utf-8", "surrogatepass")) <= _MOST
            and not has_shape(value, "number")
        }
        if not (fitting or made):
            return
        with self._lock:
            known = self._known.setdefault(caller, _Known())
            for value, mark in fitting.items():
                if value in known.marks:
                    known.marks.move_to_end(value)
                    continue
                known.marks[value] = mark
                known.size += len(value)
                known.automaton, known.version = None, next(self._versions)
            known.made.update(dict.fromkeys(made, True))
            while len(known.marks) > self._values or known.size > self._size:
                value, _ = known.marks.popitem(last=False)
                known.size -= len(value)
                known.automaton, known.version = None, next(self._versions)

    def has_made(self, caller: bytes, mark: str) -> bool:
        """Return whether a placeholder is known to have replaced a secret of this caller."""
        with self._lock:
            known = self._known.get(caller)
            return known is not None and mark in known.made

    def version(self, caller: bytes) -> bytes:
        """Return a key that changes with the known values of a caller; empty if no values are known."""
        with self._lock:
            known = self._known.get(caller)
            return b"%d:%b" % (known.version, caller) if known is not None and known.marks else b""

    def without(self, caller: bytes, text: str, counts: Mapping[str, int] = _NOTHING) -> Redacted:
        """Return a text with placeholders for the known values of a caller, plain or escaped as in JSON.
        `counts` has the numbers of secrets that were already redacted."""
        with self._lock:
            known = self._known.get(caller)
            if known is None or not known.marks:
                return Redacted(text, dict(counts))
            automaton, marks = known.automaton = known.automaton or _automaton(known.marks)
        data = text.encode("utf-8", "surrogatepass")
        taken = placeholder.spans(data)
        ends = [end for _, end in taken]
        pieces: list[bytes] = []
        at = 0
        for index, start, end in automaton.find_matches_as_indexes(data):
            following = bisect_right(ends, start)
            if is_part(data, start, end) or (following < len(taken) and taken[following][0] < end):
                continue
            pieces += (data[at:start], marks[index])
            at = end
        if not pieces:
            return Redacted(text, dict(counts))
        clean = b"".join((*pieces, data[at:])).decode("utf-8", "surrogatepass")
        return Redacted(clean, {**counts, KNOWN_VALUE: counts.get(KNOWN_VALUE, 0) + len(pieces) // 2})

    def redacting(
        self, caller: bytes, scan: Callable[[str, str], Scan], *, replaces: bool = True
    ) -> Callable[[str, str], Redacted]:
        """Return a function that redacts texts by `scan`. For a caller, the function also learns the secrets
        and, with `replaces`, redacts all known values."""

        def redact(text: str, hint: str) -> Redacted:
            found = scan(text, hint)
            if caller:
                self.learn(caller, found.sure, found.values)
            if not (caller and replaces):
                return Redacted(found.text, found.counts)
            return self.without(caller, found.text, found.counts)

        return redact


def _automaton(marks: Mapping[bytes, bytes]) -> tuple[ahocorasick_rs.BytesAhoCorasick, list[bytes]]:
    spellings = dict(marks)
    for value, mark in marks.items():
        # In a text, a value may be escaped as in JSON, or twice, as in JSON within a JSON string.
        once = encode(value.decode("utf-8", "surrogatepass"))[1:-1]
        twice = encode(once.decode("utf-8"))[1:-1]
        spellings.setdefault(once, mark)
        spellings.setdefault(twice, mark)
    automaton = ahocorasick_rs.BytesAhoCorasick(
        list(spellings),
        implementation=ahocorasick_rs.Implementation.ContiguousNFA,
        matchkind=ahocorasick_rs.MatchKind.LeftmostLongest,
    )
    return automaton, list(spellings.values())
