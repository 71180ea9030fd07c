"""This module redacts bodies other than LLM calls: JSON, lines of JSON, text, and batches of requests.

A body that is declared as JSON, or begins like JSON, is refused if it can't be parsed. If the path accepts
only JSON, a body that is not UTF-8 is also refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from typing import Any
from urllib.parse import unquote_plus

from cachetools import LRUCache
from msgspec import Raw

from penumbra.apis import result_blocks
from penumbra.compress.result import Redacted
from penumbra.linear import LinearText
from penumbra.redaction import Unreadable
from penumbra.redaction.json_text import has_lines, leaves, still_json, surrounded
from penumbra.redaction.redact_calls import Redact
from penumbra.short_texts import remembered
from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import NotJson, encode

# JSON of an unknown shape may contain tool results. In a value that looks like a result, strings are searched
# unless their name excludes secrets. Elsewhere, only texts are searched. `rules/results.yaml` has the names.
# The redacted form of a string depends only on the item that contains it, so an item that is sent again has
# the same bytes. The edits of items are remembered.
_MEMORY_BYTES = 16_000_000
_KINDS = ("marks", "calls", "skipped", "opaque", "words", "wrappers", "texts")
_SPACE = re.compile(r"\s")
_BINARY = re.compile(r"(?:data:[\w.+-]{1,60}/[\w.+-]{1,80};base64,)?[A-Za-z0-9+/_-]{512,}={0,2}")
_LONG_NAME = 16
_OUTPUTS = frozenset(("output", "outputs", "result", "results"))
Search = Callable[[str, str], Redacted]
"""A `Search` is a function that redacts a text. The second argument is a hint. Raises RedactionError."""


@cache
def _patterns() -> Mapping[str, Any]:
    knowledge = result_blocks.knowledge()["unknown"]
    calls, results = knowledge["calls"], knowledge["results"]
    patterns = {name: knowledge[name] for name in ("skipped", "words", "opaque", "wrappers", "texts")}
    patterns |= {"calls": calls["members"], "call types": calls["types"], "arguments": calls["arguments"]}
    patterns |= {"result types": results["types"], "marks": results["marks"]}
    return {name: LinearText(f"(?i)(?:{pattern})") for name, pattern in patterns.items()}


@cache
def _logins() -> frozenset[str]:
    return frozenset(result_blocks.knowledge()["unknown"]["logins"])


@remembered(8_192)
def _kind(name: str) -> str:
    """Return the kind of the values of members with this name, such as `calls`; empty if unknown."""
    if result_blocks.names_results(name):
        return "results"
    patterns = _patterns()
    return next((kind for kind in _KINDS if patterns[kind].fullmatch(name)), "")


@remembered(8_192)
def _is(kind: str, value: str) -> bool:
    return bool(_patterns()[kind].fullmatch(value))


@dataclass(frozen=True, slots=True)
class _Zone:
    """A `_Zone` says where in a body a value is."""

    name: str = ""
    """The name of the nearest member that contains the value."""
    result: bool = False
    text: bool = False
    """True if the value is inside a member that contains text or messages."""
    inner: bool = False
    """True if no part of the value is meant for the provider itself."""
    call: bool = False


@dataclass(slots=True)
class Searched:
    """A `Searched` is a body after the search for secrets."""

    body: bytes
    results: bool = False
    """True if the body contains tool results."""
    counts: Counter[str] = field(default_factory=Counter)
    """Numbers of secrets in new items, by rule."""


_Outcome = tuple[tuple[Edit, ...], bool]
"""The edits of an item, and whether the item contains tool results."""


class Anywhere:
    """An `Anywhere` redacts JSON of any shape. Several threads may use an `Anywhere`."""

    def __init__(self, memory: int = _MEMORY_BYTES) -> None:
        """Make an `Anywhere` that remembers at most `memory` bytes of edits."""
        self._known: LRUCache[bytes, _Outcome] = LRUCache(memory, _weight)
        self._lock = threading.Lock()

    def redact(
        self, document: Document, search: Search, *, with_calls: bool, policy: str = "", scope: bytes = b""
    ) -> Searched:
        """Replace the secrets in the strings of a body. Raises RedactionError. With `with_calls`, the
        arguments of calls are also searched. `policy` names all settings that influence the outcome. Outcomes
        are remembered for each `scope` (caller) alone."""
        results, counts, own = False, Counter[str](), hashlib.blake2b(scope).digest()
        if document.members(document.root).keys() & _logins():
            return Searched(document.data)
        for value, zone in _items(document, with_calls):
            start, end = document.place(value)
            about = json.dumps([*astuple(zone), with_calls, policy]).encode("ascii")
            key = hashlib.blake2b(about + document.data[start:end], key=own, digest_size=16).digest()
            with self._lock:
                outcome = self._known.get(key)
            if outcome is None:
                item = _Item(document, search, with_calls, counts)
                edits = [_moved(edit, -start) for edit in item.edits(value, zone)]
                outcome = tuple(edits), item.results
                if _weight(outcome) <= self._known.maxsize:
                    with self._lock:
                        self._known[key] = outcome
            document.edits += [_moved(edit, start) for edit in outcome[0]]
            results |= outcome[1]
        return Searched(document.render(), results, counts)


def _items(document: Document, with_calls: bool) -> Iterator[tuple[Raw, _Zone]]:
    """Yield the items of a document's outermost arrays, and its values outside of arrays."""
    # Outside of an object, strings have no names and count as text.
    zone = _Zone(text=not document.members(document.root))
    waiting: list[tuple[Raw, _Zone]] = [(document.root, zone)]
    while waiting:
        value, zone = waiting.pop()
        members = document.members(value)
        if members and _has_arrays(document, value) and not document.repeats(value):
            zone = replace(zone, result=zone.result or _is_result(document, members))
            waiting += reversed(list(_below(document, members, zone, with_calls)))
        elif any(not document.is_string(item) for item in document.items(value)):
            yield from ((item, zone) for item in document.items(value))
        else:
            yield value, zone


