"""This module implements `penumbra_restore_secrets`. With this option, the model can edit files that
contain secrets.

In a response, placeholders become values after all other processing. In the next request, the values
become placeholders before all other processing, so that the provider gets no value. The values are known
from the tool results that clients send again. If a client no longer sends a result, `store/records.py`
still knows the place of its value in the arguments, but not the value.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from cachetools import LRUCache
from msgspec import Raw

from penumbra.apis import parts
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.formats import FORMATS
from penumbra.apis.parts import Conversation, PastCall, ResultText
from penumbra.apis.prompt import declared_schemas
from penumbra.compress.calls.tools import hint
from penumbra.compress.result import Redacted
from penumbra.errors import place
from penumbra.redaction import RedactionError
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redact_calls import Redact
from penumbra.redaction.redactor import Scan
from penumbra.redaction.restore import restorer
from penumbra.redaction.restore.restorer import Folder, Restorer, Values, Vault, exact, restorer_of
from penumbra.store.decisions import Decision, Facts
from penumbra.store.keyed_values import KeyedValues
from penumbra.store.records import Restorations, Stretch, Stretches
from penumbra.wire.document import Document, Edit, edited
from penumbra.wire.json_values import NotJson

# Clients send the arguments of past calls again, as text or as JSON that may be formatted differently. Only
# the bytes of each value are replaced. The arguments then have the placeholders that the model wrote.
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+|\\", re.DOTALL
)
_LONG = 16
"""The least number of characters in a value that is also found if a word character adjoins one end."""
_WORD = re.compile(r"\w")
_SPELLINGS = 4
"""The number of spellings of a value that are searched for: plain, and escaped one to three times."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A `Leaf` is one string in the arguments of a call."""

    text: str
    document: Document
    value: Raw
    """The string in `document`."""
    inner: tuple[Document, Raw] | None = None
    """The JSON in the string `value`, and the leaf's string in this JSON; None if `value` is other text."""

    def edit(self, stretches: Sequence[Stretch]) -> Iterator[Edit]:
        """Yield the edits of `document` that replace the stretches of the leaf by their placeholders."""
        if self.inner is not None:
            inner, leaf = self.inner
            begin, raw = _inside(inner, leaf)
            begin = len(inner.data[:begin].decode("utf-8"))
            stretches = [
                Stretch(begin + stretch.start, begin + stretch.end, stretch.mark)
                for stretch in _outwards(raw, stretches)
            ]
        start, raw = _inside(self.document, self.value)
        for stretch in _outwards(raw, stretches):
            at = start + len(raw[: stretch.start].encode("utf-8"))
            end = at + len(raw[stretch.start : stretch.end].encode("utf-8"))
            yield Edit(at, end, stretch.mark.encode("ascii"))


def leaves(document: Document, arguments: Raw) -> Iterator[Leaf]:
    """Yield the strings in arguments, which are a JSON object, a string that contains one, or plain text."""
    text = document.string(arguments)
    if text is None:
        for value in _strings(document, arguments):
            yield Leaf(document.string(value) or "", document, value)
        return
    inner = _parsed(text)
    if inner is None:
        yield Leaf(text, document, arguments)
        return
    for value in _strings(inner, inner.root):
        yield Leaf(inner.string(value) or "", document, arguments, (inner, value))


def _parsed(text: str) -> Document | None:
    if text.lstrip()[:1] != "{":
        return None
    try:
        return Document(text.encode("utf-8"))
    except (NotJson, UnicodeEncodeError):
        return None


def _strings(document: Document, value: Raw) -> Iterator[Raw]:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if document.is_string(node):
            yield node
        waiting += reversed([*document.items(node), *document.members(node).values()])


def _inside(document: Document, value: Raw) -> tuple[int, str]:
    """Return the offset after a string's opening quote, and the JSON text between its quotes."""
    start, end = document.place(value)
    return start + 1, document.data[start + 1 : end - 1].decode("utf-8")


def _outwards(raw: str, stretches: Sequence[Stretch]) -> list[Stretch]:
    """Return the stretches of a decoded string as stretches of `raw`, the same string in JSON."""
    if "\\" not in raw:
        return list(stretches)
    places: dict[int, int] = {}
    wanted = sorted({place for stretch in stretches for place in (stretch.start, stretch.end)})
    decoded = index = 0
    for match in _CHARACTER.finditer(raw):
        length = 1 if match[0][0] == "\\" else len(match[0])
        while index < len(wanted) and wanted[index] < decoded + length:
            places[wanted[index]] = match.start() + wanted[index] - decoded
            index += 1
        decoded += length
    places |= dict.fromkeys(wanted[index:], len(raw))
    return [Stretch(places[stretch.start], places[stretch.end], stretch.mark) for stretch in stretches]


