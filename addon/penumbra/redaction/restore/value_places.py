"""This module finds the places of values in the arguments of past calls.

Clients repeat the arguments of past calls, as text or as JSON in another format. Each value in them is
replaced by the placeholder that the model wrote. No other byte changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from msgspec import Raw

from penumbra.redaction.placeholder import PATTERN
from penumbra.store.records import Stretch
from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import NotJson

_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+|\\", re.DOTALL
)
_LONG = 16
"""A shorter value is not found if a letter, digit or `_` is next to it."""
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
    """If `value` contains JSON: its document, and the string in this document; None for other text."""


def leaves(document: Document, arguments: Raw) -> Iterator[Leaf]:
    """Yield the strings in arguments: a JSON object, a string with the JSON of an object, or plain text."""
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


def edits_of(places: Iterable[tuple[Leaf, Sequence[Stretch]]]) -> Iterator[Edit]:
    """Yield the edits that replace stretches by their placeholders. `places` has leaves of one call, with the
    stretches of each leaf in the order of its text."""
    marked = [(leaf, stretches) for leaf, stretches in places if stretches]
    inside = [(*_inside(*leaf.inner), leaf.inner[0], stretches) for leaf, stretches in marked if leaf.inner]
    if not inside:
        for leaf, stretches in marked:
            yield from _edits(leaf.document, leaf.value, stretches)
        return
    # One string holds the leaves, and this string is read only once.
    moved: list[Stretch] = []
    at = characters = 0
    for begin, raw, inner, stretches in sorted(inside, key=itemgetter(0)):
        characters += len(inner.data[at:begin].decode("utf-8"))
        at = begin
        moved += [
            Stretch(characters + one.start, characters + one.end, one.mark)
            for one in _outwards(raw, stretches)
        ]
    yield from _edits(marked[0][0].document, marked[0][0].value, moved)


def _edits(document: Document, value: Raw, stretches: Sequence[Stretch]) -> Iterator[Edit]:
    end, raw = _inside(document, value)
    done = 0
    for one in _outwards(raw, stretches):
        start = end + len(raw[done : one.start].encode("utf-8"))
        end, done = start + len(raw[one.start : one.end].encode("utf-8")), one.end
        yield Edit(start, end, one.mark.encode("ascii"))


def _inside(document: Document, value: Raw) -> tuple[int, str]:
    """Return the offset after a string's opening quote, and the JSON text between its quotes."""
    start, end = document.place(value)
    return start + 1, document.data[start + 1 : end - 1].decode("utf-8")


def _outwards(raw: str, stretches: Sequence[Stretch]) -> list[Stretch]:
    """Return the stretches of a string as stretches of `raw`, which is the string as JSON."""
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
    """Return the places of the values in a text. Short values are found only as whole words."""
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
    """Return whether a match is part of a longer word. The word of a long match must continue at both
    ends."""
    before = start > 0 and bool(_WORD.match(text[start - 1]))
    after = end < len(text) and bool(_WORD.match(text[end]))
    return (before and after) if end - start >= _LONG else (before or after)


def replaced(text: str, stretches: Iterable[Stretch]) -> str:
    """Return the text with placeholders in place of its stretches."""
    pieces: list[str] = []
    at = 0
    for stretch in stretches:
        pieces += (text[at : stretch.start], stretch.mark)
        at = stretch.end
    return "".join([*pieces, text[at:]])


def swept(content: bytes, values: Mapping[str, str]) -> bytes:
    """Return the bytes with placeholders in place of values, also of values that are escaped in JSON."""
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
    """Return the places of the values in `sent`. The model wrote this string as `written`."""
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
    """Yield each string with values in `sent`, and the places of these values. `sent` are the arguments with
    values, and `written` are the arguments that the model wrote."""
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
