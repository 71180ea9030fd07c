"""The texts of a request so far that a later result may say by reference: results as they were forwarded, and
the arguments of calls."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from msgspec import Raw

from penumbra.apis import parts, prefix_hash
from penumbra.apis.parts import ResultText
from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.envelope import is_cut
from penumbra.compress.result import Loss, Shortened, Told
from penumbra.compress.stages import line_numbers
from penumbra.conversation import dedup, earlier_lines, provider_history
from penumbra.conversation.back_references import Beginnings, LineIndex, LineIndexes, Referring
from penumbra.conversation.call_names import Clean, Name, ShownTexts, call_name
from penumbra.conversation.items import Item
from penumbra.conversation.model import Request
from penumbra.store.decisions import Facts
from penumbra.store.exchanges import ProviderResult
from penumbra.wire.document import Document

_CALL_ID = attrgetter("result.call_id")
LEAST = 250
"""Shorter texts (characters) can't say anything again that is worth a reference."""


class _Text(NamedTuple):
    """A text so far: a result as it was forwarded, or a call's arguments."""

    key: bytes
    mark: bytes
    """Hash of the text: another form of the result has another mark."""
    size: int
    """Characters or bytes, roughly."""
    text: str | None
    """The text; None for arguments of the result's call, or for a result that can't be referred to."""
    result: ResultText | None
    """The result; None if it is stored at the provider."""
    is_call: bool = False
    original: str | None = None
    """The result as it came, where the text has other lines."""
    is_lossy: bool = False
    """Something of it is left out."""
    held_name: str = ""
    """The name in references of a result that the provider has."""
    same_as: bytes = b""
    """Key of the earlier text that this one is a duplicate of."""
    is_whole: bool = False
    """Each line of the original stands there by itself."""


@dataclass(slots=True)
class TextsSoFar:
    """State of the notes after some of the messages."""

    seen: dedup.Seen
    beginnings: Beginnings
    """Hashes of the texts."""
    texts: list[_Text] = field(default_factory=list)
    turn: int = -1
    """Index of the message of the last result so far."""

    def copy(self) -> TextsSoFar:
        """An independent copy for a later request."""
        _take_in(self.beginnings, self.texts)
        return TextsSoFar(self.seen.copy(), self.beginnings.copy(), self.texts.copy(), self.turn)


def _take_in(beginnings: Beginnings, texts: Sequence[_Text]) -> None:
    """Have the beginnings be those of all texts."""
    for position in range(len(beginnings.hashes), len(texts)):
        text = texts[position]
        beginnings.take_in(text.mark, text.size)


