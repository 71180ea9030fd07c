"""This module redacts JSON so that the JSON stays valid."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Raw

from penumbra.apis.result_blocks import is_text, values
from penumbra.compress.result import Redacted
from penumbra.redaction import RedactionError
from penumbra.redaction.span import Span
from penumbra.wire.document import Document
from penumbra.wire.json_values import decode, encode

_SURROGATE = re.compile(rb"\xed|\\u[dD][89a-fA-F]")
_STRING = re.compile(rb'"((?:[^"\\]++|\\.)*+)"?', re.DOTALL)
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)


def is_json(data: bytes) -> bool:
    """Return whether the text is one JSON document with an object or array at its top."""
    inner = data.strip()
    if inner[:1] not in (b"{", b"[") or inner[-1:] not in (b"}", b"]"):
        return False
    try:
        orjson.loads(inner)
    except orjson.JSONDecodeError:
        return bool(_SURROGATE.search(inner)) and _is_json(inner.decode("utf-8", "surrogatepass"))
    return True


def still_json(text: str, new: str) -> str:
    """Return the new text. If only the old text was JSON, return an object with the new text."""
    encoded = (each.encode("utf-8", "surrogatepass") for each in (text, new))
    was, is_now = (is_json(data) for data in encoded)
    return encode({"redacted": new}).decode("utf-8") if was and not is_now else new


def _is_json(text: str) -> bool:
    """Return whether a text is JSON. The text may have lone surrogates, which orjson refuses."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def inside_strings(data: bytes, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the parts of the spans that are inside strings, widened to whole escapes. The placeholder of a
    number gets quotes. Other parts outside of strings are dropped."""
    strings = _STRING.finditer(data)
    string = next(strings, None)
    for span in spans:
        while string is not None and string.end(1) <= span.start:
            string = next(strings, None)
        if span.quote and (string is None or string.start() >= span.end):
            yield span._replace(quote=b'"')
            continue
        while string is not None and string.start(1) < span.end:
            start, end = max(span.start, string.start(1)), min(span.end, string.end(1))
            if start < end:
                start, end = _whole_escapes(data, string.start(1), start, end)
                # If the JSON is itself inside a string, the quotes around its placeholders are escaped.
                quote = span.quote if span.quote[:1] == b"\\" else b""
                yield span._replace(start=start, end=end, quote=quote)
            if string.end(1) >= span.end:
                break
            string = next(strings, None)


def _whole_escapes(data: bytes, first: int, start: int, end: int) -> tuple[int, int]:
    """Return `start` and `end`, moved outwards if they cut an escape."""
    low = max(first, start - 12)
    # Pairs of backslashes are counted from the left. The search therefore begins after a byte that is no
    # backslash.
    while low > first and data[low - 1 : low] == b"\\":
        low -= 1
    for match in _ESCAPE.finditer(data, low, end + 12):
        if match.start() < start < match.end():
            start = match.start()
        if match.start() < end < match.end():
            end = match.end()
        if match.start() >= end:
            break
    return start, end


# Some results are JSON values, as in `{"password": "9vTq2-LmX4wRk7"}`, where only the name shows that the
# text is a secret. The value is therefore searched as a whole, and its texts of one line are redacted as this
# search shows. Texts of several lines are searched alone.
_PLACEHOLDER = re.compile(r"\[REDACTED:([a-z0-9-]{1,40}):[a-z2-7]{6}\]")
_WRAPPED = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
_LEAST = 4
"""A shorter string, in characters, is not searched by itself."""


class Structured:
    """A `Structured` redacts the structured results of one request."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Raw, Mapping[str, str]]] = {}

    def redact(
        self, document: Document, container: Raw, text: str, redact: Callable[[str], Redacted]
    ) -> Redacted:
        """Return a text of `container` without secrets, such as those that only their names in `container`
        show. Raises RedactionError."""
        if has_lines(text):
            return redact(text)
        if id(container) not in self._known:
            # The value is stored, so that no other value can get its `id()`.
            self._known[id(container)] = (container, surrounded(document.source(container), redact))
        beside = self._known[id(container)][1].get(text)
        if beside is None:
            return redact(text)
        further = redact(beside)
        counts = _counts(text, beside)
        counts.update(further.counts)
        return Redacted(further.text, dict(sorted((+counts).items())))


