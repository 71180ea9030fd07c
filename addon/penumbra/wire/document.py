"""A JSON document that is edited in place: bytes that nobody edits stay as they were.

Containers are opened one level at a time with `msgspec.Raw`, which keeps every value as a view of
the original bytes. A value's place in the document is the distance between the addresses of the
two buffers, so an edit is "these bytes of the original become those", and the result is the
original with a few slices exchanged. Key order, white space, number spellings, duplicate keys and
escapes outside of an edited value can't change, because nobody writes them again.

Of duplicate keys the last one counts, as for nearly every JSON parser.

An edit is not read back, with one exception: a value that was *amended* reads as what it was amended to, for
all that come after. It is a document of its own then, and stands where the value stood.

Items of an array may be read by a memory (`remember`): then what stands for an item is a value with the same
bytes that was read before, and what was made of it is not made again (`about`). Its place is the item's.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from penumbra.wire.json_values import NotJson, decode, encode
from penumbra.wire.parsed_text import (
    BRACE,
    BRACKET,
    QUOTE,
    ParsedText,
    are_all_members,
    arrays_of,
    items_of,
    member_of,
    members_of,
    objects_of,
    spelled,
)
from penumbra.wire.value_memory import Fold, Known, ValueMemory, stepped

_PLACE = itemgetter(0, 1)


class Edit(NamedTuple):
    """Bytes `start` to `end` of the document become `data`. Equal start and end: an insertion."""

    start: int
    end: int
    data: bytes


class Edits(list[Edit]):
    """Edits that don't overlap, in the order in which they were made."""

    def __init__(self, edits: Iterable[Edit] = ()) -> None:
        super().__init__(edits)
        self._places: list[tuple[int, int]] = []
        self._noted: Edit | None = None
        """The last edit whose place is in that list."""

    def overlap(self, start: int, end: int) -> bool:
        """Whether something between two offsets is edited."""
        last = self.last_before(end)
        # What begins last before the end also reaches furthest.
        return last is not None and last[1] > start

    def last_before(self, end: int) -> tuple[int, int] | None:
        """The place of the edit that begins last in front of an offset. Whoever edits a lot asks before each
        edit."""
        noted = len(self._places)
        if noted > len(self) or (noted and self[noted - 1] is not self._noted):
            self._places, noted = [], 0
        for edit in self[noted:]:
            insort(self._places, (edit.start, edit.end))
            self._noted = edit
        at = bisect_left(self._places, (end, 0))
        return self._places[at - 1] if at else None


def edited(data: bytes, edits: Iterable[Edit]) -> bytes:
    """A text with edits, in any order. Raises ValueError if some overlap."""
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
C = TypeVar("C", dict[str, Raw], list[Raw])
_SHORT = 16
"""Bytes."""
_STRING = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True)
class Saved:
    """The edits of a document at some time."""

    edits: tuple[Edit, ...]
    amended: tuple[tuple[int, int, Document, Saved], ...] = ()


