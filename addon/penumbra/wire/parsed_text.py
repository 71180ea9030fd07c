"""The parsed values of a JSON text, and their places in it.

Usually the whole text is parsed. A text may begin with values that a memory knows: these keep what was read
before, and only the rest is parsed. Values are views of the bytes that they were parsed from, opened one
level at a time; the place of a value is the distance between two addresses, plus the length of the skipped
beginning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from cffi import FFI
from msgspec import Raw

from penumbra.wire.json_values import NotJson
from penumbra.wire.value_memory import Key, Known, KnownItem, KnownItems, KnownValue, ValueMemory

SPACE = b" \t\n\r"
_BETWEEN_MEMBERS = re.compile(
    rb'[ \t\n\r]*+[{,][ \t\n\r]*+"(?:[^"\\]|\\.)*+"[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL
)
"""Text between the values of two members."""
_CHARACTERS = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL
)
"""The spelling of a character in a JSON string, or a run of characters that stand for themselves."""


def spelled(raw: str, at: int) -> int:
    """Offset of the character `at` of a string in its JSON spelling."""
    if "\\" not in raw:
        return at
    decoded = 0
    for match in _CHARACTERS.finditer(raw):
        length = 1 if match[0][0] == "\\" else len(match[0])
        if at < decoded + length:
            return match.start() + at - decoded
        decoded += length
    return len(raw)


def are_all_members(data: bytes, at: int, end: int, places: Iterable[tuple[int, int]]) -> bool:
    """True if an object from `at` to `end` has only members whose values lie at these places."""
    for start, behind in places:
        if start < at or not _BETWEEN_MEMBERS.fullmatch(data, at, start):
            return False
        at = behind
    return data[at:end].strip(SPACE) == b"}"


def member_of(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Span of the member with the value from `start` to `end`: its key, and one comma."""
    start = _string_start(data, _before(data, start, SPACE + b":") - 1)
    before = _before(data, start, SPACE)
    if data[before - 1 : before] == b",":
        return before - 1, end
    behind = _behind(data, end)
    if data[behind : behind + 1] == b",":
        return start, _behind(data, behind + 1)
    return start, end


# A look at the bytes around a place, and no copy of all that stands before or behind it: a document may
# have as many members to be removed as it has bytes.


def _before(data: bytes, at: int, skipped: bytes) -> int:
    """The offset behind the last byte before `at` that is none of these."""
    while at > 0 and data[at - 1] in skipped:
        at -= 1
    return at


def _behind(data: bytes, at: int) -> int:
    """Offset of the first byte from `at` on that is not white space."""
    while at < len(data) and data[at] in SPACE:
        at += 1
    return at


def _string_start(data: bytes, closing: int) -> int:
    """Offset of the quote that opens the string whose closing quote stands at `closing`."""
    at = closing
    while True:
        at = data.rindex(b'"', 0, at)
        if (at - _before(data, at, b"\\")) % 2 == 0:
            return at


_ffi = FFI()
_ADDRESS = _ffi.typeof("uintptr_t")
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_VALUE = msgspec.json.Decoder(Raw)
BRACE, BRACKET, QUOTE = b'{["'
_SIZE = attrgetter("size")


def address_of(buffer: Any) -> int:
    """Address of a buffer in memory."""
    return int(_ffi.cast(_ADDRESS, _ffi.from_buffer(buffer)))


def value_of(text: bytes) -> Raw:
    return _VALUE.decode(text)


def starts_of(items: list[Raw], data: bytes, base: int) -> Iterator[int]:
    """Offsets of an array's items in a text at an address, mostly separated by a comma alone."""
    at = -1
    for item in items:
        start = at + 1
        if data[at:start] != b"," or data[start] in SPACE:
            start = address_of(item) - base
        yield start
        at = start + len(memoryview(item))


def following(start: int, values: Sequence[KnownValue]) -> list[int]:
    """Offsets of values from the first one's on, separated by commas."""
    starts = list(accumulate(map(_SIZE, values), initial=start))
    del starts[len(values) :]
    return starts


def known_value(key: Key) -> KnownValue:
    root = _VALUE.decode(key[1])
    return KnownValue(key, key[1], root, address_of(root), len(key[1]) + 1)


