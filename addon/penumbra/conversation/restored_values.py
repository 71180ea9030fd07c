"""This module implements `penumbra_restore_secrets`. With this option, the model can edit files that
contain secrets.

In a response, placeholders become values after all other processing. In the next request, the values become
placeholders before all other processing, so that the provider gets no value. The values are known from the
tool results that clients send again. If a client no longer sends a result, the store has the place of its
value in the arguments, but not the value (`store/records.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cachetools import LRUCache

from penumbra import errors
from penumbra.apis import parts
from penumbra.apis.formats import FORMATS
from penumbra.apis.parts import PastCall
from penumbra.apis.prompt import declared_schemas
from penumbra.compress.calls.tools import hint
from penumbra.compress.result import Redacted
from penumbra.conversation.items import Item
from penumbra.conversation.model import Request, Shown
from penumbra.redaction import RedactionError
from penumbra.redaction.redact_calls import Redact
from penumbra.redaction.redactor import Redactor, Scan
from penumbra.redaction.restore import restorer
from penumbra.redaction.restore.restorer import Folder, Restorer, Values, Vault, exact, restorer_of
from penumbra.redaction.restore.value_places import (
    Leaf,
    edits_of,
    found,
    leaves,
    replaced,
    sent_stretches,
    swept,
)
from penumbra.store.decisions import KNOWN_VALUE, Decision, Facts
from penumbra.store.records import Restorations, Stretches
from penumbra.store.stores import Stores
from penumbra.wire.document import Document, Edit, edited

_MEMORY = 16_384
"""The greatest number of calls whose edits are kept in memory."""
_SURE = 12
"""Shorter values are searched for only in the strings of edits."""
_NEVER = sys.maxsize
_ELSEWHERE = frozenset({"previous_response_id", "conversation", "thread"})
"""With one of these members, the request continues turns that only the provider has."""
_log = logging.getLogger(__name__)
Scanner = Callable[[str, str], Scan]
"""A function that searches a text for secrets. The second argument is a path or command. Raises
RedactionError."""


@dataclass(slots=True, repr=False, eq=False)
class Restoration:
    """A `Restoration` has the values that may be put back into one response, and those that were."""

    format: str
    conversation: bytes
    values: Values
    folder: Folder
    """The working folder. Relative paths start there."""
    declared: Mapping[str, str]
    """The `declared` argument of `restorer.edited`."""
    past: Restorations
    used: dict[str, str] = field(default_factory=dict)
    """The values that were put back, by placeholder."""
    _noted: dict[bytes, Stretches] = field(default_factory=dict)
    _sent: set[str] = field(default_factory=set)

    @property
    def calls(self) -> int:
        """The number of different calls into which values were put back."""
        return len(self._sent)

    def open(self, tool: str, *, freeform: bool = False) -> Restorer | None:
        """Return a restorer for the arguments of a call; None if no values may be put into them."""
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
        """Store the places of the values that were put back."""
        await self.past.put(self._noted)

    def concealed(self, content: bytes) -> bytes:
        """Return a sent response with placeholders in place of the values."""
        return swept(content, self.used)


class RestoredValues:
    """A `RestoredValues` keeps the values of conversations, and the edits that remove them from requests."""

    def __init__(self, stores: Stores, redactor: Callable[[], Awaitable[Redactor]]) -> None:
        self._past = stores.restorations
        self._decisions = stores.decisions
        self._redactor = redactor
        self._vault = Vault()
        self._edits: LRUCache[bytes, tuple[Edit, ...]] = LRUCache(_MEMORY)
        """For each call, by `_call_key`, the edits that replace values by placeholders. The offsets are in
        the call's arguments."""

    async def conceal(self, request: Request) -> bool:
        """Replace values by placeholders in the arguments of past calls. Return whether there were any
        values. Values are replaced even if the option is off, because the option may have been on during
        earlier requests."""
        document, conversation = request.document, request.caller.possessed
        calls = [
            (self._call_key(conversation, document, call), call)
            for call in request.wire.past_calls(request.document)
            if restorer.edit_kind(call.name)
        ]
        past_edits = {key: self._edits[key] for key, _ in calls if key in self._edits}
        new = {key: call for key, call in calls if key not in past_edits}
        if new:
            scan = (await self._redactor()).scan if request.settings.restores_secrets else None
            past_edits |= await self._read(request, conversation, new, scan)
        self._edits.update(past_edits)
        concealed = [(call.arguments, past_edits[key]) for key, call in calls if past_edits[key]]
        for arguments, edits in concealed:
            document.amend(arguments, edited(document.source(arguments), edits))
        return bool(concealed)

    @staticmethod
    def _call_key(conversation: bytes, document: Document, call: PastCall) -> bytes:
        """Return the key of a call's edits: a hash of the arguments and the turn, because edits depend on the
        arguments and on earlier results."""
        digest = hashlib.blake2b(document.source(call.arguments), key=conversation, digest_size=16)
        digest.update(b"\0%d" % call.turn)
        return digest.digest()

    async def _read(
        self, request: Request, conversation: bytes, calls: Mapping[bytes, PastCall], scan: Scanner | None
    ) -> dict[bytes, tuple[Edit, ...]]:
        decided: Mapping[bytes, Decision] = {}
        if scan is not None:
            decided = await self._decisions.get(item.key for item in request.items)

        def work() -> dict[bytes, list[Leaf]]:
            if scan is not None:
                known = ((item, decided[item.key].facts) for item in request.items if item.key in decided)
                self._learn(request, conversation, known, scan)
            return {key: list(leaves(request.document, call.arguments)) for key, call in calls.items()}

        # After a restart, the work may be about a whole conversation, so a thread does it.
        found = await asyncio.to_thread(work)
        past = await self._past.get(_key(conversation, leaf.text) for each in found.values() for leaf in each)
        hide = scan is not None
        edits, fresh = await asyncio.to_thread(self._decide, request, conversation, calls, found, past, hide)
        await self._past.put(fresh)
        return edits

    def _decide(
        self,
        request: Request,
        conversation: bytes,
        calls: Mapping[bytes, PastCall],
        leaves: Mapping[bytes, list[Leaf]],
        past: Mapping[bytes, Stretches],
        hide: bool,
    ) -> tuple[dict[bytes, tuple[Edit, ...]], dict[bytes, Stretches]]:
        """Return the edits of calls, and new places to store. Without `hide`, only stored places are
        edited."""
        decided: dict[bytes, tuple[Edit, ...]] = {}
        fresh: dict[bytes, Stretches] = {}
        for key, call in calls.items():
            before = [item.key for item in request.items if item.result.turn < call.turn]
            values = self._vault.values(conversation, before).every() if hide else {}
            places: list[tuple[Leaf, Stretches]] = []
            for leaf in leaves[key]:
                name = _key(conversation, leaf.text)
                stretches = past.get(name, ())
                if not stretches and (stretches := found(leaf.text, values)):
                    fresh[name] = stretches
                places.append((leaf, stretches))
            decided[key] = _relative(request.document, call, edits_of(places), values)
        return decided, fresh

    def redacting(self, request: Request, redact: Redact) -> Redact:
        """Return a function that redacts a text by `redact`, and then the secrets that other results of the
        conversation have."""
        values = self._values(request).every()
        values = {mark: value for mark, value in values.items() if len(value) >= _SURE}
        if not values:
            return redact

        def also(text: str, hint: str) -> Redacted:
            redacted = redact(text, hint)
            stretches = found(redacted.text, values)
            if not stretches:
                return redacted
            counts = Counter(redacted.counts)
            counts[KNOWN_VALUE] += len(stretches)
            return Redacted(replaced(redacted.text, stretches), dict(sorted(counts.items())))

        return also

    def _learn(
        self, request: Request, conversation: bytes, decided: Iterable[tuple[Item, Facts]], scan: Scanner
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
                    _log.warning("Penumbra does not put values of a result back: %s", errors.place(error))
            self._vault.keep(conversation, item.key, path, values)

    async def of_response(self, request: Request, results: Iterable[Shown]) -> Restoration | None:
        """Return the values that the response to a request may get; None if there are no values."""
        conversation = request.caller.possessed
        with errors.contained(_log, "Penumbra puts nothing back into a response", logging.WARNING):
            decided = [(shown.item, shown.facts) for shown in results]
            self._learn(request, conversation, decided, (await self._redactor()).scan)
            values = self._values(request)
            if not values or request.format not in FORMATS:
                return None
            folder = Folder(_root(request), _first_move(request) < _NEVER)
            declared = _declared_paths(request)
            return Restoration(request.format, conversation, values, folder, declared, self._past)
        return None

    def _values(self, request: Request) -> Values:
        return self._vault.values(request.caller.possessed, [item.key for item in request.items])


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


def _root(request: Request) -> str:
    return restorer.stated_folder(request.conversation.opening, request.document.text())


def _declared_paths(request: Request) -> dict[str, str]:
    """Return the `declared` argument of `restorer.edited`. The string is empty for a tool whose schema has no
    such property or several of them, and for a tool that is declared twice."""
    paths: dict[str, str] = {}
    tools = request.wire.schema_arrays(request.document)
    for name, properties in declared_schemas(request.document, tools):
        named = [property_name for property_name in properties if restorer.names_file(property_name)]
        paths[name] = named[0] if len(named) == 1 and name not in paths else ""
    return paths


def _first_move(request: Request) -> int:
    """Return the turn of the first call that may have changed the working folder, or `_NEVER`."""
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
    """Return the key of the places in a string where values were put back."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, key=conversation, digest_size=16, person=b"penumbra restore").digest()
