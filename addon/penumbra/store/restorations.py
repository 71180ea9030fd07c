"""Where values were put back into the arguments of calls, remembered without the values.

What the client got is known by a keyed hash; beside it stands which characters of it were placeholders.
So they come back also when nobody knows the values any more: after a restart, or when the client no
longer sends the result that they were read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from penumbra.store.keyed_values import KeyedValues, Schema

_MEMORY = 4_096
"""Strings."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Characters `start` to `end` of a text are a value; `mark` is its placeholder."""

    start: int
    end: int
    mark: str


Stretches = Sequence[Stretch]
Restorations = KeyedValues[Stretches]
"""By the key of a string: what in it is a placeholder's value."""


def _pack(stretches: Stretches) -> bytes:
    return orjson.dumps([(stretch.start, stretch.end, stretch.mark) for stretch in stretches])


def _unpack(record: bytes) -> Stretches:
    return tuple(Stretch(*stretch) for stretch in orjson.loads(record))


SCHEMA = Schema("restorations", _pack, _unpack, _MEMORY)
