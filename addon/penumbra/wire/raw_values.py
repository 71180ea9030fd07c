"""Values of JSON as views of the bytes that they stand in: opened one level at a time, found by address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any

import msgspec
from cffi import FFI
from msgspec import Raw

from penumbra.wire.known_values import Key, KnownValue
from penumbra.wire.spelling import SPACE

_ffi = FFI()
_ADDRESS = _ffi.typeof("uintptr_t")
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_VALUE = msgspec.json.Decoder(Raw)
BRACE, BRACKET, QUOTE = b'{["'
_ROOM = attrgetter("room")


def address_of(buffer: Any) -> int:
    """Where a buffer lies in memory."""
    return int(_ffi.cast(_ADDRESS, _ffi.from_buffer(buffer)))


def value_of(text: bytes) -> Raw:
    """The value that a text is. Raises msgspec.DecodeError."""
    return _VALUE.decode(text)


def starts_of(items: list[Raw], data: bytes, base: int) -> Iterator[int]:
    """Where the items of an array stand in a text at an address; mostly there is but a comma between two."""
    at = -1
    for item in items:
        start = at + 1
        if data[at:start] != b"," or data[start] in SPACE:
            start = address_of(item) - base
        yield start
        at = start + len(memoryview(item))


def following(start: int, values: Sequence[KnownValue]) -> list[int]:
    """Where values stand of which the first does here, with a comma between two."""
    starts = list(accumulate(map(_ROOM, values), initial=start))
    del starts[len(values) :]
    return starts


def known_value(key: Key) -> KnownValue:
    """What a memory keeps of the bytes in a key."""
    root = _VALUE.decode(key[1])
    return KnownValue(key, key[1], root, address_of(root), len(key[1]) + 1)


def members_of(value: Raw) -> dict[str, Raw]:
    """The members of an object; of anything else none."""
    return _OBJECT.decode(value) if memoryview(value)[0] == BRACE else {}


def items_of(value: Raw | bytes) -> list[Raw]:
    """The items of an array; of anything else none."""
    return _ARRAY.decode(value) if memoryview(value)[0] == BRACKET else []
