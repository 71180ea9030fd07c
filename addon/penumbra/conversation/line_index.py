"""Libraries of conversations under way, kept from turn to turn.

What a library knows is a pure function of the texts that were noted in it, so keeping it changes
nothing but the cost: a turn notes what is new, and a conversation that is not found here is noted
from its beginning.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from penumbra.conversation.back_references import LineIndex

_CONVERSATIONS = 32
_CHARACTERS = 10_000_000
"""Of all texts that are noted. Their lines take seven bytes of memory for each character; what was
dropped is noted anew, in about 35 milliseconds for each million."""


class LineIndexes:
    """Libraries by who is asking and the sequence of texts that they have noted. Each is lent to one
    request at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._libraries: OrderedDict[bytes, tuple[LineIndex, int]] = OrderedDict()

    def take(self, beginnings: Sequence[bytes]) -> tuple[LineIndex, int]:
        """The library that has noted most of the first of some texts, and how many; it is then gone from here
        until it is given back. `beginnings`: of these texts, see `Beginnings`."""
        with self._lock:
            for count in range(len(beginnings), 0, -1):
                index = self._libraries.pop(beginnings[count - 1], None)
                if index is not None:
                    return index[0], count
        return LineIndex(), 0

    def give(self, beginning: bytes, line_index: LineIndex, characters: int) -> None:
        """Keep a library that has noted exactly the texts of a beginning, `characters` in all."""
        if characters > _CHARACTERS:
            return
        with self._lock:
            self._libraries[beginning] = (line_index, characters)
            total = sum(size for _, size in self._libraries.values())
            while len(self._libraries) > _CONVERSATIONS or total > _CHARACTERS:
                _, (_, size) = self._libraries.popitem(last=False)
                total -= size


class Beginnings:
    """A hash of each beginning of a sequence of texts, and its characters in all."""

    def __init__(self, scope: bytes) -> None:
        """`scope`: whose texts they are."""
        self._state = hashlib.blake2b(key=scope[:64], digest_size=16)
        self.hashes: list[bytes] = []
        self.characters: list[int] = []

    def take_in(self, mark: bytes, characters: int) -> None:
        """The next text. `mark`: a hash of what it says."""
        self._state.update(len(mark).to_bytes(4, "big") + mark)
        self.hashes.append(self._state.digest())
        self.characters.append(characters + (self.characters[-1] if self.characters else 0))

    def copy(self) -> Beginnings:
        """The same, which go on by themselves."""
        copied = Beginnings(b"")
        copied._state = self._state.copy()
        copied.hashes, copied.characters = self.hashes.copy(), self.characters.copy()
        return copied
