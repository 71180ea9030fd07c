"""A result that is identical to an earlier one of the same request becomes a reference to it.

A pure function of the request: the referent always stands earlier in what is sent. Identity is
that of the text as the client sent it, so two results that differ only in a secret differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from penumbra.shadow.ledger import Facts
from penumbra.text.result import Loss

RESTATE = "restate"
"""The stage that says parts of a text by reference to earlier ones."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A text that stands earlier in the request, in full or in its own shortened form."""

    key: bytes
    call_id: str
    tool: str
    complete: bool
    """Nothing was left out of it."""


@dataclass(slots=True)
class Seen:
    """The texts of one request so far, as far as later ones may refer to them."""

    _unique: frozenset[str]
    _by_digest: dict[bytes, Earlier] = field(default_factory=dict)
    _by_key: dict[bytes, Earlier] = field(default_factory=dict)
    _keys: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, call_ids: Iterable[str]) -> Seen:
        """`call_ids`: one entry for every text of the request. Only an id that occurs once names a text."""
        counts = Counter(call_ids)
        return cls(frozenset(name for name, count in counts.items() if name and count == 1))

    def note(self, digest: bytes, key: bytes, call_id: str, tool: str, facts: Facts) -> None:
        """A text was put into the request. Of identical ones the first counts; a reference is no text."""
        if facts.how == "duplicate" or call_id not in self._unique:
            return
        if not tool or not (call_id + tool).isprintable() or " " in call_id:
            return
        earlier = Earlier(key, call_id, tool, facts.loss < Loss.LOSSY)
        if facts.how not in ("superseded", "recovered"):
            # Too little is left of those to refer to; what refers to them already keeps doing so.
            self._by_digest.setdefault(digest, earlier)
        self._by_key[key] = earlier
        self._keys[call_id] = key

    def find(self, digest: bytes) -> Earlier | None:
        """The earlier text with this digest."""
        return self._by_digest.get(digest)

    def holds(self, facts: Facts) -> bool:
        """Whether what a text of the past refers to still stands earlier in the request.

        Where parts of a referent are referred to, all of it must be there.
        """
        is_there = self.is_referable if RESTATE in facts.stages else self._by_key.__contains__
        return all(is_there(bytes.fromhex(key)) for key in facts.referents)

    def is_referable(self, key: bytes) -> bool:
        """Whether parts of the text with this key can be referred to: all of it is there."""
        earlier = self._by_key.get(key)
        return earlier is not None and earlier.complete

    def key_of(self, call_id: str) -> bytes:
        """The key of the text that a call id names."""
        return self._keys[call_id]


def marker(earlier: Earlier) -> str:
    """What stands for the later text."""
    return f"[Duplicate of {earlier.call_id} ({earlier.tool}); see earlier result]"
