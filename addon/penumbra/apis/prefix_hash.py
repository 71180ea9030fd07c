"""Hashes of the prefix before each message of a request, and of the prompt's beginning.

Forms of results and hidden parts of responses are remembered under the history before them, so only a request
with that history finds them. Clients write the same history in more than one way; `rules/history.yaml` says
what counts as the same. A message's share follows from its bytes alone.

`PromptHead` has the hashes of tools and system text, with which a cached prompt begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cachetools import LRUCache
from msgspec import Raw

from penumbra import rules
from penumbra.apis.gemini import inner
from penumbra.apis.openai_responses import is_of_model, kind
from penumbra.apis.session import stable
from penumbra.linear import utf8
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode

START = b""
"""The chain of a conversation of which nothing has been said."""
_MODEL_ROLES = ("assistant", "model")
_SPACE = bytes(code for code in range(128) if chr(code).isspace())
_TRUE, _NOT, _NOTHING = (b"true",), (b"null", b"false"), (b"null", b"false", b'""', b"[]", b"{}")
_PIECE = 1 << 20
_STABLE = 100_000
"""Characters of a text in which changing parts are looked for; the rest counts as it is."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Hashes of what stands before each message, and at last of all of them."""

    history: tuple[bytes, ...] = (START,)
    """Hashes of all texts, calls and results."""
    calls: tuple[bytes, ...] = (START,)
    """Hashes of the calls alone, which stay when a client clears old results."""
    responses: bool = True
    """Responses count."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The hashed content of one message."""

    is_response: bool
    text: bytes = b""
    """Text of a response, without white space."""
    calls: tuple[bytes, ...] = ()
    """Calls of a response."""
    digest: bytes = b""
    """Digest of the client's message; empty if nothing of it counts."""


@dataclass(slots=True)
class Links:
    """A chain in the making: of the messages so far."""

    referable: bool
    """Responses may be named by their ids: then what the client says counts."""
    _history: list[bytes]
    _calls: list[bytes] = field(default_factory=lambda: [START])
    _text: bytes = b""
    _made: tuple[bytes, ...] = ()
    """Text and calls of the unfinished response."""

    def __len__(self) -> int:
        return len(self._history) + len(self._calls)

    def copy(self) -> Links:
        """An independent copy; later messages don't touch the original."""
        return Links(self.referable, self._history.copy(), self._calls.copy(), self._text, self._made)

    def add(self, document: Document, message: Raw) -> bytes:
        """The next message; what calls stand before it."""
        before, piece = self._calls[-1], document.about(message, _piece)
        state = self._history[-1]
        if piece.is_response and not self.referable:
            # The number of messages that a response is cut into means nothing.
            self._text += piece.text
            self._made += piece.calls
        elif piece.digest and not piece.is_response:
            state = said(answered(state, self._text, self._made), piece.digest)
            self._text, self._made = b"", ()
        self._history.append(state)
        self._calls.append(_link(before, b"calls", *piece.calls) if piece.calls else before)
        return before

    def chain(self) -> Chain:
        """Hashes before each message so far, and after the last."""
        return Chain(tuple(self._history), tuple(self._calls), not self.referable)


def links(document: Document, start: bytes = START) -> Links:
    """The chain of a request before its messages; `start`: of what the provider has of it already."""
    # Where the provider stores items, their ids may stand for responses: then what the client says counts.
    top = document.members(document.root)
    return Links("input" in top and document.plain(top.get("store")) is not False, [start])


def read(document: Document, messages: Raw | None, start: bytes = START) -> Chain:
    """The chain of a request's messages; `start`: of what the provider has of it already."""
    if messages is None:
        return Chain((start,), (START,))
    made = links(document, start)
    if document.is_string(messages):
        told = said(start, _of_client(document, messages, "user"))
        return Chain((start, told), (START, START), not made.referable)
    for message in document.items(messages):
        made.add(document, message)
    return made.chain()


def of(document: Document, start: bytes = START) -> Chain:
    """Hashes of a request of any API, by the member that holds its messages."""
    top = document.members(document.root)
    messages = top.get("messages", top.get("input"))
    return read(document, inner(document).get("contents") if messages is None else messages, start)


