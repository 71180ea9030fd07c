"""Texts that are members of one JSON value, as the results of some APIs are, and such values as a whole.

A lone `9vTq2-LmX4wRk7` tells nothing; `{"password": "9vTq2-LmX4wRk7"}` does. So the value is searched as
the JSON that it is, and each of its texts that holds one line takes over what became of it there; texts
of several lines tell by themselves what is secret in them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Raw

from penumbra.apis.result_blocks import is_text, values
from penumbra.compress.result import Redacted
from penumbra.redaction import RedactionError
from penumbra.wire.document import Document
from penumbra.wire.json_values import decode, encode

_PLACEHOLDER = re.compile(r"\[REDACTED:([a-z0-9-]{1,40}):[a-z2-7]{6}\]")
_WRAPPED = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
_LEAST = 4
"""Characters; a shorter string holds no secret."""


class Structured:
    """What stands around the texts of one request's structured results. Each is searched once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Raw, Mapping[str, str]]] = {}

    def redact(
        self, document: Document, container: Raw, text: str, redact: Callable[[str], Redacted]
    ) -> Redacted:
        """A text of `container` without the secrets that it shows, or its surroundings.

        Raises RedactionError.
        """
        if id(container) not in self._known:
            # With the value itself, so that its id can't become another's.
            self._known[id(container)] = (container, surrounded(document.source(container), redact))
        beside = self._known[id(container)][1].get(text)
        if beside is None:
            return redact(text)
        further = redact(beside)
        counts = Counter(f"name-{label}" for label in _PLACEHOLDER.findall(beside))
        counts.subtract(f"name-{label}" for label in _PLACEHOLDER.findall(text))
        counts.update(further.counts)
        return Redacted(further.text, dict(sorted((+counts).items())))


def scalars(
    text: str, places: Sequence[object], redact: Callable[[str], Redacted]
) -> tuple[dict[int, bytes], dict[str, int]]:
    """What becomes of the strings and numbers of a JSON text that hold secrets, as JSON, by their index;
    and how many secrets there were, by rule. Those without a place are not to be changed.

    A number becomes a string: nothing else can stand for it. Raises RedactionError.
    """
    before = values(text.encode("utf-8"))
    whole = redact(text).text
    after = before if whole == text else values(whole.encode("utf-8", "surrogatepass"))
    if len(after) != len(before):
        if _is_json(whole):
            raise RedactionError("a result lost its shape")
        # A mask stands for the whole; each string is searched, and masked, by itself.
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
    """One string or number; `new`: what its surroundings made of it."""
    text, beside = decode(old), decode(new)
    if not isinstance(beside, str) or len(beside) < _LEAST:
        return new
    if isinstance(text, str) and "\n" in text.strip():
        beside = text
    further = redact(beside)
    counts.update(f"name-{label}" for label in _PLACEHOLDER.findall(beside))
    counts.subtract(f"name-{label}" for label in _PLACEHOLDER.findall(text if isinstance(text, str) else ""))
    counts.update(further.counts)
    clean = further.text
    if clean == text and (inner := _wrapped(clean, redact, counts)):
        clean = inner
    return old if clean == text else encode(clean)


def _wrapped(text: str, redact: Callable[[str], Redacted], counts: Counter[str]) -> str:
    """A text in base64 without the secrets of what it says; empty if it is none or has none."""
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


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def surrounded(source: bytes, redact: Callable[[str], Redacted]) -> Mapping[str, str]:
    """Texts of one line in a JSON value -> what is left of them, for what stands around them. Equal texts
    share what became of one."""
    text = source.decode("utf-8")
    clean = redact(text).text
    if clean == text:
        return {}
    try:
        before, after = (list(leaves(json.loads(side, object_pairs_hook=_values))) for side in (text, clean))
    except ValueError:
        # A mask stands for the whole; each text is searched, and masked, by itself.
        return {}
    if len(before) != len(after):
        raise RedactionError("a structured result lost its shape")
    return {
        old: new
        for old, new in zip(before, after, strict=True)
        if isinstance(old, str) and isinstance(new, str) and old != new and "\n" not in old.strip()
    }


def _values(pairs: list[tuple[str, Any]]) -> list[Any]:
    return [value for _, value in pairs]


def leaves(value: Any) -> Iterator[Any]:
    """All values that are no containers, in order."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list | tuple):
            waiting += reversed(node)
        else:
            yield node
