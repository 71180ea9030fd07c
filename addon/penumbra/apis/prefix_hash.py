"""This module hashes the prefix before each message of a request, and the beginning of the prompt.

Hidden parts of responses are stored under the hash of the earlier messages, so a request with other earlier
messages does not find them. The key of a decision about a result has the hash of the earlier calls if the id
of the call is not unique. Clients may write the same history in several ways. `rules/history.yaml` lists the
differences that the hash ignores. Each message has a `Piece`, which depends only on the bytes of the message.

`PromptHead` has the hashes of tools and system text, with which a cached prompt begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
import orjson
from cachetools import LRUCache
from msgspec import Raw, Struct

from penumbra import rules
from penumbra.apis.gemini import inner
from penumbra.apis.openai_responses import is_of_model
from penumbra.apis.session import stable
from penumbra.linear import utf8
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode

START = b""
"""The hash of an empty history."""
_MODEL_ROLES = ("assistant", "model")
_SPACE = bytes(code for code in range(128) if chr(code).isspace())
_SORTED = json.JSONEncoder(sort_keys=True)
_PIECE = 1 << 20
_STABLE = 100_000
"""A longer text, in characters, is hashed without a search for changing parts."""


class Chain(Struct, frozen=True):
    """A `Chain` has the hash of the messages before each message. The last hash is that of all messages."""

    history: tuple[bytes, ...] = (START,)
    """The hashes of texts, calls and results."""
    calls: tuple[bytes, ...] = (START,)
    """The hashes of the calls alone, which stay the same when a client clears old results."""
    responses: bool = True
    """True if the model's responses are also hashed."""


class Piece(Struct, frozen=True):
    """A `Piece` is the part of one message that is hashed."""

    is_response: bool
    text: bytes = b""
    """Text of a response, without white space."""
    calls: tuple[bytes, ...] = ()
    """Calls of a response."""
    digest: bytes = b""
    """The digest of the client's message; empty if no part of the message is hashed."""


class Links(Struct):
    """A `Links` computes the hashes of the messages that are added to it."""

    referable: bool
    """True if ids may replace responses in later requests. Then only the client's messages are hashed."""
    _history: list[bytes]
    _calls: list[bytes] = msgspec.field(default_factory=lambda: [START])
    _text: bytes = b""
    _made: tuple[bytes, ...] = ()
    """`_text` and `_made` have the text and the calls of the unfinished response."""

    def __len__(self) -> int:
        return len(self._history) + len(self._calls)

    def copy(self) -> Links:
        return Links(self.referable, self._history.copy(), self._calls.copy(), self._text, self._made)

    def add(self, document: Document, message: Raw) -> bytes:
        """Add the next message. Return the hash of all earlier calls."""
        before, piece = self._calls[-1], document.about(message, _piece)
        state = self._history[-1]
        if piece.is_response and not self.referable:
            # Clients may split a response into any number of messages.
            self._text += piece.text
            self._made += piece.calls
        elif piece.digest and not piece.is_response:
            state = sent(answered(state, self._text, self._made), piece.digest)
            self._text, self._made = b"", ()
        self._history.append(state)
        self._calls.append(_link(before, b"calls", *piece.calls) if piece.calls else before)
        return before

    def chain(self) -> Chain:
        """Return the hash before each added message, and the hash after the last message."""
        return Chain(tuple(self._history), tuple(self._calls), not self.referable)


def links(document: Document, start: bytes = START) -> Links:
    """Return the `Links` of a request, to which no message is added yet. `start` is the hash of the history
    that the provider stores."""
    # If the provider stores the items, their ids may replace responses.
    top = document.top
    return Links("input" in top and document.plain(top.get("store")) is not False, [start])


def read(document: Document, messages: Raw | None, start: bytes = START) -> Chain:
    """Return the hashes of the messages. `start` is the hash of the history that the provider stores."""
    if messages is None:
        return Chain((start,), (START,))
    made = links(document, start)
    if document.is_string(messages):
        hashed = sent(start, _of_client(document.source(messages), "user"))
        return Chain((start, hashed), (START, START), not made.referable)
    for message in document.items(messages):
        made.add(document, message)
    return made.chain()


def of(document: Document, start: bytes = START) -> Chain:
    """Return the hashes of a request of any API."""
    top = document.top
    messages = top.get("messages", top.get("input"))
    return read(document, inner(document).get("contents") if messages is None else messages, start)


def sent(history: bytes, digest: bytes) -> bytes:
    """Return the hash of a history and a message of the client."""
    return _link(history, b"said", digest)


def answered(history: bytes, text: bytes, calls: Sequence[bytes]) -> bytes:
    """Return the hash of a history and a response. Some clients drop the text of responses with calls, so
    that text is ignored."""
    if calls:
        return _link(history, b"calls", *calls)
    return _link(history, b"text", text) if text else history


def plain(text: str) -> bytes:
    return b"".join(_plain(text))


def _plain(text: str) -> Iterator[bytes]:
    """Yield a text without white space, in small pieces, so that other threads can run in between."""
    for begin in range(0, len(text), _PIECE):
        piece = text[begin : begin + _PIECE]
        if piece.isascii():
            yield piece.encode("ascii").translate(None, _SPACE)
        else:
            yield "".join(piece.split()).encode("utf-8", "surrogatepass")


def call(name: str, arguments: Any) -> bytes:
    """Return the hash of a call. The order of arguments and null arguments don't matter."""
    if isinstance(arguments, str):
        try:
            decoded = decode(arguments.encode("utf-8", "surrogatepass"))
        except NotJson:
            decoded = arguments
        arguments = decoded if isinstance(decoded, dict | list) else arguments
    if isinstance(arguments, dict):
        arguments = {key: value for key, value in arguments.items() if value is not None}
    form = _SORTED.encode([name, arguments])
    return hashlib.blake2b(form.encode("ascii"), digest_size=16).digest()