def _has_arrays(document: Document, value: Raw) -> bool:
    """Return whether an object contains, at any depth, an array with values other than strings."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if any(not document.is_string(item) for item in document.items(node)):
            return True
        waiting += document.members(node).values()
    return False


def _is_result(document: Document, members: Mapping[str, Raw]) -> bool:
    if result_blocks.is_result(document, members):
        return True
    kind = document.string(members.get("type")) or ""
    if _is("result types", kind) or (_is("call types", kind) and members.keys() & _OUTPUTS):
        return True
    return any(_kind(name) == "marks" for name in members)


def _below(
    document: Document, members: Mapping[str, Raw], zone: _Zone, with_calls: bool
) -> Iterator[tuple[Raw, _Zone]]:
    """Yield the members of an object that are searched."""
    is_call = zone.call or _is("call types", document.string(members.get("type")) or "")
    for name, member in members.items():
        kind = _kind(name)
        inner = zone.inner or zone.result
        if (kind == "skipped" and not inner) or (
            is_call and not zone.result and not with_calls and _is("arguments", name)
        ):
            continue
        yield (
            member,
            _Zone(
                name,
                result=zone.result or kind == "results",
                text=zone.text or is_call or kind in ("texts", "wrappers"),
                inner=inner or kind == "texts",
                call=is_call or kind == "calls",
            ),
        )


@dataclass(slots=True)
class _Item:
    document: Document
    search: Search
    with_calls: bool
    counts: Counter[str]
    results: bool = False
    around: Mapping[str, str] | None = None
    """New forms of the strings in which a search of the whole item finds secrets; None before the search."""

    def edits(self, item: Raw, zone: _Zone) -> Iterator[Edit]:
        document = self.document
        waiting = [(item, zone)]
        while waiting:
            value, zone = waiting.pop()
            self.results |= zone.result
            if document.is_string(value):
                if (clean := self._clean(item, value, zone)) is not None:
                    yield Edit(*document.place(value), encode(clean))
                continue
            waiting += [(child, zone) for child in reversed(document.items(value))]
            members = document.members(value)
            zone = replace(zone, result=zone.result or _is_result(document, members))
            self.results |= zone.result
            self._check_names(value, members, zone)
            waiting += reversed(list(_below(document, members, zone, self.with_calls)))

    def _clean(self, item: Raw, value: Raw, zone: _Zone) -> str | None:
        """Return the redacted string; None if the string stays."""
        text = self.document.string(value) or ""
        kind, is_word = _kind(zone.name), not _SPACE.search(text)
        if is_word and (kind == "opaque" or _BINARY.fullmatch(text)):
            return None
        if is_word and not zone.result and (kind == "words" or not zone.text):
            return None
        seen = text
        if (zone.result or zone.text) and not (is_word and kind == "words") and not has_lines(text):
            if self.around is None:
                self.around = surrounded(self.document.source(item), lambda inner: self.search(inner, ""))
            seen = self.around.get(text, text)
        redacted = self.search(seen, "")
        self.counts.update(redacted.counts)
        if redacted.text == text:
            return None
        if seen != text:
            self.counts["name"] += 1
        return still_json(text, redacted.text)

    def _check_names(self, value: Raw, members: Mapping[str, Raw], zone: _Zone) -> None:
        """Raise Unreadable for a secret that can't be replaced: in a name, or in a repeated member, because
        the provider may read either member."""
        texts = [name for name in members if zone.result and len(name) >= _LONG_NAME]
        if self.document.repeats(value):
            pairs = json.loads(self.document.source(value), object_pairs_hook=list)
            twice = self.document.repeated(value)
            texts += [
                text
                for name, member in pairs
                if name in twice
                for text in leaves(member)
                if isinstance(text, str)
            ]
        if any(self.search(text, "").text != text for text in texts):
            raise Unreadable("a secret in it is in a place where it can't be replaced")


def _moved(edit: Edit, by: int) -> Edit:
    return Edit(edit.start + by, edit.end + by, edit.data)


def _weight(outcome: _Outcome) -> int:
    return 100 + sum(100 + len(edit.data) for edit in outcome[0])


_MARKS = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
"""The byte order marks and blanks that may precede JSON."""
_LIKE_JSON = re.compile(rb'[\[{]\0{0,3}[\s\0]{0,80}["\[{\]}]')
_TEXTS = ("text/", "ndjson", "jsonl", "json-lines", "xml", "yaml", "graphql", "multipart/")
_PACKED = ("grpc", "proto", "cbor", "msgpack", "eventstream", "application/http")
"""Content types of bodies that contain the lengths of their texts. These texts can't be replaced."""
_PART_KIND = re.compile(rb"(?i)\ncontent-type[ \t]{0,8}:[ \t]{0,8}([^\r\n]{0,200})")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_BOUNDARY = re.compile(r"boundary\s{0,8}=\s{0,8}(?:\"([^\"]{1,200})\"|([^\s;,]{1,200}))", re.IGNORECASE)
_BATCH = (frozenset(("custom_id", "key")), frozenset(("body", "params", "request")))
"""Each line of a batch has a member named in the first set, and another named in the second set."""