def found(text: str, values: Mapping[str, str]) -> list[Stretch]:
    """Return the places of values, by placeholder, in a text. Short values are found only as whole words."""
    by_value = {value: mark for mark, value in sorted(values.items(), reverse=True) if value in text}
    if not by_value:
        return []
    pattern = "|".join(re.escape(value) for value in sorted(by_value, key=lambda each: (-len(each), each)))
    return [
        Stretch(match.start(), match.end(), by_value[match[0]])
        for match in re.finditer(pattern, text)
        if not _is_part(text, match.start(), match.end())
    ]


def _is_part(text: str, start: int, end: int) -> bool:
    """Return whether a match is part of a longer word. A long match is part of a word only if both of its
    ends adjoin word characters."""
    before = start > 0 and bool(_WORD.match(text[start - 1]))
    after = end < len(text) and bool(_WORD.match(text[end]))
    return (before and after) if end - start >= _LONG else (before or after)


def replaced(text: str, stretches: Iterable[Stretch]) -> str:
    """Return the text with its stretches replaced by their placeholders."""
    pieces: list[str] = []
    at = 0
    for stretch in stretches:
        pieces += (text[at : stretch.start], stretch.mark)
        at = stretch.end
    return "".join([*pieces, text[at:]])


def swept(content: bytes, values: Mapping[str, str]) -> bytes:
    """Return the bytes with values replaced by placeholders. Nested JSON strings count, too."""
    spelled: dict[bytes, bytes] = {}
    for mark, value in values.items():
        for ascii_only in (False, True):
            spelling = value
            for _ in range(_SPELLINGS):
                spelled[spelling.encode("utf-8", "surrogatepass")] = mark.encode("ascii")
                spelling = json.dumps(spelling, ensure_ascii=ascii_only)[1:-1]
    for one in sorted(spelled, key=lambda each: (-len(each), each)):
        content = content.replace(one, spelled[one])
    return content


def aligned(written: str, sent: str, used: Mapping[str, str]) -> list[Stretch]:
    """Return the places of the values in `sent`, a string that the model wrote as `written`."""
    stretches: list[Stretch] = []
    at = shift = 0
    for match in PATTERN.finditer(written):
        at = match.start() + shift
        value = used.get(match[0])
        if value is not None and not sent.startswith(match[0], at) and sent.startswith(value, at):
            stretches.append(Stretch(at, at + len(value), match[0]))
            shift += len(value) - len(match[0])
    return stretches


def sent_stretches(written: str, sent: str, used: Mapping[str, str]) -> Iterable[tuple[str, list[Stretch]]]:
    """Yield each string in `sent` that contains values, with the places of the values. `sent` are the
    arguments with values, and `written` are the arguments as the model wrote them."""
    before, after = _parsed(written), _parsed(sent)
    if before is None or after is None:
        pairs = [(written, sent)]
    else:
        pairs = [
            (before.string(value) or "", after.string(other) or "")
            for value, other in zip(_strings(before, before.root), _strings(after, after.root), strict=True)
        ]
    for value, other in pairs:
        if value != other:
            yield other, aligned(value, other, used)


RULE = "known-value"
"""The rule id of values that are known from another result."""
_MEMORY = 16_384
"""The greatest number of calls whose edits are kept in memory."""
_SURE = 12
"""The smallest number of characters in a value that is searched for outside of the strings in edits."""
_NEVER = sys.maxsize
_ELSEWHERE = frozenset({"previous_response_id", "conversation", "thread"})
"""The members of a request that refer to earlier turns. Only the provider has these turns."""
_log = logging.getLogger(__name__)

Scanner = Callable[[str, str], Scan]
"""A function that searches a text for secrets. The second argument is a hint. Raises RedactionError."""


class ReadResult(Protocol):
    """A `ReadResult` is one text of a tool result."""

    @property
    def result(self) -> ResultText: ...

    @property
    def text(self) -> str: ...

    @property
    def key(self) -> bytes:
        """The key of the result's stored decision."""
        ...

    @property
    def tool(self) -> str: ...


class ReadRequest(Protocol):
    """A `ReadRequest` has the parts of a request that this module reads."""

    @property
    def format(self) -> str: ...

    @property
    def document(self) -> Document: ...

    @property
    def conversation(self) -> Conversation: ...

    @property
    def items(self) -> Sequence[ReadResult]: ...

    @property
    def wire(self) -> ApiFormat: ...