def arguments_hash(document: Document, arguments: Raw) -> bytes:
    return call("", decode(document.source(arguments)))


def _link(state: bytes, tag: bytes, *parts: bytes) -> bytes:
    text = b"".join([len(part).to_bytes(8, "big") + part for part in (state, tag, *parts)])
    return hashlib.blake2b(text, digest_size=16, person=b"penumbra chain").digest()


class _HistoryRules(Struct, frozen=True):
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
    members, source, rule = document.members(message), document.source(message), _history_rules()
    role, type_ = document.texts(members, "role", "type")
    if role in rule.unseen_roles or type_ in rule.unseen_types:
        return Piece(False)
    try:
        if role not in _MODEL_ROLES and (role or not is_of_model(type_, role)):
            return Piece(False, digest=_of_client(source, role or "user", document.exact(message)))
        texts: list[str] = []
        calls: list[bytes] = []
        exact = document.exact(message)
        _read_response(decode(source) if exact is None else exact, texts, calls)
        return Piece(True, plain("".join(texts)), tuple(calls))
    except (NotJson, RecursionError):
        return Piece(False, digest=hashlib.blake2b(source, digest_size=16).digest())


def _named(value: Any, member: str) -> str:
    text = value.get(member) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def _read_response(value: Any, texts: list[str], calls: list[bytes]) -> None:
    rule = _history_rules()
    if isinstance(value, list):
        for item in value:
            _read_block(item, texts, calls)
    if not isinstance(value, dict):
        return
    for named in rule.arguments:
        if named in value:
            type_ = _named(value, "type")
            if not type_.startswith("server_"):
                calls.append(call(_named(value, "name") or type_, value[named]))
            return
    for name, member in value.items():
        if name in rule.transparent:
            _read_block(member, texts, calls)
        elif name in rule.calls:
            _read_response(member, texts, calls)


def _read_block(value: Any, texts: list[str], calls: list[bytes]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif _named(value, "type") not in _history_rules().unseen_types and not (
        isinstance(value, dict) and value.get("thought")
    ):
        _read_response(value, texts, calls)


class _Number(str):
    """A `_Number` is a number in the spelling of the client."""

    __slots__ = ()


_AS_SPELLED = json.JSONDecoder(parse_int=_Number, parse_float=_Number, strict=False)


def _of_client(source: bytes, role: str, exact: Any = None) -> bytes:
    """Return a hash of the parts of a client's message that are not ignored; empty if all are ignored.
    `exact` is the result of `Document.exact`."""
    value = _AS_SPELLED.decode(source.decode("utf-8")) if exact is None else exact
    words = _Words(hashlib.blake2b(digest_size=16, person=b"penumbra words"))
    words.read(value, role == "user")
    words.flush()
    return hashlib.blake2b(utf8(role) + b"\0" + words.digest.digest()).digest()[:16] if words.any else b""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Words(Struct):
    """A `_Words` computes the hash of the content of a client's message."""

    digest: Any
    any: bool = False
    _texts: list[bytes] = msgspec.field(default_factory=list)

    def read(self, value: Any, loose: bool) -> None:
        """Hash a value. With `loose`, text that may change from request to request is left out."""
        if isinstance(value, _Number):
            self._mark(value.encode("ascii"))
        elif isinstance(value, str):
            self._texts += _plain(stable(value) if loose and len(value) <= _STABLE else value)
        elif isinstance(value, list):
            for item in value:
                self.read(item, loose)
        elif isinstance(value, dict):
            self._object(value, loose)
        elif _is_number(value):
            self._mark(orjson.dumps(value))
        elif value:
            self._mark(b"true")

    def _object(self, members: dict[str, Any], loose: bool) -> None:
        rule, type_ = _history_rules(), members.get("type")
        type_ = orjson.dumps(type_).decode("ascii") if _is_number(type_) else _named(members, "type")
        if type_ in rule.unseen_types or members.get("thought") is True:
            return
        if type_ and type_ not in rule.texts:
            loose = False
            self._mark(b"type " + utf8(type_))
        for name in sorted(members.keys() - rule.ignored - {"type", "role"}):
            member = members[name]
            if name in rule.transparent:
                self.read(member, loose)
            elif member or _is_number(member):
                self._mark(b"{" + utf8(name))
                self.read(member, False)
                self._mark(b"}")

    def _mark(self, mark: bytes) -> None:
        self.flush()
        self.any = True
        self.digest.update(b"\0%d " % len(mark) + mark)

    def flush(self) -> None:
        if size := sum(map(len, self._texts)):
            self.any = True
            self.digest.update(b"\1%d " % size)
            for text in self._texts:
                self.digest.update(text)
        self._texts.clear()


_TOOLS = ("tools", "toolConfig", "tool_config")
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
_HEADS: LRUCache[bytes, bytes] = LRUCache(512)
"""Maps the hash of a whole text to the hash of the text without its changing parts."""


class PromptHead(Struct, frozen=True):
    """The hashes of tools and system text. Times and other changing parts of the system text are left out."""

    tools: bytes = b""
    system: bytes = b""


def prompt_head(document: Document) -> PromptHead:
    members = {**document.top, **inner(document)}
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
        string = document.string(document.members(part).get("text", part))
        text = stable(source.decode("utf-8", "replace") if string is None else string)
        found = _HEADS[digest] = hashlib.blake2b(utf8(text), digest_size=16).digest()
    return found
