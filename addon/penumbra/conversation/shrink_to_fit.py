"""Chooses results to shorten, and how far, so that a request fits; and shortens one of them.

Each step allows less than the one before it: old results keep their head, tail and critical lines, then
less of them; the unread tail comes last and keeps the most. The ladder stops as soon as enough is saved.
Superseded results shrink first, then the largest ones that the model has answered; results that others refer
to come after those, and older ones before later ones of the same size.

One result keeps its head, its tail, and windows around its critical lines. JSON stays JSON: an object keeps
its keys, with `truncated` and `originalLength`; an array keeps its first items and its last one. Markers
count characters exactly: those of a text, or of the JSON of all else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from msgspec import Raw

from penumbra.compress import selection
from penumbra.compress import token_estimate as tokens
from penumbra.compress.size import encode, head, size
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson
from penumbra.wire.json_values import encode as encode_json

SLACK = 0.85
"""A request that has to shrink shrinks to this part of its limit: cuts come in batches, not every turn."""
_SHORT = 80
"""A value this small (bytes) is not worth a marker."""
_TRIES = 4


def omitted(count: int) -> str:
    """The marker that replaces `count` characters."""
    return f"[omitted {count} chars due to provider limits]"


def shorten(text: str, limit: int) -> str | None:
    """The text in at most `limit` UTF-8 bytes; None if it is no larger, or if it can't get smaller."""
    if size(text) <= limit or limit <= 0:
        return None
    document = _document(text)
    if document is None:
        form = _plain(text, limit)
    elif document.members(document.root):
        form = _object(document, text, limit)
    else:
        form = _array(document, text, limit)
    return form if form and size(form) <= limit else None


def _document(text: str) -> Document | None:
    """The text as a JSON object or array that has something in it; None if it is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        document = Document(text.encode("utf-8"))
        return document if document.members(document.root) or document.items(document.root) else None
    except (NotJson, UnicodeEncodeError):
        return None


def _plain(text: str, limit: int) -> str | None:
    data = encode(text)
    if limit >= selection.LEAST:
        return selection.ends_in_part(data, limit, lambda start, end: omitted(_characters(data, start, end)))
    marker = omitted(len(text))
    room = limit - len(marker) - 1
    if room < 0:
        return None
    kept = head(text, room)
    return f"{kept}\n{omitted(len(text) - len(kept))}" if kept else marker


def _characters(data: bytes, start: int, end: int) -> int:
    return len(data[start:end].decode("utf-8", "surrogatepass"))


def _object(document: Document, text: str, limit: int) -> str | None:
    """The object with its fattest values cut, down to what is needed."""
    members = document.members(document.root)
    notes: dict[str, object] = {"truncated": True, "originalLength": len(text)}
    if notes.keys() & members.keys():
        # The client's own members of these names stay, and there is no second pair.
        notes = {}
    sources = {key: document.source(value) for key, value in members.items()}
    by_size = sorted(sources, key=lambda key: (-len(sources[key]), key))
    cut: dict[str, bytes] = {}
    for key in by_size:
        if len(sources[key]) <= _SHORT:
            break
        cut[key] = encode_json(omitted(_length(document, members[key])))
        form = _written({**sources, **cut}, notes)
        if len(form) <= limit:
            room = limit - len(form) + len(cut[key])
            kept = document.string(members[key])
            if kept is not None and room >= selection.LEAST:
                cut[key] = _fitting(kept, room) or cut[key]
            return _written({**sources, **cut}, notes).decode("utf-8")
    return _first_members(sources, notes, limit)


def _first_members(sources: Mapping[str, bytes], notes: Mapping[str, object], limit: int) -> str | None:
    """The members in front that fit, and a text instead of the others."""
    if "omitted" in sources or not notes:
        return None
    costs = {key: len(encode_json(key)) + len(source) + 2 for key, source in sources.items()}
    room = limit - len(_written({}, notes)) - len(omitted(sum(costs.values()))) - len('"omitted":"",')
    kept: dict[str, bytes] = {}
    for key, source in sources.items():
        if costs[key] > room:
            break
        kept[key] = source
        room -= costs[key]
    if room < 0:
        return None
    missing = sum(len(source.decode("utf-8")) for key, source in sources.items() if key not in kept)
    return _written({**kept, "omitted": encode_json(omitted(missing))}, notes).decode("utf-8")


def _length(document: Document, value: Raw) -> int:
    """Characters of a value: of a string its own, of all else its JSON."""
    string = document.string(value)
    return len(document.source(value).decode("utf-8")) if string is None else len(string)


def _fitting(text: str, room: int) -> bytes | None:
    """The text cut so that its JSON fits: escapes may make it larger than itself."""
    limit = room - 2
    for _ in range(_TRIES):
        form = _plain(text, limit) if limit >= selection.LEAST else None
        if form is None or form == text:
            return None
        written = encode_json(form)
        if len(written) <= room:
            return written
        limit = limit * room // len(written) - 8
    return None


def _written(members: Mapping[str, bytes], notes: Mapping[str, object]) -> bytes:
    every = {**members, **{key: encode_json(value) for key, value in notes.items()}}
    return b"{" + b",".join(encode_json(key) + b":" + value for key, value in every.items()) + b"}"


def _array(document: Document, text: str, limit: int) -> str | None:
    """The first items that fit, how much is missing, and the last item."""
    sources = [document.source(item).decode("utf-8") for item in document.items(document.root)]
    last = sources[-1]
    room = limit - len(omitted(len(text))) - 8
    tail = [last] if size(last) <= room // 3 else []
    room -= sum(size(item) + 1 for item in tail)
    first: list[str] = []
    for item in sources[: len(sources) - len(tail)]:
        if size(item) + 1 > room:
            break
        first.append(item)
        room -= size(item) + 1
    if not first and not tail:
        cut = _item(document, room)
        return None if cut is None else _array_of([cut], sources[1:], [])
    return _array_of(first, sources[len(first) : len(sources) - len(tail)], tail)


def _item(document: Document, room: int) -> str | None:
    """The first item of an array in at most `room` bytes."""
    item = document.items(document.root)[0]
    text = document.string(item)
    if text is None:
        return shorten(document.source(item).decode("utf-8"), room)
    written = _fitting(text, room)
    return written.decode("utf-8") if written else None


def _array_of(first: list[str], missing: list[str], tail: list[str]) -> str:
    if not missing:
        return "[" + ",".join([*first, *tail]) + "]"
    marker = encode_json(omitted(sum(map(len, missing)))).decode("utf-8")
    return "[" + ",".join([*first, marker, *tail]) + "]"


def excess(sizes: Iterable[int], limit: int) -> int:
    """The bytes by which the results have to shrink together; 0 while they are within the limit, or without
    one."""
    total = sum(sizes)
    return total - int(limit * SLACK) if 0 < limit < total else 0


@dataclass(frozen=True, slots=True)
class Need:
    """The bytes by which a request has to shrink. Nothing at all where everything is zero."""

    tokens: int = 0
    """Estimated tokens to save."""
    bytes: int = 0
    """UTF-8 bytes to save."""
    most: int = 0
    """Characters that any result may have."""


@dataclass(frozen=True, slots=True)
class Text:
    """One result text of the request."""

    index: int
    """Index among the request's texts."""
    original: str
    """The whole text, without secrets."""
    forwarded: str
    """The form that was sent."""
    prefix: str = ""
    """Beginning of every form that leaves something out."""
    unread: bool = False
    superseded: bool = False
    referred: bool = False
    """A later result refers to this one."""

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int]:
        """Key that sorts texts by how early they are shortened."""
        referred = self.referred and not self.superseded
        return self.unread, not self.superseded, referred, -len(self.forwarded), self.index


