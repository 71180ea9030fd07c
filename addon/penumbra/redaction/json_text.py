"""Keeps JSON valid: in a JSON document, what is replaced lies inside of strings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import orjson

from penumbra.redaction.span import Span
from penumbra.wire.json_values import encode

_SURROGATE = re.compile(rb"\xed|\\u[dD][89a-fA-F]")
_STRING = re.compile(rb'"((?:[^"\\]++|\\.)*+)"?', re.DOTALL)
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)


def is_json(data: bytes) -> bool:
    """Whether the text is one JSON document with an object or array at its top."""
    inner = data.strip()
    if inner[:1] not in (b"{", b"[") or inner[-1:] not in (b"}", b"]"):
        return False
    try:
        orjson.loads(inner)
    except orjson.JSONDecodeError:
        return bool(_SURROGATE.search(inner)) and _is_lenient_json(inner)
    return True


def still_json(text: str, new: str) -> str:
    """Return what a text has become; wrapped in an object where it was JSON and is none any more."""
    encoded = (each.encode("utf-8", "surrogatepass") for each in (text, new))
    was, is_now = (is_json(data) for data in encoded)
    return encode({"redacted": new}).decode("utf-8") if was and not is_now else new


def _is_lenient_json(data: bytes) -> bool:
    """With lone surrogates, which orjson refuses."""
    try:
        json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return False
    return True


def inside_strings(data: bytes, spans: list[Span]) -> list[Span]:
    """The spans, cut at the borders of strings and widened to whole escapes.

    A bare number keeps its span: its placeholder brings quotes along. Anything else outside of
    strings is no value and is dropped.
    """
    return list(_cut(data, spans))


def _cut(data: bytes, spans: list[Span]) -> Iterator[Span]:
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
                # A number of a document inside of a string has escaped quotes.
                quote = span.quote if span.quote[:1] == b"\\" else b""
                yield span._replace(start=start, end=end, quote=quote)
            if string.end(1) >= span.end:
                break
            string = next(strings, None)


def _whole_escapes(data: bytes, first: int, start: int, end: int) -> tuple[int, int]:
    """`start` and `end` moved outwards where they cut an escape in two."""
    low = max(first, start - 12)
    # Backslashes pair up from the left: begin where none stands in front.
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