@dataclass(slots=True, repr=False, eq=False)
class Restoration:
    """A `Restoration` contains the values that one response may get, and the values that it got."""

    format: str
    conversation: bytes
    values: Values
    folder: Folder
    """The working folder. Relative paths start there."""
    declared: Mapping[str, str]
    """The `declared` argument of `restorer.edited`."""
    past: Restorations
    used: dict[str, str] = field(default_factory=dict)
    """The values that the response got, by placeholder."""
    _noted: dict[bytes, Stretches] = field(default_factory=dict)
    _sent: set[str] = field(default_factory=set)

    @property
    def calls(self) -> int:
        """The number of different calls that got values."""
        return len(self._sent)

    def open(self, tool: str, *, freeform: bool = False) -> Restorer | None:
        """Return a restorer for the arguments of a call; None if they may get no values."""
        opened = restorer_of(tool, self.values, self.folder, self.declared, freeform=freeform)
        if opened is not None:
            opened.note = self._note
        elif not restorer.settled(tool):
            # This call may change the working folder of later calls.
            self.folder = replace(self.folder, moved=True)
        return opened

    def _note(self, written: str, sent: str, used: Mapping[str, str]) -> None:
        self._sent.add(sent)
        self.used |= used
        noted = {
            _key(self.conversation, text): tuple(stretches)
            for text, stretches in sent_stretches(written, sent, used)
        }
        self._noted |= noted
        self.past.note(noted)

    async def keep(self) -> None:
        """Store the places of the values that the response got."""
        await self.past.put(self._noted)

    def concealed(self, content: bytes) -> bytes:
        """Return a response of the client with its values replaced by placeholders."""
        return swept(content, self.used)


class Restoring:
    """A `Restoring` keeps the values of conversations, and the edits that remove them from requests."""

    def __init__(self, past: Restorations, decisions: KeyedValues[Decision]) -> None:
        self._past = past
        self._decisions = decisions
        self._vault = Vault()
        self._edits: LRUCache[bytes, tuple[Edit, ...]] = LRUCache(_MEMORY)
        """Edits that replace values by placeholders, by `_call_key`, with offsets in the arguments."""

    async def conceal(self, request: ReadRequest, conversation: bytes, scan: Scanner | None) -> bool:
        """Replace values by placeholders in the arguments of past calls. Return whether there were any
        values. Raises RedactionError. `scan` is None if the option is off now. The option may have been on
        during earlier requests."""
        document = request.document
        calls = [
            (self._call_key(conversation, document, call), call)
            for call in request.wire.past_calls(request.document)
            if restorer.edit_kind(call.name)
        ]
        past_edits = {key: self._edits[key] for key, _ in calls if key in self._edits}
        new = {key: call for key, call in calls if key not in past_edits}
        if new:
            past_edits |= await self._read(request, conversation, new, scan)
        self._edits.update(past_edits)
        concealed = [(call.arguments, past_edits[key]) for key, call in calls if past_edits[key]]
        for arguments, edits in concealed:
            document.amend(arguments, edited(document.source(arguments), edits))
        return bool(concealed)

    @staticmethod
    def _call_key(conversation: bytes, document: Document, call: PastCall) -> bytes:
        """Return the key of a call's edits. The edits depend on the arguments and on the results before the
        call, so the key contains the call's turn."""
        digest = hashlib.blake2b(document.source(call.arguments), key=conversation, digest_size=16)
        digest.update(b"\0%d" % call.turn)
        return digest.digest()

    async def _read(
        self,
        request: ReadRequest,
        conversation: bytes,
        calls: Mapping[bytes, PastCall],
        scan: Scanner | None,
    ) -> dict[bytes, tuple[Edit, ...]]:
        decided: Mapping[bytes, Decision] = {}
        if scan is not None:
            decided = await self._decisions.get(item.key for item in request.items)

        def work() -> dict[bytes, list[Leaf]]:
            if scan is not None:
                known = ((item, decided[item.key].facts) for item in request.items if item.key in decided)
                self.learn(request, conversation, known, scan)
            return {key: list(leaves(request.document, call.arguments)) for key, call in calls.items()}

        # A thread does this work, because after a restart it may cover a whole conversation.
        found = await asyncio.to_thread(work)
        past = await self._past.get(_key(conversation, leaf.text) for each in found.values() for leaf in each)
        hide = scan is not None
        edits, fresh = await asyncio.to_thread(self._decide, request, conversation, calls, found, past, hide)
        await self._past.put(fresh)
        return edits

    def _decide(
        self,
        request: ReadRequest,
        conversation: bytes,
        calls: Mapping[bytes, PastCall],
        leaves: Mapping[bytes, list[Leaf]],
        past: Mapping[bytes, Stretches],
        hide: bool,
    ) -> tuple[dict[bytes, tuple[Edit, ...]], dict[bytes, Stretches]]:
        """Return the edits of calls, and the new places to store. Values are searched for with `hide`."""
        decided: dict[bytes, tuple[Edit, ...]] = {}
        fresh: dict[bytes, Stretches] = {}
        for key, call in calls.items():
            before = [item.key for item in request.items if item.result.turn < call.turn]
            values = self._vault.values(conversation, before).every() if hide else {}
            edits: list[Edit] = []
            for leaf in leaves[key]:
                name = _key(conversation, leaf.text)
                stretches = past.get(name, ())
                if not stretches and (stretches := found(leaf.text, values)):
                    fresh[name] = stretches
                edits += leaf.edit(stretches)
            decided[key] = _relative(request.document, call, edits, values)
        return decided, fresh

    def redacting(self, request: ReadRequest, conversation: bytes, redact: Redact) -> Redact:
        """Return a function that calls `redact`, then redacts values of the conversation's other results."""
        values = self._vault.values(conversation, [item.key for item in request.items]).every()
        values = {mark: value for mark, value in values.items() if len(value) >= _SURE}
        if not values:
            return redact

        def also(text: str, hint: str) -> Redacted:
            redacted = redact(text, hint)
            stretches = found(redacted.text, values)
            if not stretches:
                return redacted
            counts = Counter(redacted.counts)
            counts[RULE] += len(stretches)
            return Redacted(replaced(redacted.text, stretches), dict(sorted(counts.items())))

        return also

    def learn(
        self,
        request: ReadRequest,
        conversation: bytes,
        decided: Iterable[tuple[ReadResult, Facts]],
        scan: Scanner,
    ) -> None:
        """Store the values that were redacted in the results of this request."""
        new = [
            item
            for item, facts in decided
            if facts.redactions and facts.how != "adopted" and not self._vault.has(conversation, item.key)
        ]
        if not new:
            return
        root, moved = _root(request), _first_move(request)
        for item in new:
            arguments = parts.decoded_arguments(request.document, item.result.call)
            path = restorer.read_from(item.tool, arguments, Folder(root, moved <= item.result.turn))
            values: Mapping[str, str] = {}
            if path:
                try:
                    learned = scan(item.text, hint(arguments))
                    values = exact(learned.values, item.text)
                except RedactionError as error:
                    _log.warning("Penumbra does not put values of a result back: %s", place(error))
            self._vault.keep(conversation, item.key, path, values)

    def of_response(self, request: ReadRequest, conversation: bytes) -> Restoration | None:
        """Return the values that the response to a request may get; None if there are no values."""
        values = self._vault.values(conversation, [item.key for item in request.items])
        if not values or request.format not in FORMATS:
            return None
        folder = Folder(_root(request), _first_move(request) < _NEVER)
        declared = _declared_paths(request)
        return Restoration(request.format, conversation, values, folder, declared, self._past)


