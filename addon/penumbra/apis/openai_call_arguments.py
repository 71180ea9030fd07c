"""The same for OpenAI's two APIs. See `call_arguments`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from msgspec import Raw

from penumbra.apis.call_arguments import Arguments, Call, Open, edit_value, rendered
from penumbra.apis.openai_responses import CALLS
from penumbra.wire.document import Document, NotJson
from penumbra.wire.framing import Piece

_SHAPES = {"function": "arguments", "custom": "input"}
_FRAGMENTS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_FINISHED = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}


@dataclass(slots=True)
class _ChatCall:
    """One call of one choice."""

    id: str = ""
    name: str = ""
    opened: bool = False
    call: Call | None = None


class ChatEdits:
    """Chat Completions, also as compatible APIs write them."""

    def __init__(self, open_: Open) -> None:
        self._open = open_
        self._calls: dict[tuple[int, int], _ChatCall] = {}
        """By choice and index."""

    def piece(self, piece: Piece) -> bytes:
        if piece.data is None:
            return piece.raw
        try:
            document = Document(piece.data)
        except NotJson:
            return self.close() + piece.raw
        before: list[bytes] = []
        for item in document.items(document.members(document.root).get("choices")):
            choice = document.members(item)
            number = document.plain(choice.get("index"))
            before.append(self._choice(piece, document, choice, number if isinstance(number, int) else 0))
        return b"".join(before) + rendered(piece, document)

    def close(self) -> bytes:
        return self._flush(list(self._calls))

    def document(self, body: bytes) -> bytes:
        document = Document(body)
        for item in document.items(document.members(document.root).get("choices")):
            message = document.members(document.members(item).get("message"))
            for value in document.items(message.get("tool_calls")):
                call = document.members(value)
                for shape, member in _SHAPES.items():
                    made = document.members(call.get(shape))
                    name = document.string(made.get("name")) or ""
                    edit_value(document, made.get(member), self._open(name, freeform=shape == "custom"))
        return document.render()

    def _choice(self, piece: Piece, document: Document, choice: dict[str, Raw], number: int) -> bytes:
        """Edits one choice of a chunk; gives what must come before it."""
        ends = document.plain(choice.get("finish_reason")) is not None
        fragments: dict[tuple[int, int], list[Raw]] = {}
        for at, item in enumerate(document.items(document.members(choice.get("delta")).get("tool_calls"))):
            index = document.plain(document.members(item).get("index"))
            key = (number, index if isinstance(index, int) else at)
            fragments.setdefault(key, []).append(item)
        over = [key for key in self._calls if key[0] == number and key not in fragments]
        before = self._flush(over if ends or fragments else [])
        for key, items in fragments.items():
            for item in items:
                last = ends and item is items[-1]
                before += self._fragment(piece, document, document.members(item), key, last=last)
        return before

    def _fragment(
        self, piece: Piece, document: Document, item: dict[str, Raw], key: tuple[int, int], *, last: bool
    ) -> bytes:
        given = document.string(item.get("id")) or ""
        known = self._calls.get(key)
        # Some providers use one index for several calls.
        before = b""
        if known is not None and given and known.id and given != known.id:
            before, known = self._flush([key]), None
        if known is None:
            known = self._calls[key] = _ChatCall(given)
        shape = "custom" if "custom" in item else "function"
        made = document.members(item.get(shape))
        name = document.string(made.get("name")) or ""
        known.name += "" if name == known.name else name
        value = made.get(_SHAPES[shape])
        if value is None or not known.name:
            return before
        text = document.string(value)
        if text is None:
            edit_value(document, value, self._open(known.name, freeform=shape == "custom"))
        elif text or known.opened:
            new = self._feed(piece, known, key, shape, text)
            if last:
                new += known.call.arguments.finish() if known.call else ""
                del self._calls[key]
            if new != text:
                document.replace(value, new)
        return before

    def _feed(self, piece: Piece, known: _ChatCall, key: tuple[int, int], shape: str, text: str) -> str:
        if not known.opened:
            known.opened = True
            arguments = self._open(known.name, freeform=shape == "custom")
            known.call = Call(arguments) if arguments is not None else None
        if known.call is None:
            return text
        return known.call.feed(piece, text, partial(_only, key, shape))

    def _flush(self, keys: list[tuple[int, int]]) -> bytes:
        calls = [self._calls.pop(key).call for key in keys]
        return b"".join([call.flush() for call in calls if call is not None])


def _only(key: tuple[int, int], shape: str, document: Document, text: str) -> None:
    """Make a copy of a chunk say nothing but some arguments of one call."""
    members = document.members(document.root)
    call = {"index": key[1], shape: {_SHAPES[shape]: text}}
    choice = {"index": key[0], "delta": {"tool_calls": [call]}, "finish_reason": None}
    document.replace(members["choices"], [choice])
    if "usage" in members:
        document.replace(members["usage"], None)


@dataclass(slots=True)
class _Item:
    """A call of an answer, as far as it is known."""

    kind: str
    name: str
    call: Call | None = None


@dataclass(slots=True)
class ResponsesEdits:
    """Responses."""

    open: Open
    _items: dict[int, _Item] = field(default_factory=dict)
    """Calls by their place in the answer."""
    _added: int = 0
    """Pieces that the provider did not send."""
    _number: int = 0
    """The next number of the sequence."""

    def piece(self, piece: Piece) -> bytes:
        if piece.data is None:
            return piece.raw
        try:
            document = Document(piece.data)
        except NotJson:
            return piece.raw
        members = document.members(document.root)
        number = document.plain(members.get("sequence_number"))
        self._number = number + self._added if isinstance(number, int) else self._number
        before = self._edit(piece, document, members)
        if isinstance(number, int) and number != self._number:
            document.replace(members["sequence_number"], self._number)
        self._number += 1
        return before + rendered(piece, document)

    def close(self) -> bytes:
        return b"".join([self._flush(place) for place in list(self._items)])

    def document(self, body: bytes) -> bytes:
        document = Document(body)
        self._output(document, document.members(document.root))
        return document.render()

    def _edit(self, piece: Piece, document: Document, members: dict[str, Raw]) -> bytes:
        name = document.string(members.get("type")) or ""
        self._output(document, document.members(members.get("response")))
        place = document.plain(members.get("output_index"))
        if not isinstance(place, int):
            return b""
        if name == "response.output_item.added":
            self._begin(document, document.members(members.get("item")), place)
        elif name in _FRAGMENTS:
            self._fragment(piece, document, members, place)
        elif name in _FINISHED:
            before = self._flush(place)
            if (item := self._items.get(place)) is not None:
                value = members.get(_FINISHED[name])
                edit_value(document, value, self._open_item(item.kind, item.name))
            return before
        elif name == "response.output_item.done":
            before = self._flush(place)
            self._item(document, document.members(members.get("item")))
            return before
        return b""

    def _begin(self, document: Document, item: dict[str, Raw], place: int) -> None:
        kind = document.string(item.get("type")) or ""
        if kind in CALLS:
            name = document.string(item.get("name")) or CALLS[kind][0]
            arguments = self._open_item(kind, name)
            self._items[place] = _Item(kind, name, Call(arguments) if arguments is not None else None)
            self._item(document, item)

    def _fragment(self, piece: Piece, document: Document, members: dict[str, Raw], place: int) -> None:
        item, value = self._items.get(place), members.get("delta")
        if item is None or item.call is None or value is None:
            return
        text = document.string(value) or ""
        new = item.call.feed(piece, text, self._delta)
        if new != text:
            document.replace(value, new)

    def _delta(self, document: Document, text: str) -> None:
        members = document.members(document.root)
        document.replace(members["delta"], text)
        if "sequence_number" in members:
            document.replace(members["sequence_number"], self._number)
            self._added += 1
            self._number += 1

    def _flush(self, place: int) -> bytes:
        item = self._items.get(place)
        if item is None or item.call is None:
            return b""
        call, item.call = item.call, None
        return call.flush()

    def _output(self, document: Document, response: dict[str, Raw]) -> None:
        for item in document.items(response.get("output")):
            self._item(document, document.members(item))

    def _item(self, document: Document, item: dict[str, Raw]) -> None:
        kind = document.string(item.get("type")) or ""
        if kind in CALLS:
            default, member = CALLS[kind]
            arguments = self._open_item(kind, document.string(item.get("name")) or default)
            edit_value(document, item.get(member), arguments)

    def _open_item(self, kind: str, name: str) -> Arguments | None:
        return self.open(name, freeform=kind == "custom_tool_call")