@dataclass(slots=True)
class Document:
    """One JSON text, its values as `Raw` views, and the edits made to it so far.

    `Raw` arguments must come from this document's own methods: their addresses are their places.
    """

    data: bytes
    edits: Edits = field(default_factory=Edits)
    known: Known | None = field(default=None, repr=False)
    """Values that are not read: `begun`."""
    _parsed: ParsedText = field(init=False, repr=False)
    _structure: bytes = field(init=False, repr=False)
    root: Raw = field(init=False, repr=False)
    _objects: dict[int, tuple[Raw, dict[str, Raw]]] = field(init=False, repr=False, default_factory=dict)
    _arrays: dict[int, tuple[Raw, list[Raw]]] = field(init=False, repr=False, default_factory=dict)
    """What was opened, by the identity of its value: a request is gone through more than once."""
    _made: dict[Callable[[Document], Any], Any] = field(init=False, repr=False, default_factory=dict)
    _contained: dict[bytes, bool] = field(init=False, repr=False, default_factory=dict)
    _remembered: Raw | None = field(init=False, repr=False, default=None)
    """The array whose items are read by a memory."""
    _amended: dict[int, tuple[int, Document]] = field(init=False, repr=False, default_factory=dict)
    """By the place where a value begins: where it ends, and what it reads as."""

    @classmethod
    def begun(cls, data: bytes, name: str, memory: ValueMemory, scope: bytes, known: Known) -> Document:
        """A document whose array of this name, at its top, begins as one that a memory knows
        (`known_beginning`), if it is that array: then only the rest is read, and it is remembered. Raises
        NotJson."""
        try:
            document = cls(data, known=known)
        except NotJson:
            return cls(data)
        array = document.members(document.root).get(name)
        # Something has to stand behind the last comma.
        if array is not None and document.items(array) and document.place(array)[0] == known.start - 1:
            document.remember(array, memory, scope)
        return document if document._parsed.stand_ins is not None else cls(data)

    def __post_init__(self) -> None:
        parsed = self._parsed = ParsedText(self.data, self.known)
        self.root, self._structure = parsed.root, parsed.structure
        if parsed.members is not None:
            self._objects[id(self.root)] = (self.root, parsed.members)

    # Reading

    def once(self, make: Callable[[Document], T]) -> T:
        """What a function makes of the document as it reads. It is asked once, and again where something was
        amended since."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def remember(self, array: Raw | None, memory: ValueMemory, scope: bytes) -> None:
        """Have the items of an array read by what a memory knows of their bytes; the others it learns.

        To be called before the array is read.
        """
        if array is None or self._structure is not self.data or self._amended or array is self._remembered:
            return
        roots = self._parsed.remember(array, memory, scope, self.items)
        if roots is not None:
            self._remembered = array
            self._arrays[id(array)] = (array, roots)

    def rest(self) -> None:
        """Let go what was opened of the items that are remembered: hardly anything is looked at again."""
        array = self._remembered
        if array is None or self._parsed.stand_ins is None:
            return
        self._objects = {key: self._objects[key] for key in self._objects.keys() & {id(self.root)}}
        self._arrays = {id(array): self._arrays[id(array)]}
        self._parsed.stand_ins.rest()

    def starts(self, array: Raw | None) -> Sequence[int] | None:
        """Where the items of an array stand that a fold may go on with; None: it begins anew each time."""
        stand_ins = self._parsed.stand_ins
        if stand_ins is None or self._amended or array is not self._remembered:
            return None
        return stand_ins.starts

    def folded(self, array: Raw | None, count: int, fold: Fold[S], step: Callable[[S, int], None]) -> S:
        """What a fold makes of the `count` items of an array. Where they are remembered it goes on from where
        it stood behind the same ones; `step` takes in the item at an index, and nothing behind it.

        No places of the document may be in it.
        """
        stand_ins = None if self._amended or array is not self._remembered else self._parsed.stand_ins
        if stand_ins is None or count != len(stand_ins.values):
            return stepped(fold.begin(), step, 0, count)
        return stand_ins.folded(fold, step)

    def about(self, value: Raw, make: Callable[[Document, Raw], T]) -> T:
        """What a function makes of a value, and of nothing else: asked once where its bytes are remembered.

        What it makes is shared between requests: not to be changed. No places of the document may be in it.
        """
        stand_ins = self._parsed.stand_ins
        if stand_ins is None:
            return make(self, value)
        key: Any = make
        known = stand_ins.by_root.get(id(value))
        if known is None and (stand_in := self._parsed.stand_in(value)) is not None:
            known = stand_in.known
            key = make if value is known.root else (make, id(value))
        if known is None or id(known.root) in stand_ins.changed:
            return make(self, value)
        kept = known.made
        if key in kept:
            made: T = kept[key][1]
            return made
        # With the value itself, so that its identity can't become another's.
        made = kept.setdefault(key, (value, make(self, value)))[1]
        stand_ins.memory.grown(known)
        return made

    def members(self, value: Raw | None) -> dict[str, Raw]:
        """The members of an object, in order; empty if the value is absent or no object.

        The same dict every time: not to be changed.
        """
        if value is None:
            return {}
        if self._amended and (read := self._read_in(value))[0] is not self:
            return read[0].members(read[1])
        known = self._objects.get(id(value))
        if known is None:
            known = self._objects[id(value)] = self._parsed.open(value, objects_of, members_of)
        return known[1]

    def items(self, value: Raw | None) -> list[Raw]:
        """The items of an array; empty if the value is absent or no array.

        The same list every time: not to be changed.
        """
        if value is None:
            return []
        if self._amended and (read := self._read_in(value))[0] is not self:
            return read[0].items(read[1])
        known = self._arrays.get(id(value))
        if known is None:
            known = self._arrays[id(value)] = self._parsed.open(value, arrays_of, items_of)
        return known[1]

    def listed(self, value: Raw | None) -> list[Raw]:
        """The items of an array; the value alone if it is no array, or an empty one."""
        return [] if value is None else self.items(value) or [value]

    def repeats(self, value: Raw) -> bool:
        """Whether an object says the name of a member more than once; false if the value is no object."""
        members = self.members(value)
        # Two braces, and for every member two quotes, a colon and a comma, but for the last comma.
        least = 1 + sum([4 + len(name) + len(memoryview(one)) for name, one in members.items()])
        # Letters beyond ASCII, which are more bytes, are looked at more closely as well.
        if not members or len(memoryview(value)) == least:
            return False
        places = [self.place(member) for member in members.values()]
        return not are_all_members(self._structure, *self.place(value), places)

    def repeated(self, value: Raw) -> frozenset[str]:
        """The names of members that an object says more than once."""
        pairs = json.loads(self.source(value), object_pairs_hook=list)
        return frozenset(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)

    def string(self, value: Raw | None) -> str | None:
        """The text of a string value; None if the value is absent or no string."""
        if value is None or memoryview(value)[0] != QUOTE:
            return None
        if self._amended and (read := self._read_in(value))[0] is not self:
            return read[0].string(read[1])
        if self._structure is self.data:
            return _STRING.decode(value)
        text = decode(self.source(value))
        return text if isinstance(text, str) else None

    def plain(self, value: Raw | None) -> Any:
        """The value as Python objects, None if absent. For reading only: big numbers may lose digits."""
        return None if value is None else decode(self.source(value))

    def says(self, value: Raw, short: Collection[bytes]) -> bool:
        """Whether the bytes of a value, as `source`, are one of some short ones."""
        if self._amended:
            return self.source(value) in short
        view = memoryview(value)
        return len(view) <= _SHORT and bytes(view) in short

    def source(self, value: Raw) -> bytes:
        """The bytes of a value as they stand in the document, amended where something was."""
        if self.known is None and not self._amended and self._structure is self.data:
            return bytes(value)
        if self._amended and (read := self._read_in(value))[0] is not self:
            return read[0].source(read[1])
        start, end = self._parsed.place(value)
        return self._as_amended(start, end) if self._amended else self.data[start:end]

    def came(self, value: Raw) -> bytes:
        """Return the bytes of a value as they came, whatever was amended since."""
        start, end = self.place(value)
        return self.data[start:end]

    def contains(self, text: bytes) -> bool:
        """Whether a name, in its quotes, stands in the document as it reads.

        In items that are remembered it is looked for once.
        """
        if (found := self._contained.get(text)) is None:
            found = self._contained[text] = self._looked_for(text)
        return found

    def _looked_for(self, text: bytes) -> bool:
        stand_ins = self._parsed.stand_ins
        if stand_ins is None or self._amended:
            return text in self.text()
        first, last = stand_ins.span
        return text in self.data[:first] or text in self.data[last:] or stand_ins.contain(text)

    def text(self) -> bytes:
        """All of the document as it reads: amended, and without other edits."""
        return self._as_amended(0, len(self.data)) if self._amended else self.data

    def place(self, value: Raw) -> tuple[int, int]:
        """Where a value stands: offsets of its first byte and of the byte after its last. What is part of an
        amended value stands where that stood."""
        start, end = self._parsed.place(value)
        if self._amended and not self._holds(start):
            return next((begin, stop) for begin, (stop, inner) in self._amended.items() if inner.has(value))
        return start, end

    def has(self, value: Raw) -> bool:
        """Whether a value is this document's."""
        return self._holds(self._parsed.place(value)[0]) or any(
            inner.has(value) for _, inner in self._amended.values()
        )

    def _holds(self, start: int) -> bool:
        return 0 <= start < len(self.data)

    def _read_in(self, value: Raw) -> tuple[Document, Raw]:
        """The document that a value is read in, and what it is there."""
        start, _ = self._parsed.place(value)
        if not self._holds(start):
            owner = self._owner(value)
            return (self, value) if owner is self else owner._read_in(value)
        amended = self._amended.get(start)
        return (self, value) if amended is None else amended[1]._read_in(amended[1].root)

    def _owner(self, value: Raw) -> Document:
        """The document whose bytes a value is made of."""
        if self._amended and not self._holds(self._parsed.place(value)[0]):
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
        """Where the characters `start` to `end` of a string stand: offsets as of `place`."""
        first, last = self.place(value)
        raw = self.data[first + 1 : last - 1].decode("utf-8")
        places = [spelled(raw, at) for at in (start, end)]
        begin, stop = (first + 1 + len(raw[:at].encode("utf-8")) for at in places)
        return begin, stop

    @staticmethod
    def is_string(value: Raw) -> bool:
        """Whether the value is a string."""
        return memoryview(value)[0] == QUOTE

    @staticmethod
    def is_object(value: Raw) -> bool:
        """Whether the value is an object."""
        return memoryview(value)[0] == BRACE

    @staticmethod
    def is_container(value: Raw) -> bool:
        """Whether the value is an object or an array."""
        return memoryview(value)[0] in (BRACE, BRACKET)

    def is_filled(self, value: Raw) -> bool:
        """Whether the value is a container that something may stand in."""
        view = memoryview(value)
        return view[0] in (BRACE, BRACKET) and (len(view) > 2 or bool(self._amended))

    # Editing

    def amend(self, value: Raw, data: bytes) -> None:
        """Put other JSON in the place of a value, and have it read from now on. Raises NotJson.

        The value itself, where it is taken from its container again, and all that is read of it.
        """
        self._made.clear()
        self._contained.clear()
        owner = self._owner(value)
        start, end = owner._parsed.place(value)
        stand_ins, stand_in = owner._parsed.stand_ins, owner._parsed.stand_in(value)
        if stand_ins is not None and stand_in is not None:
            stand_ins.changed.add(id(stand_in.known.root))
        inner = Document(data)
        for begin in [begin for begin in owner._amended if start < begin < end]:
            del owner._amended[begin]
        owner._amended[start] = (end, inner)

    def saved(self) -> Saved:
        """The edits so far, for `restore`."""
        inner = tuple((begin, stop, each, each.saved()) for begin, (stop, each) in self._amended.items())
        return Saved(tuple(self.edits), inner)

    def restore(self, saved: Saved) -> None:
        """Give up all edits that were made since."""
        self.edits[:] = saved.edits
        self._amended = {begin: (stop, inner) for begin, stop, inner, _ in saved.amended}
        for _, _, inner, edits in saved.amended:
            inner.restore(edits)

    def replace_part(self, value: Raw, start: int, end: int, text: str) -> None:
        """Put another text in the place of the characters `start` to `end` of a string."""
        document, value = self._read_in(value) if self._amended else (self, value)
        document.edits.append(Edit(*document.part(value, start, end), encode(text)[1:-1]))

    def is_edited(self, start: int, end: int) -> bool:
        """Whether something between two offsets has been edited already."""
        return self.edits.overlap(start, end)

    def set_member(self, value: Raw, key: str, data: bytes) -> None:
        """Give an object a member, JSON, in the place of the one that it has, or behind its last."""
        old = self.members(value).get(key)
        if old is None:
            self.add_member(value, key, data)
        else:
            self.rewrite(old, data)

    def replace(self, value: Raw, new: Any) -> None:
        """Put a Python value in the place of a value."""
        self.rewrite(value, encode(new))

    def rewrite(self, value: Raw, data: bytes) -> None:
        """Put other JSON in the place of a value."""
        owner = self._owner(value)
        owner.edits.append(Edit(*owner._parsed.place(value), data))

    def append(self, array: Raw, item: bytes) -> None:
        """Add one item, already JSON, behind the last of an array."""
        self.insert(array, len(self.items(array)), item)

    def insert(self, array: Raw, index: int, item: bytes) -> None:
        """Put one item, already JSON, in front of the array's item `index` (its length: at the end)."""
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
        """Add a member, its value already JSON, behind the last of an object that lacks this key."""
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
        """Take out the member of an object that has this value, with its key and one comma."""
        owner = self._owner(value)
        owner.edits.append(Edit(*member_of(owner._structure, *owner._parsed.place(value)), b""))

    def render(self) -> bytes:
        """The document with its edits; the very same object if there are none."""
        edits = [*self.edits, *self._amendments()] if self._amended else self.edits
        if not edits:
            return self.data
        return edited(self.data, edits)

    def _amendments(self) -> Iterator[Edit]:
        """What puts the amended values into the document, but for those that another edit takes out."""
        for begin, (stop, inner) in self._amended.items():
            last = self.edits.last_before(stop)
            # What overlaps in another way is an error of `render`.
            if last is None or last[0] > begin or last[1] < stop:
                yield Edit(begin, stop, inner.render())
