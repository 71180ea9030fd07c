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
_CHARACTERS = 64_000_000


class LineIndexes:
    """Libraries by who is asking and the sequence of texts that they have noted. Each is lent to one
    request at a time. The marks of texts are hashes of what they say."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._libraries: OrderedDict[bytes, tuple[LineIndex, int]] = OrderedDict()

    def take(self, scope: bytes, texts: Sequence[bytes]) -> tuple[LineIndex, int]:
        """The library that has noted most of the first of these texts, and how many; it is then gone
        from here until it is given back."""
        marks = _marks(scope, texts)
        with self._lock:
            for count in range(len(marks), 0, -1):
                index = self._libraries.pop(marks[count - 1], None)
                if index is not None:
                    return index[0], count
        return LineIndex(), 0

    def give(self, scope: bytes, texts: Sequence[bytes], line_index: LineIndex, characters: int) -> None:
        """Keep a library that has noted exactly these texts, `characters` in all."""
        if not texts or characters > _CHARACTERS:
            return
        with self._lock:
            self._libraries[_marks(scope, texts)[-1]] = (line_index, characters)
            total = sum(size for _, size in self._libraries.values())
            while len(self._libraries) > _CONVERSATIONS or total > _CHARACTERS:
                _, (_, size) = self._libraries.popitem(last=False)
                total -= size


def _marks(scope: bytes, texts: Sequence[bytes]) -> list[bytes]:
    """A hash of each beginning of the sequence."""
    marks: list[bytes] = []
    state = hashlib.blake2b(key=scope[:64], digest_size=16)
    for text in texts:
        state.update(len(text).to_bytes(4, "big") + text)
        marks.append(state.digest())
    return marks