def members_of(value: Raw) -> dict[str, Raw]:
    """Members of an object; none of other values."""
    return _OBJECT.decode(value) if memoryview(value)[0] == BRACE else {}


def items_of(value: Raw | bytes) -> list[Raw]:
    """Items of an array; none of other values."""
    return _ARRAY.decode(value) if memoryview(value)[0] == BRACKET else []


C = TypeVar("C", dict[str, Raw], list[Raw])
Opened = Callable[[KnownValue], dict[int, tuple[Raw, C]]]
"""Containers of one type that were opened in a known value."""
objects_of, arrays_of = attrgetter("objects"), attrgetter("arrays")
_OPENED, _ROOT = map(attrgetter, ("opened", "root"))
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_MOST_LEVELS = 50
"""Times that the bytes of a text may be read, on average, since values lie so many levels deep."""
_LEAST_SPARED = 20_000
"""Bytes of known values from which on it pays not to parse them."""
_LONGEST_HEAD = 200_000
"""Longest bytes before an array that are remembered with it."""
_LEAST_OPENED = 8_000_000
"""Bytes that may be read of any text, however small."""


class ParsedText:
    """One text, opened one level at a time, and the known values in it."""

    __slots__ = ("_base", "_text", "data", "known", "known_items", "members", "opened", "root", "structure")

    def __init__(self, data: bytes, known: Known | None) -> None:
        """`known`: values that are not parsed. Raises NotJson."""
        self.data, self.known = data, known
        self.known_items: KnownItems | None = None
        """Known values for an array's items."""
        self.opened = 0
        self.members: dict[str, Raw] | None = None
        """Members of the root; None: no object."""
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
            # msgspec refuses escapes of lone surrogates, which JavaScript clients do send. Such bytes are
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
        """A container and its decoded contents.

        The container is returned, too, so that its identity is not reused. Raises NotJson where nested
        containers together are far larger than the text.
        """
        view = memoryview(value)
        size = len(view)
        # Other values than containers of this kind are not opened here, and empty ones hold nothing to
        # remember.
        if view[0] != (BRACE if kept is objects_of else BRACKET) or size == 2:
            return value, decode(value)
        known_item = self.known_item(value)
        opened = None if known_item is None else kept(known_item.known)
        if opened is not None and id(value) in opened:
            return opened[id(value)]
        self.opened += size if known_item is None else known_item.known.note_opened(size)
        if self.opened > max(_MOST_LEVELS * len(self.data), _LEAST_OPENED):
            raise NotJson("nested too deeply")
        if self.known_items is None or known_item is None or opened is None:
            return value, decode(value)
        read = opened.setdefault(id(value), (value, decode(value)))
        self.known_items.memory.grown(known_item.known, len(read[1]))
        return read

    def remember(
        self, array: Raw, memory: ValueMemory, scope: bytes, items_in: Callable[[Raw], list[Raw]]
    ) -> list[Raw] | None:
        """Known values for the items of an array, new ones learned; None: too many items.

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
        self.known_items = KnownItems(values, starts, known_before, memory)
        self.opened += sum(map(_OPENED, values))
        if start < _LONGEST_HEAD:
            self.known_items.follow(self.data[: start + 1])
        return list(map(_ROOT, values))

    def place(self, value: Raw) -> tuple[int, int]:
        """Offsets of a value's first byte and of the byte after its last; outside of the text for foreign
        values."""
        address, size = address_of(value), len(memoryview(value))
        start = address - self._base
        if not 0 <= start < len(self._text):
            found = None if self.known_items is None else self.known_items.at(address)
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

    def known_item(self, value: Raw) -> KnownItem | None:
        """The known value whose bytes a value views; None without one."""
        if self.known_items is None or 0 <= (address := address_of(value)) - self._base < len(self._text):
            return None
        return self.known_items.at(address)

    @property
    def _spared(self) -> int:
        """Bytes that were not parsed."""
        return 0 if self.known is None else self.known.end - self.known.start


def known_beginning(data: bytes, memory: ValueMemory, scope: bytes) -> Known | None:
    """Known values at the beginning of a text, before parsing; None: none, or too few."""
    known = memory.begun(scope, data)
    return None if known is None or known.end - known.start < _LEAST_SPARED else known
