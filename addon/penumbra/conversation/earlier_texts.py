"""This module collects the texts of a request to which a later result may refer: forwarded results and
arguments of calls.

A reference replaces a result that is identical to an earlier result of the request (`same`), or lines that an
earlier text also has (`by_reference`). Results are identical if the client sent the same text for both. Two
results with different secrets therefore differ.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct, structs

from penumbra.apis import parts, prefix_hash
from penumbra.apis.parts import ResultText
from penumbra.compress.calls import json_envelope
from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.envelope import is_cut
from penumbra.compress.result import Loss, Shortened, ShownBefore
from penumbra.compress.stages import line_numbers, terminal
from penumbra.compress.text import Text
from penumbra.conversation import provider_history
from penumbra.conversation.back_references import STAGE, Referring, with_references
from penumbra.conversation.call_names import (
    CallName,
    Clean,
    Remembered,
    call_key,
    call_name,
    can_name,
    is_plain,
)
from penumbra.conversation.items import Item
from penumbra.conversation.line_index import LineIndex, LineIndexes
from penumbra.conversation.model import Request
from penumbra.store.decisions import Facts
from penumbra.store.exchanges import ProviderResult
from penumbra.wire.document import Document

_CALL_ID = attrgetter("result.call_id")
LEAST_CHARACTERS = 250
"""In a text of fewer characters, references don't replace lines."""
LEAST_TOKENS = 100
"""No reference replaces a whole text with fewer estimated tokens."""
_KEEP_LINES = frozenset(
    {"redaction", "terminal", "envelope", "json_envelope", "own_path", "line_numbers", "json_minify"}
    | {STAGE}
)
"""Stages that leave each line of a result as a line of the output."""
_CODED = re.compile(
    r"(?:<<<SHADOW:shadow_[0-9a-f]{18,32}>>>\n[^\n]{0,400}\n)?"
    r"(?:\[patterns; \"~A 1 2\" |(?:\{[^\n]{0,4000}\n)?\[table 1: [0-9]+ objects; )"
)
"""A result with one of these beginnings was encoded by another proxy."""


def keeps_lines(text: str, stages: Collection[str]) -> bool:
    """Return whether, after these stages, each line of a result is still a line of the output."""
    return _KEEP_LINES.issuperset(stages) and _CODED.match(text) is None


def output_of(text: str, tool: str, call: Call) -> str:
    """Return an incoming result as a screen shows it, with the output of its JSON as lines. Return an empty
    text if another proxy has encoded the result."""
    if _CODED.match(text):
        return ""
    opened = json_envelope.opened(Text.of(text).envelope, tool, call)
    output = text if opened is None else opened
    if not terminal.may_act(output) or call.shows_files or call.is_coloured:
        return output
    return terminal.render(output, moves=not call.is_quoted)


class _Text(NamedTuple):
    """A `_Text` is a forwarded result or the arguments of a call."""

    key: bytes
    hash: bytes
    """A hash of the forms of this text and of all earlier texts."""
    characters: int
    """The total size of this text and all earlier texts: characters of results, bytes of arguments."""
    result: ResultText | None
    """The result; None if it is in a history that the provider stores."""
    text: str | None = None
    """The forwarded text of a result; None for arguments, and for a result that references may not name."""
    is_call: bool = False
    original: str | None = None
    """The incoming result if its lines differ from the forwarded text; otherwise None."""
    loss: int = Loss.NONE
    provider_name: str = ""
    """The name of a result in the provider's stored history; empty for others."""
    same_as: bytes = b""
    """The key of the earlier text that this text duplicates; empty if there is no such text."""


class Referent(NamedTuple):
    """A `Referent` is a result that a duplicate may refer to."""

    key: bytes
    tool: str
    is_complete: bool
    """True if the text is the whole result."""


class TextsSoFar(Struct):
    """A `TextsSoFar` has the texts of the first messages to which later texts may refer."""

    unique: frozenset[str]
    """Call ids that occur once in the request. Only these ids can name a result."""
    texts: list[_Text] = msgspec.field(default_factory=list)
    turn: int = -1
    """The index of the message with the last result so far; -1 if there is none."""
    referents: dict[bytes, Referent] = msgspec.field(default_factory=dict)
    """The first result with an incoming text, by the digest of the text."""
    lasting: dict[bytes, bool] = msgspec.field(default_factory=dict)
    """For each text, by key, whether references may name its lines. False only for superseded and recovered
    results."""
    ambiguous: set[bytes] = msgspec.field(default_factory=set)
    """The keys of results whose id has occurred again. References that were already sent stay, but no new
    reference names these results."""
    reformed: set[bytes] = msgspec.field(default_factory=set)
    """The keys of results that lost lines in this request. Earlier references may rely on these lines."""

    def copy(self) -> TextsSoFar:
        """Return a copy for a later request, in which no text is new."""
        return TextsSoFar(
            *(self.unique, self.texts.copy(), self.turn, self.referents.copy(), self.lasting.copy()),
            self.ambiguous.copy(),
        )


