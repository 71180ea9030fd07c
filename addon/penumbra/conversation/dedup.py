"""A result that is identical to an earlier one of the same request becomes a reference to it.

A pure function of the request: the referent always stands earlier in what is sent. Identity is
that of the text as the client sent it, so two results that differ only in a secret differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from penumbra.compress.result import Loss
from penumbra.store.decisions import Facts

BACK_REFERENCES = "back_references"
"""The stage that says parts of a text by reference to earlier ones."""
_LONGEST_TOOL = 256
"""Characters of a tool's name: APIs take none that is longer."""
LEAST = 100
"""Estimated tokens below which no text is worth a reference."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A text that stands earlier in the request, in full or in its own shortened form."""

    key: bytes
    tool: str
    complete: bool
    """Nothing was left out of it."""
    lasting: bool
    """The result keeps its form, and that form shows something of the output."""
    is_new: bool
    """The result got its form in this request."""


@dataclass(slots=True)
class Seen:
    """The texts of one request so far, as far as later ones may refer to them."""

    unique: frozenset[str]
    """Ids that occur once."""
    _by_digest: dict[bytes, Earlier] = field(default_factory=dict)
    _by_key: dict[bytes, Earlier] = field(default_factory=dict)
    _calls: set[bytes] = field(default_factory=set)
    _ambiguous: set[bytes] = field(default_factory=set)
    """Keys of results whose id has come again: what refers to them goes on doing so, nothing new does."""
    _new: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Digests and keys of the texts that got their form in this request."""

    @classmethod
    def of(cls, call_ids: Iterable[str]) -> Seen:
        """`call_ids`: one entry for every text of the request. Only an id that occurs once names a text."""
        listed = list(call_ids)
        unique = frozenset(listed)
        if len(unique) < len(listed) or not _are_plain(listed):
            counts = Counter(listed)
            unique = frozenset(one for one, count in counts.items() if _is_plain(one) and count == 1)
        return cls(unique)

    def copy(self) -> Seen:
        """An independent copy for a later request, in which nothing is new."""
        by_digest, by_key = self._by_digest.copy(), self._by_key.copy()
        for digest, key in self._new:
            if key in by_key:
                by_key[key] = replace(by_key[key], is_new=False)
            if digest in by_digest:
                by_digest[digest] = replace(by_digest[digest], is_new=False)
        return Seen(self.unique, by_digest, by_key, self._calls.copy(), self._ambiguous.copy())

    def note(
        self, digest: bytes, key: bytes, call_id: str, tool: str, facts: Facts, is_new: bool = False
    ) -> None:
        """A text was put into the request. Of identical ones the first counts; a reference is no text."""
        if facts.how == "duplicate" or not can_name(call_id, tool):
            return
        # Too little is left of those to refer to; what refers to all of them already keeps doing so.
        lasting = facts.how not in ("superseded", "recovered")
        earlier = Earlier(key, tool, facts.loss < Loss.LOSSY, lasting, is_new)
        if call_id not in self.unique:
            self._ambiguous.add(key)
        elif lasting:
            self._by_digest.setdefault(digest, earlier)
        self._by_key[key] = earlier
        if is_new:
            self._new.append((digest, key))

    def drop(self) -> None:
        """The provider drops all texts so far: none of them stands earlier than the next."""
        self._by_digest.clear()
        self._by_key.clear()
        self._calls.clear()
        self._ambiguous.clear()

    def note_held(self, digest: bytes, earlier: Earlier) -> None:
        """A text stands in a history that the provider keeps, before the request."""
        self._by_digest[digest] = self._by_key[earlier.key] = earlier

    def note_call(self, call_id: str, said: bytes) -> bytes:
        """The arguments of a call stand in the request, `said` is a hash of them: the key that they can be
        referred to by, empty if they can't."""
        if not _is_plain(call_id):
            return b""
        key = call_key(call_id, said)
        self._calls.add(key)
        return key if call_id in self.unique else b""

    def find(self, digest: bytes) -> Earlier | None:
        """The earlier text with this digest."""
        return self._by_digest.get(digest)

    def holds(self, facts: Facts) -> bool:
        """True if what a text of the past refers to still stands earlier in the request.

        Where parts of a referent are referred to, it must still show them.
        """
        is_there = self._shows_the_same if BACK_REFERENCES in facts.stages else self._by_key.__contains__
        return all(is_there(bytes.fromhex(key)) for key in facts.referents)

    def _shows_the_same(self, key: bytes) -> bool:
        """True if all that was ever referred to in the text with this key is still shown."""
        earlier = self._by_key.get(key)
        is_certain = earlier is None or earlier.complete or not earlier.is_new
        return is_certain and self._stands(key)

    def is_referable(self, key: bytes) -> bool:
        """True if parts of the text with this key can be referred to: of what it shows."""
        return key not in self._ambiguous and self._stands(key)

    def _stands(self, key: bytes) -> bool:
        earlier = self._by_key.get(key)
        return key in self._calls if earlier is None else earlier.lasting


def call_key(call_id: str, said: bytes) -> bytes:
    """The key that a call's arguments are referred to by; `said` is a hash of them."""
    return f"call {call_id} ".encode("utf-8", "surrogatepass") + said


def _is_plain(call_id: str) -> bool:
    """True if an id can stand in a reference."""
    return bool(call_id) and call_id.isprintable() and " " not in call_id


def _are_plain(call_ids: Sequence[str]) -> bool:
    """True if all of the ids can stand in a reference; faster than one by one."""
    return all(call_ids) and _is_plain("".join(call_ids) or "none")


def can_name(call_id: str, tool: str) -> bool:
    """True if a reference can name a result by its call and tool."""
    return _is_plain(call_id) and 0 < len(tool) <= _LONGEST_TOOL and tool.isprintable()


def marker(name: str) -> str:
    """The reference that replaces the later text."""
    return f"[Duplicate of {name}; see earlier result]"
