"""This module edits a JSON document in place. All bytes outside of edited values stay.

Containers are parsed one level at a time with `msgspec.Raw`, so values are views of bytes. The offset of a
value is the difference between the memory addresses of the value and the document. An edit replaces the bytes
in a range.

If an object has a key twice, the last value counts, as in nearly every JSON parser.

Edits have no effect on later reads. An *amendment* replaces a value by another document, and later reads
return the new value.

The first items of an array may come from an earlier document with the same bytes (`remember`). A computation
over the items then continues after the known items (`computed`).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from penumbra.wire.json_values import (
    SPACE,
    NotJson,
    are_all_members,
    decode,
    encode,
    exact,
    member_of,
    spelled,
)
from penumbra.wire.prefix_memory import (
    POINTER,
    Known,
    Prefix,
    PrefixMemory,
    Remembered,
    address_of,
    ffi,
)

BRACE, BRACKET, QUOTE = b'{["'
_CLOSING_BRACE, _CLOSING_BRACKET = b"}]"
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_VALUE = msgspec.json.Decoder(Raw)
_STRING = msgspec.json.Decoder(str)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_TOKEN = re.compile(rb'[{}\[\]]|"(?:[^"\\]|\\.)*+"|[^ \t\n\r{}\[\],:"]++', re.DOTALL)
"""This pattern matches a bracket, a string, or another value without parts."""
_MOST_LEVELS = 16
"""The greatest total size of the containers that are parsed one by one, as a multiple of the text's size."""
_LEAST_OPENED = 2_000_000
"""Up to this total size in bytes, containers are parsed one by one in every text."""
_PLACE = itemgetter(0, 1)


class Edit(NamedTuple):
    """An `Edit` replaces the bytes `start` to `end` of the document by `data`."""

    start: int
    end: int
    data: bytes


class Edits(list[Edit]):
    """An `Edits` is a list of edits, in the order of their making. The edits do not overlap."""

    _places: list[tuple[int, int]] | None = None
    _noted: Edit | None = None

    def overlap(self, start: int, end: int) -> bool:
        """Return whether an edit overlaps the range from `start` to `end`."""
        last = self.last_before(end)
        # Edits do not overlap, so of the edits before `end`, the last to begin is also the last to end.
        return last is not None and last[1] > start

    def last_before(self, end: int) -> tuple[int, int] | None:
        """Return the range of the last edit that begins before an offset, or None."""
        places = self._places or []
        noted = len(places)
        if noted > len(self) or (noted and self[noted - 1] is not self._noted):
            places, noted = [], 0
        for edit in self[noted:]:
            insort(places, (edit.start, edit.end))
            self._noted = edit
        self._places = places
        at = bisect_left(places, (end, 0))
        return places[at - 1] if at else None