@dataclass(frozen=True, slots=True)
class Body:
    data: bytes
    """The decoded body."""
    content_type: str = ""
    strict: bool = False
    """True if the request can only be JSON."""
    files: bool = False
    """True if the body is a file or a form with files, in which only batches are searched."""

    @property
    def says_json(self) -> bool:
        """Return whether the content type says that the body is JSON, or the body begins like JSON."""
        return "json" in self.content_type.lower() or bool(_LIKE_JSON.match(self.data.lstrip(_MARKS)))


class OtherBodies:
    """`OtherBodies` redacts bodies, and remembers the outcome for their items."""

    def __init__(self) -> None:
        self._anywhere = Anywhere()

    def search(
        self, body: Body, redact: Redact, *, with_calls: bool, policy: str, scope: bytes = b""
    ) -> Searched:
        """Return the body without secrets; the same `data` if it has none. Raises RedactionError. With
        `with_calls`, the arguments of calls are also searched. `policy` says what happens to texts that can't
        be searched. `scope` is the caller."""
        return _Search(self._anywhere, redact, with_calls, policy, body.strict, scope).body(body)


@dataclass(frozen=True, slots=True)
class _Search:
    anywhere: Anywhere
    redact: Redact
    with_calls: bool
    policy: str
    strict: bool
    scope: bytes

    def body(self, body: Body) -> Searched:
        if not body.data.strip():
            return Searched(body.data)
        if body.files:
            return self._file(body)
        searched = self._json(body.data) or self._lines(body.data)
        if searched is None and (boundary := _boundary(body.content_type)):
            searched = self._parts(body.data, boundary, self._part)
        return searched or self._other(body)

    def _json(self, data: bytes) -> Searched | None:
        try:
            document = Document(data)
        except NotJson:
            return None
        return self._document(document)

    def _document(self, document: Document) -> Searched:
        if self.strict and document.repeats(document.root) and "type" in document.repeated(document.root):
            raise Unreadable("its member `type` is repeated")
        return self.anywhere.redact(
            document, self.redact, with_calls=self.with_calls, policy=self.policy, scope=self.scope
        )

    def _lines(self, data: bytes) -> Searched | None:
        """Redact each line of a body of JSON Lines. Return None for any other body."""
        lines = data.split(b"\n")
        try:
            documents = [Document(line) if line.strip() else None for line in lines]
        except NotJson:
            return None
        pairs = zip(documents, lines, strict=True)
        return _joined(
            b"\n",
            [self._document(document) if document else Searched(line) for document, line in pairs],
            data,
        )

    def _file(self, body: Body) -> Searched:
        """Redact a batch of requests. Other files stay unchanged."""
        if boundary := _boundary(body.content_type):
            return self._parts(body.data, boundary, lambda part, _: self._batch(part)) or Searched(body.data)
        return self._batch(body.data) or Searched(body.data)

    def _batch(self, data: bytes) -> Searched | None:
        if data.lstrip()[:1] != b"{" or not _is_batch(data):
            return None
        return self._json(data) or self._lines(data)

    def _parts(
        self, data: bytes, boundary: bytes, search: Callable[[bytes, str], Searched | None]
    ) -> Searched | None:
        """Search a multipart form, each part by its content type. Return None for other bodies."""
        pieces = data.split(b"--" + boundary)
        if len(pieces) < 3:
            return None
        done = [Searched(pieces[0])]
        for piece in pieces[1:]:
            gap = _HEAD_END.search(piece)
            start = gap.end() if gap else len(piece)
            head, content = piece[:start], piece[start:]
            end = content[len(content.removesuffix(b"\n").removesuffix(b"\r")) :]
            content = content[: len(content) - len(end)]
            kind = _PART_KIND.search(head)
            searched = search(content, kind[1].decode("latin-1") if kind else "") if content else None
            done.append(Searched(b"--" + boundary + head))
            done.append(searched or Searched(content))
            done.append(Searched(end))
        return _joined(b"", done, data)

    def _part(self, content: bytes, kind: str) -> Searched:
        return self._json(content) or self._lines(content) or self._text(content, kind.lower())

    def _other(self, body: Body) -> Searched:
        if body.says_json:
            raise Unreadable("its body is no JSON that can be read")
        return self._text(body.data, body.content_type.lower())

    def _text(self, data: bytes, kind: str) -> Searched:
        """Redact a body that is not JSON but may contain text. Raises RedactionError."""
        is_packed = any(name in kind for name in _PACKED)
        is_text = is_packed or _is_text(kind) or not kind
        try:
            text = data.decode("utf-8")
            if not is_packed:
                return self._replaced(data, text) if self.strict or is_text else Searched(data)
        except UnicodeDecodeError:
            text = data.replace(b"\0", b"").decode("latin-1")
            if self.strict:
                raise Unreadable("its body is no text that can be read") from None
        if is_packed and _is_squeezed(data, always="grpc" in kind):
            raise Unreadable("its messages are compressed")
        if is_text and self.redact(text, "").text != text:
            raise Unreadable("a secret in it is in a place where it can't be replaced")
        return Searched(data)

    def _replaced(self, data: bytes, text: str) -> Searched:
        redacted = self.redact(text, "")
        for hidden in (unquote_plus(redacted.text), redacted.text.replace("\0", "")):
            if self.strict and self.redact(hidden, "").text != hidden:
                raise Unreadable("a secret in it is in a place where it can't be replaced")
        if redacted.text == text:
            return Searched(data)
        return Searched(redacted.text.encode("utf-8"), False, Counter(redacted.counts))