def said(history: bytes, digest: bytes) -> bytes:
    """The chain after something that the client said."""
    return _link(history, b"said", digest)


def answered(history: bytes, text: bytes, calls: Sequence[bytes]) -> bytes:
    """The chain after a response. Words beside calls don't count: some clients leave them out."""
    if calls:
        return _link(history, b"calls", *calls)
    return _link(history, b"text", text) if text else history


def plain(text: str) -> bytes:
    """A text without white space."""
    return b"".join(_plain(text))


def _plain(text: str) -> Iterator[bytes]:
    """Pieces of a text without white space, so small that others go on between them."""
    for begin in range(0, len(text), _PIECE):
        piece = text[begin : begin + _PIECE]
        if piece.isascii():
            yield piece.encode("ascii").translate(None, _SPACE)
        else:
            yield "".join(piece.split()).encode("utf-8", "surrogatepass")


def call(name: str, arguments: Any) -> bytes:
    """The hashed content of a call: not the order of its arguments, nor null ones."""
    if isinstance(arguments, str):
        try:
            said = decode(arguments.encode("utf-8", "surrogatepass"))
        except NotJson:
            said = arguments
        arguments = said if isinstance(said, dict | list) else arguments
    if isinstance(arguments, dict):
        arguments = {key: value for key, value in arguments.items() if value is not None}
    form = json.dumps([name, arguments], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(form.encode("ascii"), digest_size=16).digest()


def said_by(document: Document, arguments: Raw) -> bytes:
    """A hash of what a call is called with."""
    return document.about(arguments, _said_by)


def _said_by(document: Document, arguments: Raw) -> bytes:
    return call("", decode(document.source(arguments)))


def _link(state: bytes, tag: bytes, *parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16, person=b"penumbra chain")
    for part in (state, tag, *parts):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class _HistoryRules:
    transparent: frozenset[str]
    ignored: frozenset[str]
    texts: frozenset[str]
    unseen_types: frozenset[str]
    unseen_roles: frozenset[str]
    calls: frozenset[str]
    arguments: tuple[str, ...]


@cache
def _history_rules() -> _HistoryRules:
    content = rules.load("history.yaml")
    return _HistoryRules(
        frozenset(content["transparent"]),
        frozenset(content["ignored"]),
        frozenset(content["texts"]),
        frozenset(content["unseen"]["types"]),
        frozenset(content["unseen"]["roles"]),
        frozenset(content["calls"]),
        tuple(content["arguments"]),
    )


def _piece(document: Document, message: Raw) -> Piece:
    try:
        return _read_piece(document, message)
    except RecursionError:
        return Piece(False, digest=hashlib.blake2b(document.source(message), digest_size=16).digest())


def _read_piece(document: Document, message: Raw) -> Piece:
    members = document.members(message)
    role, type_ = document.string(members.get("role")), document.string(members.get("type"))
    if role in _history_rules().unseen_roles or type_ in _history_rules().unseen_types:
        return Piece(False)
    if role in _MODEL_ROLES or (
        role is None and type_ and is_of_model(document, kind(document, members), members)
    ):
        response = _Response(document)
        response.read(message)
        return Piece(True, plain("".join(response.texts)), tuple(response.calls))
    return Piece(False, digest=_of_client(document, message, role or "user"))


def _of_client(document: Document, message: Raw, role: str) -> bytes:
    """A hash of what counts of a message, empty if nothing does."""
    words = _Words(document, hashlib.blake2b(digest_size=16, person=b"penumbra words"))
    words.read(message, role == "user")
    words.flush()
    return hashlib.blake2b(utf8(role) + b"\0" + words.digest.digest()).digest()[:16] if words.any else b""


@dataclass(slots=True)
class _Response:
    """Text and calls of a response."""

    document: Document
    texts: list[str] = field(default_factory=list)
    calls: list[bytes] = field(default_factory=list)

    def read(self, value: Raw) -> None:
        document, rule = self.document, _history_rules()
        for item in document.items(value):
            if document.is_filled(item) or document.is_string(item):
                self._block(item)
        members = document.members(value)
        if not members:
            return
        named = next((members[name] for name in rule.arguments if name in members), None)
        if named is not None:
            type_ = document.string(members.get("type")) or ""
            if not type_.startswith("server_"):
                name = document.string(members.get("name")) or type_
                self.calls.append(call(name, document.plain(named)))
            return
        for name, held in members.items():
            if name in rule.transparent:
                self._block(held)
            elif name in rule.calls:
                self.read(held)

    def _block(self, value: Raw) -> None:
        document = self.document
        if (text := document.string(value)) is not None:
            self.texts.append(text)
            return
        members = document.members(value)
        type_ = document.string(members.get("type"))
        if type_ not in _history_rules().unseen_types and not document.plain(members.get("thought")):
            self.read(value)


@dataclass(slots=True)
class _Words:
    """A running hash of what a client's message says."""

    document: Document
    digest: Any
    any: bool = False
    _texts: list[bytes] = field(default_factory=list)

    def read(self, value: Raw, loose: bool) -> None:
        """`loose`: texts are a user's own, in which parts may change from request to request."""
        document = self.document
        if (text := document.string(value)) is not None:
            if loose and len(text) <= _STABLE:
                text = stable(text)
            self._texts += _plain(text)
            return
        first = memoryview(value)[:1].tobytes()
        if first == b"[":
            for item in document.items(value):
                if document.is_filled(item) or not document.is_container(item):
                    self.read(item, loose)
        elif first == b"{":
            self._object(value, loose)
        elif not document.says(value, _NOT):
            self._mark(document.source(value))

    def _object(self, value: Raw, loose: bool) -> None:
        document, rule = self.document, _history_rules()
        members = document.members(value)
        type_ = document.string(members.get("type")) or ""
        thought = members.get("thought")
        if type_ in rule.unseen_types or (thought is not None and document.says(thought, _TRUE)):
            return
        if type_ and type_ not in rule.texts:
            loose = False
            self._mark(b"type " + type_.encode("utf-8", "surrogatepass"))
        for name in sorted(members.keys() - rule.ignored - {"type", "role"}):
            held = members[name]
            if name in rule.transparent:
                self.read(held, loose)
            elif not document.says(held, _NOTHING):
                self._mark(b"{" + name.encode("utf-8", "surrogatepass"))
                self.read(held, False)
                self._mark(b"}")

    def _mark(self, mark: bytes) -> None:
        self.flush()
        self.any = True
        self.digest.update(b"\0%d " % len(mark) + mark)

    def flush(self) -> None:
        """Texts that stand side by side count as one."""
        if size := sum(map(len, self._texts)):
            self.any = True
            self.digest.update(b"\1%d " % size)
            for text in self._texts:
                self.digest.update(text)
        self._texts.clear()


_TOOLS = ("tools", "toolConfig", "tool_config")
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
_HEADS: LRUCache[bytes, bytes] = LRUCache(512)
"""Hashes of texts without what changes, by the hashes of the texts: those are long, and come every turn."""


@dataclass(frozen=True, slots=True)
class PromptHead:
    """Hashes; of the system text, what changes with every request (times, billing headers) does not count."""

    tools: bytes = b""
    system: bytes = b""


def prompt_head(document: Document) -> PromptHead:
    """The head of a request of any API."""
    members = {**document.members(document.root), **inner(document)}
    tools, system = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for name in _TOOLS:
        if (value := members.get(name)) is not None:
            tools.update(document.source(value))
    for name in _SYSTEM:
        if (value := members.get(name)) is not None:
            for part in document.items(value) or (value,):
                system.update(_head_text(document, part))
    return PromptHead(tools.digest(), system.digest())


def _head_text(document: Document, part: Raw) -> bytes:
    source = document.source(part)
    digest = hashlib.blake2b(source, digest_size=16).digest()
    found = _HEADS.get(digest)
    if found is None:
        said = document.string(document.members(part).get("text", part))
        text = stable(source.decode("utf-8", "replace") if said is None else said)
        found = _HEADS[digest] = hashlib.blake2b(utf8(text), digest_size=16).digest()
    return found