def edited(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Return a text with edits applied. The edits may be in any order. Raises ValueError if edits overlap."""
    text, at = memoryview(data), 0
    pieces: list[bytes | memoryview] = []
    for start, end, new in sorted(edits, key=_PLACE):
        if start < at:
            raise ValueError(f"edits overlap at byte {start}")
        pieces += (text[at:start], new)
        at = end
    pieces.append(text[at:])
    return b"".join(pieces)


S = TypeVar("S")
T = TypeVar("T")


class Saved(Struct, frozen=True):
    """A `Saved` is a copy of a document's edits and amendments."""

    edits: tuple[Edit, ...]
    amended: tuple[tuple[int, int, Document, Saved], ...] = ()


@dataclass(slots=True)
class Document:
    """A `Document` is a JSON text with its edits. Its values are `Raw` views. The address of a `Raw` gives
    its offset, so a `Raw` argument must come from a method of the document."""

    data: bytes
    edits: Edits = field(default_factory=Edits)
    known: Known | None = field(default=None, repr=False)
    """The prefix that is known from an earlier document and is therefore not parsed."""
    root: Raw = field(init=False, repr=False)
    _top: dict[str, Raw] = field(init=False, repr=False)
    """The members of the root, without amendments."""
    _structure: bytes = field(init=False, repr=False)
    """The text with the escapes of lone surrogates replaced."""
    _text: bytes = field(init=False, repr=False)
    """The part of `_structure` that is parsed."""
    _base: int = field(init=False, repr=False, default=0)
    """Memory address of `_text`; 0 until an offset is needed. Most events of streams need none."""
    _spared: int = field(init=False, repr=False, default=0)
    """The number of bytes in the known prefix, which are not parsed."""
    _opened: int = field(init=False, repr=False, default=0)
    """The total bytes of all containers that were parsed, and of the known prefix."""
    _objects: dict[int, tuple[Raw, dict[str, Raw]]] = field(init=False, repr=False, default_factory=dict)
    _arrays: dict[int, tuple[Raw, list[Raw]]] = field(init=False, repr=False, default_factory=dict)
    """The parsed containers, by the `id()` of their `Raw`. A request is read several times."""
    _made: dict[Callable[[Document], Any], Any] = field(init=False, repr=False, default_factory=dict)
    _contained: dict[bytes, bool] = field(init=False, repr=False, default_factory=dict)
    _array: Raw | None = field(init=False, repr=False, default=None)
    """The array whose first items come from a `PrefixMemory`."""
    _remembered: Remembered | None = field(init=False, repr=False, default=None)
    """The remembered items of `_array`; None if there are none."""
    _about: dict[tuple[Any, int], tuple[Raw, Any]] = field(init=False, repr=False, default_factory=dict)
    _amended: dict[int, tuple[int, Document]] = field(init=False, repr=False, default_factory=dict)
    """Maps the offset of each amended value to the end of the value, and to the new document."""

    @classmethod
    def begun(cls, data: bytes, name: str, memory: PrefixMemory, scope: bytes, known: Known) -> Document:
        """Return a document without parsing a known prefix. If the prefix is not in the top-level array
        `name`, the whole text is parsed. Raises NotJson."""
        try:
            document = cls(data, known=known)
        except NotJson:
            return cls(data)
        array = document.members(document.root).get(name)
        is_meant = array is not None and document.place(array)[0] == data.rindex(b"[", 0, known.start)
        if array is not None and is_meant and bool(document.items(array)) == known.is_followed:
            document.remember(array, memory, scope)
        return document if document._remembered is not None else cls(data)

    def __post_init__(self) -> None:
        """Parse the members of the root. Raises NotJson."""
        data, known = self.data, self.known
        text = data if known is None else data[: known.start] + data[known.end :]
        try:
            text.decode("utf-8")
            try:
                self._parse(data, text)
            except msgspec.DecodeError:
                # msgspec rejects escapes of lone surrogates in keys, but JavaScript clients send them. Other
                # escapes of the same length replace these escapes, so all offsets stay the same.
                masked, count = _SURROGATE_ESCAPE.subn(rb"\\uff", data)
                if known is not None or not count:
                    raise
                self._parse(masked, masked)
        except (UnicodeDecodeError, msgspec.DecodeError) as error:
            raise NotJson(str(error)) from None
        except RecursionError:
            raise NotJson("nested too deeply") from None
        self._spared = 0 if known is None else known.end - known.start
        self._opened += self._spared

    def _parse(self, structure: bytes, text: bytes) -> None:
        self._structure, self._text = structure, text
        if text[:1] == b"{" and text[-1:] == b"}":
            # The text is valid if its members can be parsed.
            self.root, self._top = Raw(text), _OBJECT.decode(text)
            self._opened += len(text) if len(text) > 2 else 0
            self._objects[id(self.root)] = self.root, self._top
        else:
            self.root = _VALUE.decode(text)
            self._top = self.members(self.root)

    @property
    def _address(self) -> int:
        self._base = self._base or address_of(self._text)
        return self._base

    def _parsed_whole(self, value: Raw) -> bool:
        """If the total size of the parsed containers is too great, as in very deep nesting, parse everything
        in this container and return True."""
        if self._opened <= _MOST_LEVELS * len(self.data):
            return False
        view = memoryview(value)
        opened: list[tuple[int, list[Raw]]] = []
        for token in _TOKEN.finditer(view):
            (start, end), first = token.span(), view[token.start()]
            if first in b"{[":
                opened.append((start, []))
                continue
            start, parts = opened.pop() if first in b"}]" else (start, [])
            whole = Raw(view[start:end]) if opened else value
            if first == _CLOSING_BRACE:
                named = zip(parts[::2], parts[1::2], strict=True)
                self._objects[id(whole)] = whole, {_STRING.decode(name): part for name, part in named}
            elif first == _CLOSING_BRACKET:
                self._arrays[id(whole)] = whole, parts
            if opened:
                opened[-1][1].append(whole)
        return True

    def once(self, make: Callable[[Document], T]) -> T:
        """Return the result of `make` for this document. The result is kept until an amendment."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def remember(self, array: Raw | None, memory: PrefixMemory, scope: bytes) -> None:
        """Take the first items of an array from `memory`, and store the array's further items in `memory`."""
        if array is None or self._structure is not self.data or self._amended or array is self._array:
            return
        known, items = self.known, self.items(array)
        if known is None:
            if not items:
                return
            start = self.place(items[0])[0]
            known = memory.at(scope, self.data, start) or Known(Prefix(), start, start, is_followed=True)
            items = items[len(known.prefix.items) :]
        prefix, start = known.prefix, known.start
        if len(prefix.items) + len(items) > memory.longest:
            return
        places = [at + self._spared for at in _starts(items, self._text, self._address)]
        spans = [(at, at + len(memoryview(item))) for at, item in zip(places, items, strict=True)]
        stored, likely = memory.extended(scope, self.data, prefix, start, spans)
        new = len(likely.items) - len(prefix.items)
        starts = [*map(start.__add__, likely.starts), *places[new:]]
        self._array, self._remembered = array, Remembered(memory, stored, prefix, likely, starts)
        self._arrays[id(array)] = array, [*likely.items, *items[new:]]

    def release(self) -> None:
        """If an array is remembered, drop all parsed containers except this array and the root."""
        array = self._array
        if array is not None:
            self._about.clear()
            self._objects = {key: self._objects[key] for key in self._objects.keys() & {id(self.root)}}
            self._arrays = {id(array): self._arrays[id(array)]}

    def starts(self, array: Raw | None) -> Sequence[int] | None:
        """Return the offsets of a remembered array's items; None for other arrays and after an amendment."""
        is_continued = array is self._array and not self._amended
        return self._remembered.starts if self._remembered is not None and is_continued else None

    def computed(
        self,
        array: Raw | None,
        count: int,
        begin: Callable[[], S],
        step: Callable[[S, int], None],
        key: Hashable,
        inputs: Hashable = None,
        fits: Callable[[S], bool] | None = None,
    ) -> S:
        """Return the result of a computation over the `count` items of an array. The computation continues
        after a known prefix, if there is one. `step` adds the item at an index to a state, and must not read
        later items. The result must not contain offsets in the document. There are few keys, and equal keys,
        inputs and bytes give equal results. `fits` says whether the computation can continue from a state.

        A state is a list, or an object with `copy` and `weigh`. A copy can continue by itself, and `weigh`
        returns rough bytes."""
        remembered = self._remembered if len(self.starts(array) or ()) == count > 0 else None
        known, at, end = (None, 0, 0) if remembered is None else remembered.state(key, inputs, fits)
        state: Any = begin() if known is None else known.copy()
        for index in range(at, end):
            step(state, index)
        if remembered is not None and at < end:
            remembered.keep(key, inputs, state.copy())
        for index in range(end, count):
            step(state, index)
        result: S = state
        return result

    def about(self, value: Raw, make: Callable[[Document, Raw], T]) -> T:
        """Return the result of `make` for a value. The result is stored and must depend only on the value."""
        key = make, id(value)
        if key not in self._about:
            # The value is also stored, because otherwise another object could get the same `id`.
            self._about[key] = value, make(self, value)
        made: T = self._about[key][1]
        return made

    def exact(self, value: Raw) -> Any:
        """Return the result of `json_values.exact` for a value, which must not be changed."""
        return self.about(value, _exact)

    def members(self, value: Raw | None) -> dict[str, Raw]:
        """Return the members of an object, or an empty dict. The dict is shared and must not be changed."""
        if value is None:
            return {}
        if self._amended and (read := self._read_in(value))[0] is not self:
            return read[0].members(read[1])
        known = self._objects.get(id(value))
        if known is None:
            view = memoryview(value)
            known = self._objects[id(value)] = value, _OBJECT.decode(view) if view[0] == BRACE else {}
            self._opened += len(view) if known[1] else 0
            if self._opened > _LEAST_OPENED and known[1] and self._parsed_whole(value):
                known = self._objects[id(value)]
        return known[1]

    @property
    def top(self) -> dict[str, Raw]:
        return self.members(self.root) if self._amended else self._top

    def items(self, value: Raw | None) -> list[Raw]:
        """Return the items of an array, or an empty list. The list is shared and must not be changed."""
        if value is None:
            return []
        if self._amended and (read := self._read_in(value))[0] is not self:
            return read[0].items(read[1])
        known = self._arrays.get(id(value))
        if known is None:
            view = memoryview(value)
            known = self._arrays[id(value)] = value, _ARRAY.decode(view) if view[0] == BRACKET else []
            self._opened += len(view) if known[1] else 0
            if self._opened > _LEAST_OPENED and known[1] and self._parsed_whole(value):
                known = self._arrays[id(value)]
        return known[1]

    def listed(self, value: Raw | None) -> list[Raw]:
        """Return the items of an array. Any other value, or an empty array, is the only item. None has no
        item."""
        return [] if value is None else self.items(value) or [value]

    def repeats(self, value: Raw) -> bool:
        """Return whether an object has a repeated member; False for other values."""
        document, value = self._read_in(value) if self._amended else (self, value)
        members = document.members(value)
        # This is the length of an object with these members and without white space.
        least = 1 + sum([4 + len(name) + len(memoryview(one)) for name, one in members.items()])
        # White space, escapes and other letters also lengthen an object, so its members are checked.
        return bool(members) and len(memoryview(value)) != least and not are_all_members(value, members)

    def repeated(self, value: Raw) -> frozenset[str]:
        """Return the names that occur more than once in an object."""
        pairs = json.loads(self.source(value), object_pairs_hook=list)
        return frozenset(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)

    def string(self, value: Raw | None) -> str | None:
        """Return the text of a string; None if the value is None or not a string."""
        if value is None or memoryview(value)[0] != QUOTE:
            return None
        if self._amended and (read := self._read_in(value))[0] is not self:
            return read[0].string(read[1])
        if self._structure is self.data:
            return _STRING.decode(value)
        text = decode(self.source(value))
        return text if isinstance(text, str) else None

    def text_of(self, value: Raw | None) -> str:
        """Return the text of a string; empty if the value is None or not a string."""
        return self.string(value) or ""

    def texts(self, members: Mapping[str, Raw], *names: str) -> list[str]:
        """Return the texts of the members with these names. A member that is no string has an empty text."""
        if self._amended or self._structure is not self.data:
            return [self.text_of(members.get(name)) for name in names]
        values = [members.get(name) for name in names]
        return [
            "" if value is None or memoryview(value)[0] != QUOTE else _STRING.decode(value)
            for value in values
        ]

    def plain(self, value: Raw | None) -> Any:
        """Return the value as Python objects; None without a value. The result must not be written back,
        because big numbers may lose digits."""
        return None if value is None else decode(self.source(value))

    def source(self, value: Raw) -> bytes:
        """Return the bytes of a value. Amendments replace original bytes."""
        # The `Raw` of a value that contains the known prefix lacks the prefix.
        is_whole = self.known is None or (value is not self.root and value is not self._array)
        if is_whole and not self._amended and self._structure is self.data:
            return bytes(value)
        if self._amended and (read := self._read_in(value))[0] is not self:
            return read[0].source(read[1])
        start, end = self._place(value)
        return self._as_amended(start, end) if self._amended else self.data[start:end]

    def came(self, value: Raw) -> bytes:
        """Return the original bytes of a value."""
        start, end = self.place(value)
        return self.data[start:end]

    def contains(self, text: bytes) -> bool:
        """Return whether a text, such as a quoted name, occurs in the document. The result is cached."""
        found = self._contained.get(text)
        if found is None:
            if self._remembered is None or self._amended:
                found = text in self.text()
            else:
                found = self._remembered.contains(self.data, text)
            self._contained[text] = found
        return found

    def text(self) -> bytes:
        """Return the document with amendments, but without edits."""
        return self._as_amended(0, len(self.data)) if self._amended else self.data

    def place(self, value: Raw) -> tuple[int, int]:
        """Return the range of a value in the document. For a part of an amended value, return that of the
        whole."""
        start, end = self._place(value)
        if self._amended and not self._holds(start):
            return next((begin, stop) for begin, (stop, inner) in self._amended.items() if inner.has(value))
        return start, end

    def _place(self, value: Raw) -> tuple[int, int]:
        """Return the range of a value in the text. The value of another document has a range outside."""
        address = int(ffi.cast(POINTER, ffi.from_buffer(value)))
        size = len(memoryview(value))
        start = address - self._address
        if not 0 <= start < len(self._text):
            items = self._remembered
            if items is not None and (found := items.likely.offset(address)) is not None:
                start = items.starts[0] + found
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

    def has(self, value: Raw) -> bool:
        """Return whether a value belongs to this document."""
        return self._holds(self._place(value)[0]) or any(
            inner.has(value) for _, inner in self._amended.values()
        )

    def _holds(self, start: int) -> bool:
        return 0 <= start < len(self.data)

    def _read_in(self, value: Raw) -> tuple[Document, Raw]:
        """Return the document (this one or an amendment) with the current form of a value, and this form."""
        start, _ = self._place(value)
        if not self._holds(start):
            owner = self._owner(value)
            return (self, value) if owner is self else owner._read_in(value)
        amended = self._amended.get(start)
        return (self, value) if amended is None else amended[1]._read_in(amended[1].root)

    def _owner(self, value: Raw) -> Document:
        """Return the document whose bytes contain the value: this document or an amendment."""
        if self._amended and not self._holds(self._place(value)[0]):
            for _, inner in self._amended.values():
                if inner.has(value):
                    return inner._owner(value)
        return self

    def _as_amended(self, start: int, end: int) -> bytes:
        pieces: list[bytes] = []
        at = start
        for begin, (stop, inner) in sorted(self._amended.items(), key=lambda entry: entry[0]):
            if start <= begin and stop <= end:
                pieces += (self.data[at:begin], inner.text())
                at = stop
        return b"".join((*pieces, self.data[at:end]))

    def part(self, value: Raw, start: int, end: int) -> tuple[int, int]:
        """Return the bytes of the document in which the characters `start` to `end` of a string are."""
        first, last = self.place(value)
        raw = self.data[first + 1 : last - 1].decode("utf-8")
        places = [spelled(raw, at) for at in (start, end)]
        begin, stop = (first + 1 + len(raw[:at].encode("utf-8")) for at in places)
        return begin, stop

    @staticmethod
    def is_string(value: Raw) -> bool:
        return memoryview(value)[0] == QUOTE

    def is_filled(self, value: Raw) -> bool:
        """Return whether a value is an object or array that is not empty. With amendments, each counts as
        such."""
        view = memoryview(value)
        return view[0] in (BRACE, BRACKET) and (len(view) > 2 or bool(self._amended))

    def amend(self, value: Raw, data: bytes) -> None:
        """Amend a value: later reads return the JSON `data` in its place. Raises NotJson."""
        for cleared in (self._made, self._contained, self._about):
            cleared.clear()
        owner = self._owner(value)
        start, end = owner._place(value)
        inner = Document(data)
        for begin in [begin for begin in owner._amended if start < begin < end]:
            del owner._amended[begin]
        owner._amended[start] = (end, inner)

    def saved(self) -> Saved:
        inner = tuple((begin, stop, each, each.saved()) for begin, (stop, each) in self._amended.items())
        return Saved(tuple(self.edits), inner)

    def restore(self, saved: Saved) -> None:
        """Undo the edits and amendments that were made after `saved`."""
        self.edits[:] = saved.edits
        self._amended = {begin: (stop, inner) for begin, stop, inner, _ in saved.amended}
        for _, _, inner, edits in saved.amended:
            inner.restore(edits)

    def replace_part(self, value: Raw, start: int, end: int, text: str) -> None:
        """Replace the characters `start` to `end` of a string."""
        document, value = self._read_in(value) if self._amended else (self, value)
        document.edits.append(Edit(*document.part(value, start, end), encode(text)[1:-1]))

    def is_edited(self, start: int, end: int) -> bool:
        return self.edits.overlap(start, end)

    def set_member(self, value: Raw, key: str, data: bytes) -> None:
        """Set a member of an object to JSON. A new member is added at the end."""
        old = self.members(value).get(key)
        if old is None:
            self.add_member(value, key, data)
        else:
            self.rewrite(old, data)

    def replace(self, value: Raw, new: Any) -> None:
        """Replace a value by a Python value."""
        self.rewrite(value, encode(new))

    def rewrite(self, value: Raw, data: bytes) -> None:
        """Replace a value by JSON."""
        owner = self._owner(value)
        owner.edits.append(Edit(*owner._place(value), data))

    def append(self, array: Raw, item: bytes) -> None:
        """Append an item in JSON to an array."""
        self.insert(array, len(self.items(array)), item)

    def insert(self, array: Raw, index: int, item: bytes) -> None:
        """Insert an item in JSON before the array's item `index`, or at the end."""
        if self._amended and (read := self._read_in(array))[0] is not self:
            return read[0].insert(read[1], index, item)
        items = self.items(array)
        if not items:
            at = self.place(array)[0] + 1
            self.edits.append(Edit(at, at, item))
        elif index < len(items):
            at = self.place(items[index])[0]
            self.edits.append(Edit(at, at, item + b","))
        else:
            at = self.place(items[-1])[1]
            self.edits.append(Edit(at, at, b"," + item))
        return None

    def add_member(self, target: Raw, key: str, value: bytes) -> None:
        """Append a member to an object without a member of this name. The value is JSON."""
        if self._amended and (read := self._read_in(target))[0] is not self:
            return read[0].add_member(read[1], key, value)
        members = self.members(target)
        member = encode(key) + b":" + value
        if members:
            at = max(self.place(member_value)[1] for member_value in members.values())
            self.edits.append(Edit(at, at, b"," + member))
        else:
            at = self.place(target)[0] + 1
            self.edits.append(Edit(at, at, member))
        return None

    def remove_member(self, value: Raw) -> None:
        """Remove the member with this value, with its key and one comma."""
        owner = self._owner(value)
        owner.edits.append(Edit(*member_of(owner._structure, *owner._place(value)), b""))

    def render(self) -> bytes:
        """Return the document with its edits and amendments; the `data` object itself if there are none."""
        edits = [*self.edits, *self._amendments()] if self._amended else self.edits
        if not edits:
            return self.data
        return edited(self.data, edits)

    def _amendments(self) -> Iterator[Edit]:
        """Yield an edit for each amended value, unless another edit already replaces the whole value."""
        for begin, (stop, inner) in self._amended.items():
            last = self.edits.last_before(stop)
            # Edits that overlap a part of the range make `render` raise.
            if last is None or last[0] > begin or last[1] < stop:
                yield Edit(begin, stop, inner.render())


def _exact(document: Document, value: Raw) -> Any:
    return exact(document.source(value))


def _starts(items: list[Raw], data: bytes, base: int) -> Iterator[int]:
    """Yield the offsets of an array's items in a text. `base` is the memory address of the text."""
    at = -1
    for item in items:
        start = at + 1
        if data[at:start] != b"," or data[start] in SPACE:
            start = address_of(item) - base
        yield start
        at = start + len(memoryview(item))