def _unique(call_ids: Iterable[str]) -> frozenset[str]:
    """Return the ids that occur once and can be written in a reference."""
    listed = list(call_ids)
    unique = frozenset(listed)
    # One test of all ids together is faster. In most requests all ids are plain.
    if len(unique) == len(listed) and all(listed) and is_plain("".join(listed) or "none"):
        return unique
    return frozenset(one for one, count in Counter(listed).items() if count == 1 and is_plain(one))


@dataclass(slots=True)
class EarlierTexts:
    """An `EarlierTexts` collects the texts of a request in order, and makes references to them."""

    request: Request
    line_indexes: LineIndexes
    """Line indexes of active conversations."""
    edited_calls: frozenset[str] = frozenset()
    """Ids of calls whose arguments are shortened."""
    provider_results: tuple[ProviderResult, ...] = ()
    """The results in the history that the provider stores, in order."""
    clean: Clean = str
    """The function that removes secrets from the names of calls."""
    show: Callable[[str], str] = str
    """The function that returns the part of a tool's name that may be shown."""
    shown: Remembered | None = None
    """Remembered names of paths and commands."""
    so_far: TextsSoFar = field(init=False)
    _line_index: LineIndex | None = None
    _indexed: int = 0
    """The number of texts in the line index."""
    _compaction: int = field(init=False)
    """The index of the message with the last compaction; -1 if there is no compaction."""
    _front: int = 0
    """The offset at which the message with the last compaction begins."""
    _calls: dict[int, Call] = field(default_factory=dict)
    """The calls by the `id()` of their results. The request keeps the results alive."""
    _names: dict[int, str] = field(default_factory=dict)
    """Names of the calls in `_calls`, by the same keys."""
    _output: tuple[str, Call, Text] | None = None
    """The incoming text that was read last, with its call and its output."""

    def __post_init__(self) -> None:
        document, messages = self.request.document, self.request.conversation.messages
        self._compaction = provider_history.last_compaction(document, messages)
        if self._compaction >= 0:
            self._front, _ = document.place(document.items(messages)[self._compaction])
        so_far = self.so_far = TextsSoFar(_unique(map(_CALL_ID, self.request.items)))
        for result in self.provider_results:
            mark = b"held" + result.key + result.name.encode("utf-8", "surrogatepass")
            self._add(mark, len(result.name), result.key, None, provider_name=result.name)
            if result.digest:
                so_far.referents[result.digest] = Referent(result.key, result.tool, result.complete)
                so_far.lasting[result.key] = True

    def _add(self, mark: bytes, size: int, key: bytes, result: ResultText | None, **more: Any) -> None:
        """Append the next text. `mark` is a hash of its content."""
        texts = self.so_far.texts
        before, characters = (texts[-1].hash, texts[-1].characters) if texts else (b"", 0)
        hashed = hashlib.blake2b(before + mark, key=self.request.scope[:64], digest_size=16).digest()
        texts.append(_Text(key, hashed, characters + size, result, **more))

    @property
    def is_simple(self) -> bool:
        """Return whether the earlier texts depend only on the messages before them and on the ids of
        results."""
        return self._compaction < 0 and not self.provider_results and not self.edited_calls

    def go_on_from(self, so_far: TextsSoFar) -> None:
        """Continue after the first messages, whose texts are known."""
        so_far.unique = self.so_far.unique
        self.so_far = so_far

    def tells_apart_as(self, so_far: TextsSoFar, call_ids: Sequence[str]) -> bool:
        """Return whether the ids that can name a result are the same here and in `so_far`."""
        then, now = (list(map(of.unique.__contains__, call_ids)) for of in (so_far, self.so_far))
        return then == now

    def note_call(self, result: ResultText) -> None:
        """Add the arguments of a call. The call's result and later results may refer to them."""
        self._go_on(result.turn)
        if result.call is None or result.call.arguments is None or result.call_id in self.edited_calls:
            return
        document = self.request.document
        if 0 <= self._compaction <= result.turn and document.place(result.call.arguments)[0] < self._front:
            # The compaction is between the call and its result.
            return
        size, hashed = document.about(result.call.arguments, _size_and_hash)
        if hashed and is_plain(result.call_id):
            key = call_key(result.call_id, hashed)
            self.so_far.lasting[key] = True
            if result.call_id in self.so_far.unique:
                self._add(key, size, key, result, is_call=True)

    def _go_on(self, turn: int) -> None:
        """Continue with the message of the next result. A compaction removes all texts before its message,
        and maybe texts in its message."""
        before = self.so_far.turn
        if before < turn and before <= self._compaction <= turn and self._compaction >= 0:
            self.so_far = TextsSoFar(self.so_far.unique)
            self._line_index, self._indexed = None, 0
        self.so_far.turn = turn

    def note(self, item: Item, text: str, facts: Facts, *, new: bool) -> None:
        """Add a result and the text that replaces it in the request."""
        self.note_form(item, facts, new=new)
        key = item.key
        if not self._is_referable(key):
            same = bytes.fromhex(facts.referents[0]) if facts.how == "duplicate" and facts.referents else b""
            self._add(key + b"-" + same, 0, key, item.result, same_as=same)
            return
        # A text with references begins with the id of its original. The references count the original's
        # lines.
        is_changed = (
            facts.loss >= Loss.LOSSY or STAGE in facts.stages or not keeps_lines(item.text, facts.stages)
        )
        original = item.text if is_changed else None
        mark = key + facts.bytes_after.to_bytes(8, "big") + bytes([facts.loss])
        if is_changed:
            mark += hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self._add(mark, len(text), key, item.result, text=text, original=original, loss=facts.loss)

    def note_form(self, item: Item, facts: Facts, *, new: bool = False) -> None:
        """Add a result without its lines, if the result can be named and is no duplicate."""
        key, call_id = item.key, item.result.call_id
        if facts.how == "duplicate" or not can_name(call_id, item.tool):
            return
        # A superseded or recovered result shows too little for new references. Earlier references to the
        # result stay.
        is_lasting, is_lossy = facts.how not in ("superseded", "recovered"), facts.loss >= Loss.LOSSY
        so_far = self.so_far
        if call_id not in so_far.unique:
            so_far.ambiguous.add(key)
        elif is_lasting:
            so_far.referents.setdefault(item.digest, Referent(key, item.tool, not is_lossy))
        so_far.lasting[key] = is_lasting
        (so_far.reformed.add if new and is_lossy else so_far.reformed.discard)(key)

    def _is_referable(self, key: bytes) -> bool:
        """Return whether new references may name lines of the text with this key."""
        return key not in self.so_far.ambiguous and self.so_far.lasting.get(key, False)

    def holds(self, facts: Facts) -> bool:
        """Return whether an earlier form is still right: the texts that it names still come before it, and
        still show the lines that it leaves out."""
        keys, lasting = list(map(bytes.fromhex, facts.referents)), self.so_far.lasting
        if STAGE not in facts.stages:
            return all(map(lasting.__contains__, keys))
        return self.so_far.reformed.isdisjoint(keys) and all(lasting.get(key, False) for key in keys)

    def same(self, item: Item) -> Referent | None:
        """Return the first result with the same incoming text, if any."""
        return self.so_far.referents.get(item.digest)

    def name(self, referent: Referent) -> CallName | None:
        """Return the name of an earlier result in references; None if the result can't be named."""
        return self._index().calls.name(referent.key, is_whole=True)

    def shown_before(self) -> ShownBefore:
        """Return the facts and lines that the texts so far show."""
        return self._index().shown_before()

    def by_reference(self, made: Shortened, item: Item) -> Referring | None:
        """Return an item's text with references in place of repeated lines; None if there are too few
        repeated lines."""
        call = _of_file(self.call(item.result), made.text)
        has_other_lines = made.loss >= Loss.LOSSY or not keeps_lines(item.text, made.stages)
        original = self._output_of(item.text, item.tool, call) if has_other_lines else None
        return with_references(self._index(), made.text, call, original)

    def keep_index(self) -> None:
        """Keep the line index for the next turn."""
        if self._line_index is not None and self._indexed:
            last = self.so_far.texts[self._indexed - 1]
            self.line_indexes.keep(last.hash, self._line_index, last.characters)

    def _index(self) -> LineIndex:
        """Return the index of the lines so far. If no turn has kept the index, it is built."""
        texts = self.so_far.texts
        if self._line_index is None:
            self._line_index, self._indexed = self.line_indexes.take([text.hash for text in texts])
        for position in range(self._indexed, len(texts)):
            self._add_to(self._line_index, position)
        self._indexed = len(texts)
        return self._line_index

    def _add_to(self, index: LineIndex, position: int) -> None:
        text = self.so_far.texts[position]
        if text.result is None:
            # Penumbra remembers only the latest of the provider's results.
            is_first = self._is_referable(text.key) and self._is_all()
            index.calls.note(text.key, text.provider_name, lasts=is_first)
        elif text.is_call:
            name = f"what {self._name(text.result)} was given"
            index.calls.note(text.key, name)
            arguments = parts.decoded_arguments(self.request.document, text.result.call)
            strings = list(parts.argument_strings(arguments))
            longest = max(strings, key=len, default="")
            for one in strings:
                if len(one) >= LEAST_CHARACTERS and (one is longest or "\n" in one):
                    index.note(text.key, name, one, is_argument=True, has_numbers=one is longest)
        else:
            before = self.so_far.texts[position - 1] if position else None
            self._add_result(index, text, text.result, before)

    def _add_result(self, index: LineIndex, text: _Text, result: ResultText, before: _Text | None) -> None:
        name, call = self._name(result), self.call(result)
        # For the model, all texts of a result are one result.
        answered = None if before is None or before.is_call else before.result
        if answered is None or answered.call_id != result.call_id or not result.call_id:
            index.calls.note(text.key, name, text.same_as, lasts=text.text is not None and self._is_all())
        if text.text is not None:
            tool = result.call.name if result.call else ""
            original = None if text.original is None else self._output_of(text.original, tool, call)
            if original is not None and text.loss < Loss.LOSSY and not text.text.startswith("<<<SHADOW:"):
                # The model can't ask for this original, so the output's first line is line 1.
                original = Text(original.envelope.body)
            is_whole = original is None and text.loss == Loss.NONE and not is_cut(text.text)
            index.note(
                *(text.key, name, text.text, original),
                is_numbered=line_numbers.count_lines(text.text, call, original),
                is_lossy=text.loss >= Loss.LOSSY,
                # Counting from the first line is right only if no line is missing.
                first=call.first_line if is_whole else 0,
            )
            if call.first_line and not is_whole:
                # A model may look for any of these lines in this result, although the result lacks some.
                printed = Text.of(text.text if original is None else original).envelope.body
                index.calls.note_lines(name, call.first_line, call.first_line + printed.count("\n"))

    def _output_of(self, text: str, tool: str, call: Call) -> Text:
        last = self._output
        if last is None or last[0] is not text or last[1] is not call:
            last = self._output = text, call, Text.of(output_of(text, tool, call))
        return last[2]

    def _is_all(self) -> bool:
        """Return whether Penumbra knows the provider's whole history before the request."""
        results = self.provider_results
        return not results or (len(results) < provider_history.MOST and results[0].key != b"")

    def call(self, result: ResultText) -> Call:
        """Return the classified call of one of the request's results."""
        call = self._calls.get(id(result))
        if call is None:
            tool = result.call.name if result.call else ""
            call = classify(tool, parts.decoded_arguments(self.request.document, result.call))
            self._calls[id(result)] = call
        return call

    def _name(self, result: ResultText) -> str:
        name = self._names.get(id(result))
        if name is None:
            tool = result.call.name if result.call else ""
            arguments = parts.decoded_arguments(self.request.document, result.call)
            name = call_name(tool, arguments, self.clean, self.show, self.shown, self.call(result))
            self._names[id(result)] = name
        return name


def _of_file(call: Call, text: str) -> Call:
    """Return the call of an unknown tool as a read if its text has a file's thinned line numbers; otherwise,
    return the call itself."""
    is_file = call.category == "other" and line_numbers.LEGEND in text[: line_numbers.HEADING]
    return structs.replace(call, category="read") if is_file else call


def _size_and_hash(document: Document, arguments: Raw) -> tuple[int, bytes]:
    """Return the size of a call's arguments and a hash of their text. The hash of a short text is empty."""
    size = len(document.source(arguments))
    return size, prefix_hash.arguments_hash(document, arguments) if size >= LEAST_CHARACTERS else b""
