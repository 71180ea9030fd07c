"""Texts in base64: files of settings, manifests, service accounts, which a variable or an API carries so."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator

import re2

from penumbra.linear import Linear
from penumbra.redaction.span import Rank, Span

_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
RUN = Linear(rb"[A-Za-z0-9+/]{48,}={0,2}", _OPTIONS)
_SAMPLE = 48
"""Characters that tell a text from a picture."""
_LONGEST = 1 << 20
_TEXT = frozenset((*b"\t\n\r", *range(32, 127)))
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _of_text() -> bytes:
    """A pattern that matches in each run whose beginning says a text: three bytes of one are four characters,
    of which a byte's first bits leave few. The last four of the sample may be cut by the run's end."""
    firsts = {byte >> 2 for byte in _TEXT}, {byte >> 4 for byte in _TEXT}, {byte >> 6 for byte in _TEXT}
    characters = (
        _ALPHABET,
        (_ALPHABET[index] for index in firsts[0]),
        (_ALPHABET[index] for index in range(64) if index & 15 in firsts[1]),
        (_ALPHABET[index] for index in range(64) if index & 3 in firsts[2]),
    )
    classes = [b"[%b]" % bytes(sorted(each)) for each in characters]
    return b"(?:%b){%d}" % (b"".join((*classes[1:], classes[0])), _SAMPLE // 4 - 1)


TEXTS = _of_text()
"""A pattern of RE2 that matches wherever `encoded_texts` may find anything."""


def encoded_texts(data: bytes, holds_secrets: Callable[[bytes], bool]) -> Iterator[Span]:
    """Spans of the runs of base64 that say a text with secrets in it."""
    for run in RUN.finditer(data):
        start, end = run.span()
        start += data[start - 1 : start] == b"\\"  # The letter of an escape.
        if not _is_text(data[start : start + _SAMPLE]) or end - start > _LONGEST:
            continue
        length = (end - start) // 4 * 4
        try:
            text = base64.b64decode(data[start : start + length], validate=True)
        except (binascii.Error, ValueError):
            continue
        if holds_secrets(text):
            yield Span(start, end, "encoded-secret", "encoded-secret", Rank.STRUCTURE)


def _is_text(sample: bytes) -> bool:
    try:
        text = base64.b64decode(sample, validate=True)
    except (binascii.Error, ValueError):
        return False
    return _TEXT.issuperset(text)