def _counts(text: str, beside: str) -> Counter[str]:
    """Return the number of secrets, by rule, that are redacted in `beside` but not in `text`."""
    counts = Counter(f"name-{label}" for label in _PLACEHOLDER.findall(beside))
    counts.subtract(f"name-{label}" for label in _PLACEHOLDER.findall(text))
    return counts


def scalars(
    text: str, places: Sequence[object], redact: Callable[[str], Redacted]
) -> tuple[dict[int, bytes], dict[str, int]]:
    """Return the new JSON of each string and number with a secret, by index, and the number of secrets by
    rule. Values whose place is None stay. A number with a secret becomes a string. Raises RedactionError."""
    before = values(text.encode("utf-8"))
    whole = redact(text).text
    after = before if whole == text else values(whole.encode("utf-8", "surrogatepass"))
    if len(after) != len(before):
        if _is_json(whole):
            raise RedactionError("a result lost its shape")
        # If the whole text became one placeholder, each string is searched by itself.
        after = before
    changed: dict[int, bytes] = {}
    counts: Counter[str] = Counter()
    for index, (old, new, place) in enumerate(zip(before, after, places, strict=True)):
        if place is None:
            continue
        clean = _scalar(old, new, redact, counts)
        if clean != old:
            changed[index] = clean
    return changed, dict(sorted((+counts).items()))


def _scalar(old: bytes, new: bytes, redact: Callable[[str], Redacted], counts: Counter[str]) -> bytes:
    """Return the JSON of one string or number. `new` is its JSON after the whole text was redacted."""
    text, beside = decode(old), decode(new)
    if not isinstance(beside, str) or len(beside) < _LEAST:
        return new
    if isinstance(text, str) and has_lines(text):
        beside = text
    further = redact(beside)
    counts.update(_counts(text if isinstance(text, str) else "", beside))
    counts.update(further.counts)
    clean = further.text
    if clean == text and (inner := _wrapped(clean, redact, counts)):
        clean = inner
    return old if clean == text else encode(clean)


def _wrapped(text: str, redact: Callable[[str], Redacted], counts: Counter[str]) -> str:
    """Return a base64 text without the secrets in its content; empty if there are no secrets."""
    if len(text) % 4 or not _WRAPPED.fullmatch(text):
        return ""
    try:
        data = base64.b64decode(text, validate=True)
        inner = data.decode("utf-8") if is_text(data) else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""
    clean = redact(inner)
    if clean.text == inner:
        return ""
    counts.update(clean.counts)
    return base64.b64encode(clean.text.encode("utf-8", "surrogatepass")).decode("ascii")


def surrounded(source: bytes, redact: Callable[[str], Redacted]) -> Mapping[str, str]:
    """Return new forms for the texts of one line in which the search of the whole JSON value finds secrets.
    Equal texts get the same form. Raises RedactionError."""
    text = source.decode("utf-8")
    clean = redact(text).text
    if clean == text:
        return {}
    try:
        before, after = (list(leaves(json.loads(side, object_pairs_hook=_values))) for side in (text, clean))
    except ValueError:
        # If the whole value became one placeholder, each text is searched by itself.
        return {}
    if len(before) != len(after):
        raise RedactionError("a structured result lost its shape")
    return {
        old: new
        for old, new in zip(before, after, strict=True)
        if isinstance(old, str) and isinstance(new, str) and old != new and not has_lines(old)
    }


def has_lines(text: str) -> bool:
    """Return whether a text has several lines. Such a text is searched alone, without its JSON value."""
    return "\n" in text.strip()


def _values(pairs: list[tuple[str, Any]]) -> list[Any]:
    return [value for _, value in pairs]


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values in nested lists and tuples, in order."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list | tuple):
            waiting += reversed(node)
        else:
            yield node
