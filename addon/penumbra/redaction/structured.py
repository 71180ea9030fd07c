"""Texts that are members of one JSON value, as the results of some APIs are.

A lone `9vTq2-LmX4wRk7` tells nothing; `{"password": "9vTq2-LmX4wRk7"}` does. So the value is searched as
the JSON that it is, and each of its texts that holds one line takes over what became of it there; texts
of several lines tell by themselves what is secret in them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Raw

from penumbra.redaction import RedactionError
from penumbra.text.result import Redacted
from penumbra.wire.document import Document

_PLACEHOLDER = re.compile(r"\[REDACTED:([a-z0-9-]{1,40}):[a-z2-7]{6}\]")


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


def surrounded(source: bytes, redact: Callable[[str], Redacted]) -> Mapping[str, str]:
    """Texts of one line in a JSON value -> what is left of them, for what stands around them. Equal texts
    share what became of one."""
    text = source.decode("utf-8")
    clean = redact(text).text
    if clean == text:
        return {}
    try:
        before, after = (list(leaves(json.loads(one, object_pairs_hook=_values))) for one in (text, clean))
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
        one = waiting.pop()
        if isinstance(one, list | tuple):
            waiting += reversed(one)
        else:
            yield one
