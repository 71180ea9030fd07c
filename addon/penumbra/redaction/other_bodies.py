"""Bodies that are no LLM calls, searched for secrets: JSON of any shape, lines of JSON, text, and batches
of requests in files. Nothing else is done to them.

What can't be read is refused where it says that it is text, and where nothing but text would make sense.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from penumbra.redaction import Unreadable
from penumbra.redaction.unknown_json import Anywhere
from penumbra.redaction.unsearchable import Redact
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson

_MARKS = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
"""What may stand in front of JSON in some encoding."""
_LIKE_JSON = re.compile(rb'[\[{]\0{0,3}[\s\0]{0,80}["\[{\]}]')
_TEXTS = ("text/", "ndjson", "jsonl", "json-lines", "xml", "yaml", "graphql", "multipart/")
_PACKED = ("grpc", "proto", "cbor", "msgpack", "eventstream", "application/http")
"""Kinds of messages that say the lengths of their texts, and so can't have others in their places."""
_PART_KIND = re.compile(rb"(?i)\ncontent-type[ \t]{0,8}:[ \t]{0,8}([^\r\n]{0,200})")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_BOUNDARY = re.compile(r"boundary\s{0,8}=\s{0,8}(?:\"([^\"]{1,200})\"|([^\s;,]{1,200}))", re.IGNORECASE)
_BATCH = (frozenset(("custom_id", "key")), frozenset(("body", "params", "request")))
"""Members of a line of a batch, one of each."""


@dataclass(slots=True)
class Searched:
    """A body without the secrets that were found in it."""

    body: bytes
    results: bool = False
    """It carries results of tools."""
    counts: Counter[str] = field(default_factory=Counter)
    """Secrets not seen before, by rule."""


@dataclass(frozen=True, slots=True)
class Body:
    """What is to be searched."""

    data: bytes
    """Without content coding."""
    content_type: str = ""
    strict: bool = False
    """Nothing but JSON makes sense there."""
    files: bool = False
    """It is a file, or a form with files: only batches are searched."""

    @property
    def says_json(self) -> bool:
        """Whether it should be JSON, by its own account or by its beginning."""
        return "json" in self.content_type.lower() or bool(_LIKE_JSON.match(self.data.lstrip(_MARKS)))


class OtherBodies:
    """Remembers what became of the items that it has searched."""

    def __init__(self) -> None:
        self._anywhere = Anywhere()

    def search(self, body: Body, redact: Redact, *, said: bool, policy: str, scope: bytes = b"") -> Searched:
        """The body as it may be sent; the same object if nothing is in it. Raises RedactionError.

        `said`: also in what the model calls tools with. `policy`: what becomes of a text that can't be
        searched. `scope`: who is asking.
        """
        return _Search(self._anywhere, redact, said, policy, body.strict, scope).body(body)


@dataclass(frozen=True, slots=True)
class _Search:
    anywhere: Anywhere
    redact: Redact
    said: bool
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
            raise Unreadable("it says twice what it is")
        clean = self.anywhere.redact(
            document, self.redact, said=self.said, policy=self.policy, scope=self.scope
        )
        return Searched(document.render(), clean.results, clean.counts)

    def _lines(self, data: bytes) -> Searched | None:
        """Lines that are JSON, each by itself."""
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
        """A file is its owner's, but for a batch of requests."""
        if boundary := _boundary(body.content_type):
            return self._parts(body.data, boundary, lambda part, _: self._batch(part)) or Searched(body.data)
        return self._batch(body.data) or Searched(body.data)

    def _batch(self, data: bytes) -> Searched | None:
        begin = data.lstrip()[:1]
        if begin != b"{" or not _is_batch(data):
            return None
        return self._json(data) or self._lines(data)

    def _parts(
        self, data: bytes, boundary: bytes, search: Callable[[bytes, str], Searched | None]
    ) -> Searched | None:
        """A form with parts, each searched by itself, given its kind; None: it is none."""
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
        """Text that is no JSON, or something else that may hold texts."""
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
        if is_packed and _is_squeezed(data):
            raise Unreadable("its messages are compressed")
        if is_text and self.redact(text, "").text != text:
            raise Unreadable("a secret in it stands where it can't be replaced")
        return Searched(data)

    def _replaced(self, data: bytes, text: str) -> Searched:
        redacted = self.redact(text, "")
        for hidden in (unquote_plus(redacted.text), redacted.text.replace("\0", "")):
            if self.strict and self.redact(hidden, "").text != hidden:
                raise Unreadable("a secret in it stands where it can't be replaced")
        if redacted.text == text:
            return Searched(data)
        return Searched(redacted.text.encode("utf-8"), False, Counter(redacted.counts))


def _is_squeezed(data: bytes) -> bool:
    """Return whether one of several messages, each behind a flag and its length, is compressed."""
    while data and not data[0] & 1:
        data = data[5 + int.from_bytes(data[1:5], "big") :]
    return bool(data)


def _is_text(kind: str) -> bool:
    return any(name in kind for name in _TEXTS)


def _is_batch(data: bytes) -> bool:
    """Whether every line is a request of a batch."""
    try:
        documents = list(_documents(data))
    except NotJson:
        return False
    members = [document.members(document.root).keys() for document in documents]
    return bool(members) and all(all(names & some for some in _BATCH) for names in members)


def _documents(data: bytes) -> Iterator[Document]:
    for line in data.split(b"\n"):
        if line.strip():
            yield Document(line)


def _joined(between: bytes, parts: list[Searched], data: bytes) -> Searched:
    """The parts of a body together."""
    body = between.join(part.body for part in parts)
    counts = sum((part.counts for part in parts), Counter[str]())
    return Searched(data if body == data else body, any(part.results for part in parts), counts)


def _boundary(content_type: str) -> bytes:
    if not content_type.lower().startswith("multipart/"):
        return b""
    match = _BOUNDARY.search(content_type)
    return (match[1] or match[2]).encode("utf-8") if match else b""