def _is_squeezed(data: bytes, *, always: bool) -> bool:
    """Return whether a message in the body is compressed. Before each message are a flag and a length. With
    `always`, the body can contain only messages, so an incomplete message also counts."""
    at = 0
    while at < len(data):
        flag, end = data[at], at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
        if flag & 1 and (always or end <= len(data)):
            return True
        at = end
    return False


def _is_text(kind: str) -> bool:
    return any(name in kind for name in _TEXTS)


def _is_batch(data: bytes) -> bool:
    """Return whether every line is one request of a batch."""
    try:
        documents = [Document(line) for line in data.split(b"\n") if line.strip()]
    except NotJson:
        return False
    members = [document.members(document.root).keys() for document in documents]
    return bool(members) and all(all(names & some for some in _BATCH) for names in members)


def _joined(between: bytes, parts: list[Searched], data: bytes) -> Searched:
    body = between.join(part.body for part in parts)
    counts = sum((part.counts for part in parts), Counter[str]())
    return Searched(data if body == data else body, any(part.results for part in parts), counts)


def _boundary(content_type: str) -> bytes:
    if not content_type.lower().startswith("multipart/"):
        return b""
    match = _BOUNDARY.search(content_type)
    return (match[1] or match[2]).encode("utf-8") if match else b""