@dataclass(slots=True)
class EarlierTexts:
    """Filled text by text, in the request's order."""

    request: Request
    line_indexes: LineIndexes
    """Line indexes of active conversations."""
    edited_calls: frozenset[str] = frozenset()
    """Ids of calls whose arguments are not all there."""
    provider_results: tuple[ProviderResult, ...] = ()
    """Results that the provider has before the request, in order."""
    clean: Clean = str
    """Takes secrets out of the names of calls in references."""
    show: Callable[[str], str] = str
    """Returns the part of a tool's name that may be shown."""
    shown: ShownTexts | None = None
    """Remembered names of paths and commands."""
    _seen: dedup.Seen = field(init=False)
    _texts: list[_Text] = field(default_factory=list)
    _beginnings: Beginnings = field(init=False)
    _line_index: LineIndex | None = None
    _indexed: int = 0
    """The number of texts in the line index."""
    _compaction: int = field(init=False)
    """Index of the message with the last compaction; -1 if there is none."""
    _front: int = 0
    """Where that message begins: offset."""
    _turn: int = -1
    """Index of the message of the last result so far."""
    _calls: dict[int, Call] = field(default_factory=dict)
    _output: tuple[str, Call, str] | None = None
    """A text as it came, its call and the output in it: of that which was asked for last."""
    """Earlier texts, by the identity of their results, which the request keeps alive."""
    _names: dict[int, str] = field(default_factory=dict)
    """Names of calls, by their position."""
    _clean_texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        document, messages = self.request.document, self.request.conversation.messages
        self._compaction = provider_history.last_compaction(document, messages)
        if self._compaction >= 0:
            self._front, _ = document.place(document.items(messages)[self._compaction])
        self._beginnings = Beginnings(self.request.scope)
        self._seen = dedup.Seen.of(map(_CALL_ID, self.request.items))
        for result in self.provider_results:
            name = result.name
            mark = b"held" + result.key + name.encode("utf-8", "surrogatepass")
            self._texts.append(_Text(result.key, mark, len(name), None, None, held_name=name))
            if result.digest:
                earlier = dedup.Earlier(result.key, result.tool, result.complete, lasting=True, is_new=False)
                self._seen.note_held(result.digest, earlier)

    @property
    def is_simple(self) -> bool:
        """True if notes of the first messages depend only on their texts and on which ids name a result."""
        return self._compaction < 0 and not self.provider_results and not self.edited_calls

    def so_far(self) -> TextsSoFar:
        """State of the notes so far, from which a later request can resume."""
        return TextsSoFar(self._seen, self._beginnings, self._texts, self._turn)

    def go_on_from(self, so_far: TextsSoFar) -> None:
        """The first messages were noted already."""
        so_far.seen.unique = self._seen.unique
        self._seen, self._beginnings = so_far.seen, so_far.beginnings
        self._texts, self._turn = so_far.texts, so_far.turn

    def tells_apart_as(self, so_far: TextsSoFar, call_ids: Sequence[str]) -> bool:
        """True if the same of these ids name a result in this request."""
        then, now = (list(map(seen.unique.__contains__, call_ids)) for seen in (so_far.seen, self._seen))
        return then == now

    def note_call(self, result: ResultText) -> None:
        """Notes the arguments of a call, which references may name from its own result on."""
        self._go_on(result.turn)
        if result.call is None or result.call.arguments is None or result.call_id in self.edited_calls:
            return
        document = self.request.document
        if self._compaction >= 0 and self._is_dropped(result.call.arguments, result.turn):
            return
        size, said = document.about(result.call.arguments, _said)
        if said and (key := self._seen.note_call(result.call_id, said)):
            self._texts.append(_Text(key, key, size, None, result, is_call=True))

    def _is_dropped(self, arguments: Raw, turn: int) -> bool:
        """True if a compaction stands between a call and its result."""
        return turn >= self._compaction and self.request.document.place(arguments)[0] < self._front

    def _go_on(self, turn: int) -> None:
        """The next result stands in this message. After a compaction, all before is nowhere any more; of its
        own message, nothing is certain."""
        if self._turn < turn and self._turn <= self._compaction <= turn and self._compaction >= 0:
            self._seen.drop()
            self._texts, self._line_index, self._indexed = [], None, 0
            self._beginnings = Beginnings(self.request.scope)
        self._turn = turn

    def note(self, item: Item, text: str, facts: Facts, *, new: bool) -> None:
        """A result was put into the request, as this text."""
        self.note_form(item, facts, new=new)
        if not self._seen.is_referable(item.key):
            same = bytes.fromhex(facts.referents[0]) if facts.how == "duplicate" and facts.referents else b""
            self._texts.append(_Text(item.key, item.key + b"-" + same, 0, None, item.result, same_as=same))
            return
        is_lossy = facts.loss >= Loss.LOSSY
        original = item.text if is_lossy or not earlier_lines.keeps_lines(item.text, facts.stages) else None
        is_whole = facts.loss == Loss.NONE and original is None
        mark = item.key + facts.bytes_after.to_bytes(8, "big") + bytes([is_whole])
        if original is not None:
            mark += hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self._texts.append(
            _Text(
                *(item.key, mark, len(text), text, item.result),
                original=original,
                is_lossy=is_lossy,
                is_whole=is_whole,
            )
        )

    def note_form(self, item: Item, facts: Facts, *, new: bool = False) -> None:
        """Notes a result's form where no references are made."""
        self._seen.note(item.digest, item.key, item.result.call_id, item.tool, facts, new)

    def holds(self, facts: Facts) -> bool:
        """True if what a text of the past refers to still stands earlier in the request."""
        return self._seen.holds(facts)

    def same(self, item: Item) -> dedup.Earlier | None:
        """An earlier result that is the same text."""
        return self._seen.find(item.digest)

    def name(self, earlier: dedup.Earlier) -> Name | None:
        """The name of an earlier result in references; None if it can't be named."""
        return self._index().named(earlier.key)

    def told(self) -> Told:
        """The facts that the texts so far show."""
        return self._index().told()

    def by_reference(self, made: Shortened, item: Item, *, lossy: bool) -> Referring | None:
        """The text of an item, as it was made, with what stands earlier by reference; None if there is too
        little. `lossy`: what was said here and there may be left out."""
        name, call = self._name(item.result), self.call(item.result)
        has_other_lines = made.loss >= Loss.LOSSY or not earlier_lines.keeps_lines(item.text, made.stages)
        original = self._output_of(item.text, call) if has_other_lines else None
        return self._index().with_references(made.text, call, name, original, lossy=lossy)

    def give_back(self) -> None:
        """Keep the line index for the next turn."""
        if self._line_index is not None and self._indexed:
            _take_in(self._beginnings, self._texts)
            noted, last = self._beginnings, self._indexed - 1
            self.line_indexes.give(noted.hashes[last], self._line_index, noted.characters[last])

    def _index(self) -> LineIndex:
        """Index of the lines so far; built only when a new text may repeat some."""
        if self._line_index is None:
            _take_in(self._beginnings, self._texts)
            self._line_index, self._indexed = self.line_indexes.take(self._beginnings.hashes)
        for position in range(self._indexed, len(self._texts)):
            self._note(self._line_index, position)
        self._indexed = len(self._texts)
        return self._line_index

    def _note(self, index: LineIndex, position: int) -> None:
        text = self._texts[position]
        if text.result is None:
            # The oldest of the provider's results are forgotten.
            index.note(text.key, text.held_name, lasts=self._is_first(text))
            return
        name, call = self._name(text.result), self.call(text.result)
        if text.is_call:
            name = f"what {name} was given"
            index.note(text.key, name)
            said = parts.argument_strings(parts.decoded_arguments(self.request.document, text.result.call))
            longest = max(said, key=len, default="")
            if len(longest) >= LEAST:
                index.note_text(text.key, name, longest, is_given=True)
            return
        # Several texts of one result are one result to a reader.
        before = self._texts[position - 1] if position else None
        answered = None if before is None or before.is_call else before.result
        is_first = answered is None or answered.call_id != text.result.call_id
        if is_first or not text.result.call_id:
            index.note(text.key, name, text.same_as, lasts=text.text is not None and self._is_all())
        if text.text is not None:
            # Lines that the agent itself has cut out can't be counted.
            is_whole = text.is_whole and not is_cut(text.text)
            first = call.first_line if is_whole else 0
            original = None if text.original is None else self._output_of(text.original, call)
            index.note_text(
                *(text.key, name, text.text, original),
                is_numbered=call.is_quoted and line_numbers.count_lines(text.text, call, original),
                is_lossy=text.is_lossy,
                first=first,
            )

    def _output_of(self, text: str, call: Call) -> str:
        """The output in a text as it came: a form by reference and what is noted of it ask one after the
        other."""
        last = self._output
        if last is None or last[0] is not text or last[1] is not call:
            last = self._output = text, call, earlier_lines.output_of(text, call)
        return last[2]

    def _is_first(self, text: _Text) -> bool:
        """True if nothing that the provider has stands before the first result of this name."""
        return self._seen.is_referable(text.key) and self._is_all()

    def _is_all(self) -> bool:
        """True if all is known that the provider has before the request."""
        results = self.provider_results
        return not results or (len(results) < provider_history.MOST and results[0].key != b"")

    def call(self, result: ResultText) -> Call:
        """The classified call of one of the request's results."""
        call = self._calls.get(id(result))
        if call is None:
            tool = result.call.name if result.call else ""
            call = classify(tool, parts.decoded_arguments(self.request.document, result.call))
            self._calls[id(result)] = call
        return call

    def _name(self, result: ResultText) -> str:
        """The name of that call."""
        name = self._names.get(id(result))
        if name is None:
            tool = result.call.name if result.call else ""
            given = parts.decoded_arguments(self.request.document, result.call)
            name = call_name(tool, given, self._cleaned, self.show, self.shown, self.call(result))
            self._names[id(result)] = name
        return name

    def _cleaned(self, text: str) -> str:
        """A path or command without its secrets: the same ones come again and again."""
        clean = self._clean_texts.get(text)
        if clean is None:
            clean = self._clean_texts[text] = self.clean(text)
        return clean


def _said(document: Document, arguments: Raw) -> tuple[int, bytes]:
    """The size of a call's arguments, and a hash of their text; empty if references to it are useless."""
    size = len(document.source(arguments))
    return size, prefix_hash.said_by(document, arguments) if size >= LEAST else b""
