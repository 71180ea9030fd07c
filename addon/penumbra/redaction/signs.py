"""One pass over a text that says which of the searches behind it can find anything: most texts need few.

A search is left out only where its own pattern matches nowhere.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Any

import re2

from penumbra.redaction import decoders
from penumbra.redaction.finders.assignments import FLAGS, TAG_ENDS
from penumbra.redaction.finders.prefixed import TAIL

_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.max_mem = 64 << 20
"""Many times what the automaton needs: where memory runs out, a set says that nothing matches."""


class Sign(IntEnum):
    """What a text may hold."""

    DISGUISE = 0
    JOINT = 1
    ENCODED = 2
    PREFIXED = 3
    FLAG = 4
    TAG = 5
    QUOTED = 6
    DUMP = 7
    CHARACTERS = 8
    WIDE = 9
    ARRAY = 10
    BOX = 11
    WORD_DIFF = 12


DECODERS = {
    Sign.DISGUISE: decoders.UNDISGUISED,
    Sign.JOINT: decoders.JOINED,
    Sign.ENCODED: decoders.ENCODED,
    Sign.QUOTED: decoders.UNQUOTED,
    Sign.DUMP: decoders.DUMPED,
    Sign.CHARACTERS: decoders.CHARACTERS,
    Sign.WIDE: decoders.WIDE,
    Sign.ARRAY: decoders.ARRAYS,
    Sign.BOX: decoders.BOXES,
    Sign.WORD_DIFF: decoders.COMPARED,
}
"""What reads a text that shows the sign of a form of print."""

_PATTERNS: dict[int, bytes] = {
    # It is searched in small letters.
    Sign.FLAG: b"(?i)" + FLAGS.pattern,
    Sign.TAG: TAG_ENDS,
    Sign.PREFIXED: TAIL.pattern,
    **{sign: decoder.pattern for sign, decoder in DECODERS.items()},
}


_RUNS = (Sign.PREFIXED,)
"""Signs that are long runs of what may stand anywhere: in one automaton with the others they multiply its
states, and each text meets new ones. Two passes take less time than one."""


@lru_cache(maxsize=4)
def _sets(others: tuple[bytes, ...]) -> tuple[tuple[Any, tuple[int, ...]], ...]:
    """Automata, and which number each of their patterns has."""
    first = {sign: pattern for sign, pattern in _PATTERNS.items() if sign not in _RUNS}
    second = {sign: _PATTERNS[sign] for sign in _RUNS} | dict(enumerate(others, len(Sign)))
    return tuple((_set(patterns), tuple(patterns)) for patterns in (first, second))


def _set(patterns: dict[int, bytes]) -> Any:
    found = re2.Set.SearchSet(_OPTIONS)
    for pattern in patterns.values():
        found.Add(pattern)
    found.Compile()
    return found


def signs(data: bytes, others: tuple[bytes, ...] = ()) -> frozenset[int]:
    """The signs that a text shows, as members of Sign; and which of `others`, patterns of RE2, match in it,
    numbered from `len(Sign)` on."""
    return frozenset(numbers[index] for found, numbers in _sets(others) for index in found.Match(data) or ())
