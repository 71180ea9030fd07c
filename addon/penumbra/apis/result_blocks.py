"""This module converts a tool result of any shape into JSON that has all parts that may contain a secret.

The formats find the texts in a result that may be shortened. Other parts (documents, search hits, objects of
any shape, names of members, numbers) are only searched for secrets. Ids, tools' names, signatures, encrypted
content and images must not change and are left out, as listed in `rules/results.yaml`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any, NamedTuple

import msgspec
import re2
from msgspec import Raw, Struct

from penumbra import rules
from penumbra.linear import QUIET
from penumbra.short_texts import remembered
from penumbra.wire.document import BRACE, BRACKET, Document

_SCALAR = rb'"(?:[^"\\]++|\\.)*+"?|[-0-9][0-9.eE+-]*+|true|false|null'
_VALUE = re.compile(_SCALAR, re.DOTALL)
_TOKEN = re.compile(_SCALAR + rb"|[{}\[\]:,]", re.DOTALL)
_BASE64 = re.compile(
    rb"(?:data:[\w.+-]{1,60}/[\w.+-]{1,80}(?:;[\w.=-]{1,80}){0,4},)?"
    rb"((?:[A-Za-z0-9+/_-]++|\\/|\\n)*+={0,2})"
)
_PLAIN_NAME = re.compile(rb'"[A-Za-z_.-]{0,40}[0-9]{0,2}"')
_SPACE = re.compile(r"\s")
_SEALED = b'"encrypted_'
_ESCAPE = b"\\u"
_ADDRESS = re.compile(r"(?:https?|gs|s3|file|data):\S*\Z")
_LITERALS = (b"t", b"f", b"n")
_HEAD = 1_024
_DEEPEST = 24
"""In a result, deeper objects come from tools and are not defined by the API."""
_MESSAGE_LEVELS = 8
"""The number of levels in a message that are searched for results."""
knowledge = partial(rules.table, "results.yaml")


class Block(Struct, frozen=True):
    """A `Block` is a result without the parts that are not searched."""

    value: Raw
    message: Raw
    text: str
    """The result as JSON. Texts that are left out are missing or empty."""
    places: tuple[tuple[int, int] | None, ...]
    """For each item of `values(text)`, its start and end in the message; None if it must not change."""
    call_id: str
    answered: bool
    """True if the model or its provider wrote the message."""


def values(text: bytes) -> list[bytes]:
    """Return the strings, numbers and literals of a JSON text, in order. Names of members are included."""
    return _VALUE.findall(text)


def find(document: Document, message: Raw, known: Collection[Raw]) -> list[Block]:
    """Return the results in a message that have other content than the texts in `known`."""
    source, blocks = document.source(message), list[Block]()
    if _ESCAPE not in source and not _signs().search(source):
        return blocks
    reader = _Reader(document, {id(text): text for text in known})
    for value in _results(document, message, _MESSAGE_LEVELS):
        block = reader.read(value)
        if block is not None:
            text, tokens = block
            begin = document.place(message)[0]
            answered = document.string(document.members(message).get("role")) in ("assistant", "model")
            places = tuple([place and (place[0] - begin, place[1] - begin) for place in tokens])
            ids = document.texts(document.members(value), *knowledge()["ids"])
            call_id = next(filter(None, ids), "")
            blocks.append(Block(value, message, text, places, call_id, answered))
    return blocks


@cache
def _signs() -> Any:
    """Return a pattern that matches in each message with results and without `\\u` escapes. The pattern may
    also match in other messages."""
    known = knowledge()["blocks"]
    names = ("[_-]*".join(("", *map(re.escape, name), "")) for name in (*known["roles"], *known["members"]))
    types = (max(re.split(r"[*?]|\[[^]]*\]?", glob), key=len) for glob in known["types"])
    signs = (*(f'"{name}"' for name in names), *map(re.escape, types))
    return re2.compile(("(?i)" + "|".join(signs)).encode(), QUIET)


def _results(document: Document, value: Raw, levels: int) -> list[Raw]:
    members = document.members(value)
    if members and is_result(document, members):
        return [value]
    results: list[Raw] = []
    for name, member in members.items():
        rule = _member_rule(name)
        if rule.has_results:
            results += document.items(member) or [member]
        elif levels and not rule.is_harmless and document.is_filled(member):
            results += _results(document, member, levels - 1)
    for item in document.items(value) if levels and not members else ():
        if document.is_filled(item):
            results += _results(document, item, levels - 1)
    return results


def names_results(name: str) -> bool:
    """Return whether a member with this name contains results."""
    return _member_rule(name).has_results


def is_result(document: Document, members: Mapping[str, Raw]) -> bool:
    """Return whether an object is a result, by its type or role."""
    kind, role = document.texts(members, "type", "role")
    return _fits(kind.lower(), "blocks") or _plain(role) in knowledge()["blocks"]["roles"]


@remembered(4_096)
def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


class _MemberRule(NamedTuple):
    """A `_MemberRule` says how members with a certain name are searched."""

    has_results: bool
    is_harmless: bool
    is_word: bool
    """True if a value of one word is not searched."""


@remembered(16_384)
def _member_rule(name: str) -> _MemberRule:
    has_results = _plain(name) in knowledge()["blocks"]["members"]
    return _MemberRule(has_results, _fits(name, "harmless"), _fits(name, "words"))


@remembered(16_384)
def _fits(name: str, section: str) -> bool:
    globs = knowledge()[section]
    return any(fnmatchcase(name, glob) for glob in (globs["types"] if section == "blocks" else globs))


def reads_result(caller: Any) -> bool:
    """Return whether a program, not the model, reads a call's result. `caller` may be None."""
    kind = caller.get("type") if isinstance(caller, Mapping) else caller
    return bool(kind) and kind not in knowledge()["callers"]


