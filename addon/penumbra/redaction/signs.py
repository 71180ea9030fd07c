"""One pass over a text that says which of the searches behind it can find anything: most texts need few.

A search is left out only where its own pattern matches nowhere.
"""

from __future__ import annotations

from enum import IntEnum

import re2

from penumbra.redaction.finders.assignments import FLAGS
from penumbra.redaction.finders.encoded import RUN
from penumbra.redaction.finders.prefixed import TAIL
from penumbra.redaction.view import DISGUISE, JOINTS

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


_PATTERNS = {
    Sign.DISGUISE: DISGUISE.pattern,
    Sign.JOINT: JOINTS.pattern,
    Sign.ENCODED: RUN.pattern,
    Sign.PREFIXED: TAIL.pattern,
    # It is searched in small letters.
    Sign.FLAG: b"(?i)" + FLAGS.pattern,
}
_SET = re2.Set.SearchSet(_OPTIONS)
for _pattern in _PATTERNS.values():
    _SET.Add(_pattern)
_SET.Compile()


def signs(data: bytes) -> frozenset[int]:
    """The signs that a text shows, as members of Sign."""
    return frozenset(_SET.Match(data) or ())
