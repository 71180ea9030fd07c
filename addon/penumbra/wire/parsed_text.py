"""This module parses a JSON text one level at a time, and finds the offsets of values in it.

If the beginning of an array is known from an earlier text, only the other bytes are parsed. Values are views
of the parsed bytes. The offset of a value is the difference between two memory addresses, plus the length of
the known beginning if the value comes after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Raw

from penumbra.wire.json_values import NotJson
from penumbra.wire.prefix_memory import POINTER, Known, Prefix, PrefixMemory, Remembered, address_of, ffi

SPACE = b" \t\n\r"
_BETWEEN_MEMBERS = re.compile(
    rb'[ \t\n\r]*+[{,][ \t\n\r]*+"(?:[^"\\]|\\.)*+"[ \t\n\r]*+:[ \t\n\r]*+', re.DOTALL
)
"""This pattern matches the text before a member's value: a brace or comma, the key and a colon."""
_CHARACTERS = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL
)
"""This pattern matches an escape in a JSON string, or a run of characters that are not escaped."""


def spelled(raw: str, at: int) -> int:
    """Return the offset in `raw`, a string as JSON, of the decoded string's character `at`."""
    if "\\" not in raw:
        return at
    decoded = 0
    for match in _CHARACTERS.finditer(raw):
        length = 1 if match[0][0] == "\\" else len(match[0])
        if at < decoded + length:
            return match.start() + at - decoded
        decoded += length
    return len(raw)


def are_all_members(value: Raw, members: Mapping[str, Raw]) -> bool:
    """Return whether an object has no members except these, which are in order."""
    data, at = bytes(value), 0
    for member in members.values():
        between, source = _BETWEEN_MEMBERS.match(data, at), bytes(member)
        # The bytes are compared, since the first of two members of one name is not in `members`.
        if between is None or not data.startswith(source, between.end()):
            return False
        at = between.end() + len(source)
    return data[at:].strip(SPACE) == b"}"


def member_of(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the range of a member with its key and one comma. Its value is at `start` to `end`."""
    start = _string_start(data, _before(data, start, SPACE + b":") - 1)
    before = _before(data, start, SPACE)
    if data[before - 1 : before] == b",":
        return before - 1, end
    after = _after(data, end)
    if data[after : after + 1] == b",":
        return start, _after(data, after + 1)
    return start, end


# These functions copy no bytes, since a document may have very many members to remove.


def _before(data: bytes, at: int, skipped: bytes) -> int:
    """Return the offset after the last byte before `at` that is not one of `skipped`."""
    while at > 0 and data[at - 1] in skipped:
        at -= 1
    return at


def _after(data: bytes, at: int) -> int:
    """Return the offset of the first byte from `at` on that is not white space."""
    while at < len(data) and data[at] in SPACE:
        at += 1
    return at


def _string_start(data: bytes, closing: int) -> int:
    """Return the offset of the opening quote of the string whose closing quote is at `closing`."""
    at = closing
    while True:
        at = data.rindex(b'"', 0, at)
        if (at - _before(data, at, b"\\")) % 2 == 0:
            return at


_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_VALUE = msgspec.json.Decoder(Raw)
BRACE, BRACKET, QUOTE = b'{["'


def starts_of(items: list[Raw], data: bytes, base: int) -> Iterator[int]:
    """Yield the offsets of an array's items in a text. `base` is the text's memory address, which is needed
    only for items with more than a comma before them."""
    at = -1
    for item in items:
        start = at + 1
        if data[at:start] != b"," or data[start] in SPACE:
            start = address_of(item) - base
        yield start
        at = start + len(memoryview(item))


def members_of(value: Raw) -> dict[str, Raw]:
    """Return the members of an object. Other values have none."""
    return _OBJECT.decode(value) if memoryview(value)[0] == BRACE else {}


def items_of(value: Raw | bytes) -> list[Raw]:
    """Return the items of an array. Other values have none."""
    return _ARRAY.decode(value) if memoryview(value)[0] == BRACKET else []


_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_MOST_LEVELS = 50
"""Greatest number of times that the bytes of a text are parsed, on average."""
_LEAST_OPENED = 8_000_000
"""Number of bytes that may be parsed for any text, even a small one."""


class ParsedText:
    """A `ParsedText` is one text, its parsed values, and the remembered array in it, if there is one."""

    __slots__ = ("_base", "_text", "data", "known", "members", "opened", "remembered", "root", "structure")

    def __init__(self, data: bytes, known: Known | None) -> None:
        """`known` is a prefix that is not parsed. Raises NotJson."""
        self.data, self.known = data, known
        self.remembered: Remembered | None = None
        self.opened = 0
        """Total bytes of all containers that were parsed."""
        self.members: dict[str, Raw] | None = None
        """Members of the root; None if the root is not an object."""
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
            # msgspec rejects escapes of lone surrogates in keys, but JavaScript clients send them. They are
            # replaced by escapes of the same length, so that all offsets stay the same.
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
        """The text with escapes of lone surrogates replaced, and the part of it that is parsed."""
        self._base = address_of(text)
        if text[:1] == b"{" and text[-1:] == b"}":
            # Parsing its members shows whether it is valid.
            self.root = Raw(text)
            self.opened += len(text) if len(text) > 2 else 0
            self.members = members_of(self.root)
        else:
            self.root = _VALUE.decode(text)

    def opens(self, value: Raw) -> None:
        """Count the bytes of a container that is parsed. Raises NotJson if all containers together are far
        larger than the text, which means that it is nested very deeply."""
        self.opened += len(memoryview(value))
        if self.opened > max(_MOST_LEVELS * len(self.data), _LEAST_OPENED):
            raise NotJson("nested too deeply")

    def remember(
        self, array: Raw, memory: PrefixMemory, scope: bytes, items_in: Callable[[Raw], list[Raw]]
    ) -> list[Raw] | None:
        """Return the items of an array, or None if there are no items or too many. The first items come from
        `memory`, and others are stored there."""
        known, items = self.known, items_in(array)
        if known is None:
            if not items:
                return None
            start = self.place(items[0])[0]
            known = memory.at(scope, self.data, start) or Known(Prefix(), start, start, is_followed=True)
            items = items[len(known.prefix.items) :]
        prefix, start = known.prefix, known.start
        if len(prefix.items) + len(items) > memory.longest:
            return None
        places = [at + self._spared for at in starts_of(items, self._text, self._base)]
        spans = [(at, at + len(memoryview(item))) for at, item in zip(places, items, strict=True)]
        likely = memory.extended(scope, self.data, prefix, start, spans)
        there = len(likely.items)
        starts = [*map(start.__add__, likely.starts), *places[there - len(prefix.items) :]]
        self.remembered = Remembered(memory, scope, prefix, likely, starts)
        return [*likely.items, *items[there - len(prefix.items) :]]

    def place(self, value: Raw) -> tuple[int, int]:
        """Return the range of a value in the text. For a value of another document, the range is outside of
        the text."""
        address = int(ffi.cast(POINTER, ffi.from_buffer(value)))
        size = len(memoryview(value))
        start = address - self._base
        if not 0 <= start < len(self._text):
            found = None if self.remembered is None else self.remembered.offset(address)
            if found is not None:
                start = found
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

    @property
    def _spared(self) -> int:
        """Number of bytes that were not parsed."""
        return 0 if self.known is None else self.known.end - self.known.start
