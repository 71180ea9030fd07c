"""A result that is identical to an earlier one of the same request becomes a reference to it.

A pure function of the request: the referent always stands earlier in what is sent. Identity is
that of the text as the client sent it, so two results that differ only in a secret differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Earlier:
    """A text that stands in full, or in its own shortened form, earlier in the request."""

    call_id: str
    tool: str
    complete: bool
    """Nothing was left out of it."""


@dataclass(slots=True)
class Seen:
    """The texts of one request so far, by digest."""

    _unique: frozenset[str]
    _texts: dict[bytes, Earlier] = field(default_factory=dict)

    @classmethod
    def of(cls, call_ids: Iterable[str]) -> Seen:
        """`call_ids`: one entry for every text of the request. Only an id that occurs once names a text."""
        counts = Counter(call_ids)
        return cls(frozenset(name for name, count in counts.items() if name and count == 1))

    def note(self, digest: bytes, earlier: Earlier) -> None:
        """A text was put into the request, other than as a reference; the first one counts."""
        if earlier.call_id in self._unique and _printable(earlier):
            self._texts.setdefault(digest, earlier)

    def find(self, digest: bytes) -> Earlier | None:
        """The earlier text with this digest."""
        return self._texts.get(digest)


def marker(earlier: Earlier) -> str:
    """What stands for the later text."""
    return f"[Duplicate of {earlier.call_id} ({earlier.tool}); see earlier result]"


def _printable(earlier: Earlier) -> bool:
    return bool(earlier.tool) and (earlier.call_id + earlier.tool).isprintable()