def _relative(
    document: Document, call: PastCall, edits: Iterable[Edit], values: Mapping[str, str]
) -> tuple[Edit, ...]:
    """Return the edits of a call's arguments, with offsets from the beginning of the arguments. The bytes are
    also searched, because a JSON parser skips the first of two members with the same name."""
    source, (begin, _) = document.source(call.arguments), document.place(call.arguments)
    moved = tuple(Edit(edit.start - begin, edit.end - begin, edit.data) for edit in edits)
    clean = edited(source, moved)
    whole = swept(clean, {mark: value for mark, value in values.items() if len(value) >= _SURE})
    return moved if whole == clean else (Edit(0, len(source), whole),)


def _root(request: ReadRequest) -> str:
    return restorer.stated_folder(request.conversation.opening, request.document.text())


def _declared_paths(request: ReadRequest) -> dict[str, str]:
    """Return the `declared` argument of `restorer.edited`. The string is empty for a tool whose schema has no
    such property or several such properties. The string is also empty for a tool that is declared twice."""
    paths: dict[str, str] = {}
    tools = request.wire.schema_arrays(request.document)
    for name, properties in declared_schemas(request.document, tools):
        named = [property_name for property_name in properties if restorer.names_file(property_name)]
        paths[name] = named[0] if len(named) == 1 and name not in paths else ""
    return paths


def _first_move(request: ReadRequest) -> int:
    """Return the turn of the first call that may have changed the working folder."""
    document = request.document
    if not _ELSEWHERE.isdisjoint(document.members(document.root)):
        # The request may lack calls of earlier turns that have changed the folder.
        return -1
    for call in request.wire.past_calls(request.document):
        texts = (leaf.text for leaf in leaves(document, call.arguments))
        if restorer.moves(call.name, texts):
            return call.turn
    return _NEVER


def _key(conversation: bytes, text: str) -> bytes:
    """Return the key under which the places of values in a string are stored."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, key=conversation, digest_size=16, person=b"penumbra restore").digest()