@dataclass(frozen=True, slots=True)
class _Step:
    unread: bool
    limit: int
    """Bytes of a text."""
    only_superseded: bool = False


_STEPS = (
    _Step(False, 400, only_superseded=True),
    _Step(False, 4_000),
    _Step(False, 1_000),
    _Step(True, 16_000),
    _Step(False, 400),
    _Step(True, 4_000),
    _Step(True, 1_500),
)


def plan(texts: Sequence[Text], needed: Need) -> dict[int, str]:
    """New forms by the texts' index, each smaller than what was sent; prefix included."""
    if needed.most:
        return _capped(texts, needed.most)
    measure: Callable[[str], int] = size if needed.bytes else tokens.estimate
    missing = needed.bytes or needed.tokens
    forms: dict[int, str] = {}
    ranked = sorted(texts, key=attrgetter("rank"))
    for step in _STEPS:
        for text in ranked:
            if text.unread != step.unread or (step.only_superseded and not text.superseded):
                continue
            if missing <= 0:
                return forms
            current = forms.get(text.index, text.forwarded)
            form = shortened(text, step.limit)
            if form is not None and size(form) < size(current) and measure(form) < measure(current):
                missing -= measure(current) - measure(form)
                forms[text.index] = form
    return forms


def shortened(text: Text, limit: int) -> str | None:
    """The text in at most `limit` bytes, its prefix included; None if there is no smaller form."""
    form = shorten(text.original, limit - size(text.prefix))
    return None if form is None else text.prefix + form


def _capped(texts: Sequence[Text], most: int) -> dict[int, str]:
    """Every text that has more than `most` characters, in at most so many bytes."""
    forms: dict[int, str] = {}
    for text in texts:
        if len(text.forwarded) > most:
            form = shortened(text, most)
            if form is not None and size(form) < size(text.forwarded):
                forms[text.index] = form
    return forms