class _Reader(Struct):
    """A `_Reader` writes the results of a message as texts, one by one."""

    document: Document
    known: dict[int, Raw]
    """The texts that other code searches, by `id()`."""
    offsets: frozenset[int] | None = None
    """The offsets of the texts in `known`; None until they are needed."""
    pieces: list[bytes] = msgspec.field(default_factory=list)
    places: list[tuple[int, int] | None] = msgspec.field(default_factory=list)
    worthy: bool = False
    """True if the text has a value that must be searched."""

    def read(self, value: Raw) -> tuple[str, tuple[tuple[int, int] | None, ...]] | None:
        """Return a result as text, and the places of its values; None if there is nothing to search."""
        self.pieces, self.places, self.worthy = [], [], False
        self._own(value, _DEEPEST, root=True)
        if not self.worthy:
            return None
        return b"".join(self.pieces).decode("utf-8"), tuple(self.places)

    def _own(self, value: Raw, levels: int, *, root: bool = False) -> None:
        """Write a value whose shape the API defines."""
        document, first = self.document, memoryview(value)[0]
        if first in (BRACE, BRACKET) and not document.is_filled(value):
            self.pieces.append(document.source(value))
            return
        kind = document.string(document.members(value).get("type")) if first == BRACE else None
        if first == BRACKET and levels:
            self.pieces.append(b"[")
            for index, item in enumerate(document.items(value)):
                self.pieces += (b",",) if index else ()
                self._own(item, levels - 1)
            self.pieces.append(b"]")
        elif first == BRACE and levels and (root or (kind is not None and _fits(kind, "types"))):
            self.pieces.append(b"{")
            separator = b""
            left_out = kind in knowledge()["untouched"]
            for name, member in document.members(value).items():
                if left_out or self._stays(name, member):
                    continue
                self.pieces += (separator, json.dumps(name).encode("ascii"), b":")
                self.places.append(None)
                separator = b","
                if name in knowledge()["free"]:
                    self._free(member)
                else:
                    self._own(member, levels - 1)
            self.pieces.append(b"}")
        else:
            self._free(value)

    def _stays(self, name: str, value: Raw) -> bool:
        """Return whether a member stays unchanged and is left out. The API defines the object."""
        rule = _member_rule(name)
        if rule.is_harmless:
            return True
        if rule.is_word:
            text = self.document.string(value)
            return text is None or not _SPACE.search(text)
        if name not in knowledge()["addresses"]:
            return False
        members = self.document.members(value)
        return _ADDRESS.match(self.document.text_of(members.get("url", value))) is not None

    def _free(self, value: Raw) -> None:
        """Write a value of any shape. Names of members are included."""
        if id(value) in self.known:
            self._add(b'""', None)
            return
        if self.offsets is None:
            self.offsets = frozenset([self.document.place(text)[0] for text in self.known.values()])
        start, end = self.document.place(value)
        data, at, sealed = self.document.data, start, False
        while at < end:
            match = _TOKEN.match(data, at, end)
            if match is None:
                at += 1
                continue
            at = match.end()
            token, place = match[0], match.span()
            if token[0] in b"{}[]:,":
                self.pieces.append(token)
                continue
            name = token[:1] == b'"' and data[at : at + 8].lstrip()[:1] == b":"
            if token[:1] == b'"' and (sealed or place[0] in self.offsets or is_binary(token[1:-1])):
                self._add(b'""', None)
            elif token[:1] in _LITERALS:
                self._add(token, None)
            else:
                self._add(token, place)
                self.worthy = self.worthy or (not (name and _PLAIN_NAME.fullmatch(token)) and len(token) > 5)

            sealed = name and token.startswith(_SEALED)

    def _add(self, token: bytes, place: tuple[int, int] | None) -> None:
        self.pieces.append(token)
        self.places.append(place)


def is_binary(raw: bytes) -> bool:
    """Return whether a JSON string is the base64 of binary data, such as an image, but not of DER."""
    if len(raw) < 8:
        return False
    match = _BASE64.fullmatch(raw)
    if match is None:
        return False
    return _is_binary_data(match[1])


def _is_binary_data(data: bytes) -> bool:
    head = data[:_HEAD].replace(b"\\/", b"/").replace(b"\\n", b"").replace(b"-", b"+").replace(b"_", b"/")
    known = knowledge()["binary"]
    if any(head.startswith(magic.encode()) for magic in known["magic"]):
        return len(data) >= 16
    if len(data) < known["least"]:
        return False
    head = head[: len(head) // 4 * 4 - 4]
    try:
        decoded = base64.b64decode(head, validate=True)
    except binascii.Error:
        return False
    # Data in DER, such as a key, begins with the byte of a sequence.
    return decoded[:1] != b"\x30" and not is_text(decoded)


def is_text(data: bytes) -> bool:
    """Return whether bytes are mostly readable text. The last character may be incomplete."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 4:
            return False
    controls = sum(data.count(code) for code in (*range(9), *range(14, 27), *range(28, 32)))
    return controls * 20 <= len(data)
