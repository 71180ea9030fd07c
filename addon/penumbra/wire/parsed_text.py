"""What is parsed of a JSON text, and where its values stand.

Mostly that is all of it. A text may begin with values that a memory knows: then these stand there as they
were read before, and only the rest is parsed. A value is a view of the bytes that it was parsed from, so its
place is the distance between two addresses, and what was spared in front of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec import Raw

from penumbra.wire.json_values import NotJson
from penumbra.wire.known_values import Known, KnownValue
from penumbra.wire.raw_values import (
    BRACE,
    BRACKET,
    address_of,
    following,
    items_of,
    known_value,
    members_of,
    starts_of,
    value_of,
)
from penumbra.wire.stand_ins import StandIn, StandIns
from penumbra.wire.value_memory import ValueMemory

C = TypeVar("C", dict[str, Raw], list[Raw])
Opened = Callable[[KnownValue], dict[int, tuple[Raw, C]]]
"""What of one kind was opened in a known value."""
objects_of, arrays_of = attrgetter("objects"), attrgetter("arrays")
_OPENED, _ROOT = map(attrgetter, ("opened", "root"))
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_MOST_LEVELS = 50
"""How often the bytes of a text may be read, on average; its values lie so many levels deep."""
_LEAST_SPARED = 20_000
"""Bytes of values that are known, from which on it pays not to read them."""
_LONGEST_HEAD = 200_000
"""Bytes in front of an array that are remembered with it."""
_LEAST_OPENED = 8_000_000
"""Bytes that may be read of any text, however small."""


class ParsedText:
    """One text, opened one level at a time, and the known values in it."""

    __slots__ = ("_base", "_text", "data", "known", "members", "opened", "root", "stand_ins", "structure")

    def __init__(self, data: bytes, known: Known | None) -> None:
        """`known`: values that are not parsed. Raises NotJson."""
        self.data, self.known = data, known
        self.stand_ins: StandIns | None = None
        """What the memory has in the place of an array's items."""
        self.opened = 0
        """Bytes of all that was opened."""
        self.members: dict[str, Raw] | None = None
        """Of the root; None: it is no object."""
        if known is not None:
            rest = data[: known.start] + data[known.end :]
            try:
                rest.decode("utf-8")
                self._parse(data, rest)
            except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
                raise NotJson(str(error)) from None
            self.opened += self._spared
            return
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotJson(str(error)) from None
        try:
            self._parse(data, data)
        except msgspec.DecodeError as error:
            # msgspec refuses escapes of lone surrogates, which JavaScript clients do send. They are
            # masked with escapes of the same length, so that every place stays where it is.
            masked, count = _SURROGATE_ESCAPE.subn(rb"\\uff", data)
            if not count:
                raise NotJson(str(error)) from None
            try:
                self._parse(masked, masked)
            except msgspec.DecodeError as masked_error:
                raise NotJson(str(masked_error)) from None
        except RecursionError:
            raise NotJson("nested too deeply") from None

    def _parse(self, structure: bytes, text: bytes) -> None:
        self.structure, self._text = structure, text
        """The text with all escapes masked that can't be read, and what is read of that."""
        self._base = address_of(text)
        if text[:1] == b"{" and text[-1:] == b"}":
            # Reading its members shows whether it is an object at all.
            self.root = Raw(text)
            self.opened += len(text) if len(text) > 2 else 0
            self.members = members_of(self.root)
        else:
            self.root = value_of(text)

    def open(self, value: Raw, kept: Opened[C], decode: Callable[[Raw], C]) -> tuple[Raw, C]:
        """A container and what is in it, read: all of it, at every level that it lies at.

        With the container itself, so that its identity can't become another's. Raises NotJson where that
        would be far more than the text.
        """
        view = memoryview(value)
        size = len(view)
        # What is no container of this kind is not opened here, and what is empty holds nothing to remember.
        if view[0] != (BRACE if kept is objects_of else BRACKET) or size == 2:
            return value, decode(value)
        stand_in = self.stand_in(value)
        opened = None if stand_in is None else kept(stand_in.known)
        if opened is not None and id(value) in opened:
            return opened[id(value)]
        self.opened += size if stand_in is None else stand_in.known.note_opened(size)
        if self.opened > max(_MOST_LEVELS * len(self.data), _LEAST_OPENED):
            raise NotJson("nested too deeply")
        if self.stand_ins is None or stand_in is None or opened is None:
            return value, decode(value)
        read = opened.setdefault(id(value), (value, decode(value)))
        self.stand_ins.memory.grown(stand_in.known, len(read[1]))
        return read

    def remember(
        self, array: Raw, memory: ValueMemory, scope: bytes, items_in: Callable[[Raw], list[Raw]]
    ) -> list[Raw] | None:
        """What a memory has in the place of an array's items, the new ones learned; None: they are too many.

        `items_in` opens the array where none of its first items are known.
        """
        start, end = self.place(array)
        first: Sequence[KnownValue] = ()
        at = start + 1
        if self.known is not None:
            first, at = self.known.values, self.known.end
        elif self.data[start] == BRACKET:
            first, at = memory.first(scope, self.data, start + 1)
        if first and self.known is None:
            # Only what stands behind them is read.
            rest = b"[" + self.data[at:end]
            items, base, shift = items_of(rest), address_of(rest), at - 1
            self.opened += end - start
        else:
            items, rest, base, shift = items_in(array), self._text, self._base, self._spared
            self.opened += shift
        if not 0 < len(first) + len(items) <= memory.longest:
            return None
        starts = [*following(start + 1, first), *(shift + place for place in starts_of(items, rest, base))]
        values, known_before = memory.of(scope, list(map(bytes, items)), known_value, first)
        self.stand_ins = StandIns(values, starts, known_before, memory)
        self.opened += sum(map(_OPENED, values))
        if start < _LONGEST_HEAD:
            self.stand_ins.follow(self.data[: start + 1])
        return list(map(_ROOT, values))

    def place(self, value: Raw) -> tuple[int, int]:
        """Where a value stands: offsets of its first byte and of the byte after its last. Outside of the text
        if it is another's."""
        address, size = address_of(value), len(memoryview(value))
        start = address - self._base
        if not 0 <= start < len(self._text):
            found = None if self.stand_ins is None else self.stand_ins.at(address)
            if found is not None:
                start = found.start + address - found.known.address
            elif start > 0:
                start += self._spared
            return start, start + size
        if self.known is None:
            return start, start + size
        end, spared = start + size, self._spared
        return (
            start + (spared if start >= self.known.start else 0),
            end + (spared if end > self.known.start else 0),
        )

    def stand_in(self, value: Raw) -> StandIn | None:
        """The value of the memory whose bytes a value is made of; None: of no such."""
        if self.stand_ins is None or 0 <= (address := address_of(value)) - self._base < len(self._text):
            return None
        return self.stand_ins.at(address)

    @property
    def _spared(self) -> int:
        """Bytes that were not read."""
        return 0 if self.known is None else self.known.end - self.known.start


def known_beginning(data: bytes, memory: ValueMemory, scope: bytes) -> Known | None:
    """The values that a memory knows of a text before it is parsed; None: none, or too few to be of use."""
    known = memory.begun(scope, data)
    return None if known is None or known.end - known.start < _LEAST_SPARED else known
