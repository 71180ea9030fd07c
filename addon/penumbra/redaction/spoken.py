"""Secrets in what was said outside of tool results.

Clients send all of it again in every request, so what was found in a text is remembered; what becomes
of a text depends on the text alone, so it is the same in every request of a conversation.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from msgspec import Raw

from penumbra.text.result import Redacted
from penumbra.wire.document import Document, encode

_MEMORY_CHARACTERS = 16_000_000


class Spoken:
    """Redacts texts and arguments of requests. Safe between threads; keeps no secret."""

    def __init__(self, memory: int = _MEMORY_CHARACTERS) -> None:
        """`memory`: characters of redacted texts that are remembered."""
        self._most = memory
        self._known: OrderedDict[bytes, str | None] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def redact(
        self, document: Document, values: Iterable[Raw], redact: Callable[[str, str], Redacted]
    ) -> dict[str, int]:
        """Edit the values that hold secrets; how many were found in texts not seen before, by rule.

        A string may hold JSON; it holds JSON afterwards too. A container is redacted as the JSON that
        it is, so that the names of its members tell what is secret. Raises RedactionError.
        """
        counts: Counter[str] = Counter()
        for value in values:
            text = document.string(value)
            if text is not None:
                if (clean := self._clean(text, redact, counts)) is not None:
                    document.replace(value, clean)
                continue
            source = document.source(value).decode("utf-8")
            if source[:1] not in ("{", "["):
                continue
            if (clean := self._clean(source, redact, counts)) is not None:
                document.rewrite(value, clean.encode("utf-8", "surrogatepass"))
        return dict(sorted(counts.items()))

    def _clean(self, text: str, redact: Callable[[str, str], Redacted], counts: Counter[str]) -> str | None:
        """The text without its secrets; None if it has none."""
        data = text.encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(data, digest_size=16).digest()
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        redacted = redact(text, "")
        counts.update(redacted.counts)
        clean = redacted.text if redacted.text != text else None
        if clean is not None and _is_json(text) and not _is_json(clean):
            clean = encode({"redacted": clean}).decode("utf-8")
        self._remember(key, clean)
        return clean

    def _remember(self, key: bytes, clean: str | None) -> None:
        with self._lock:
            if key in self._known:
                return
            self._known[key] = clean
            self._characters += _weight(clean)
            while self._characters > self._most and len(self._known) > 1:
                _, oldest = self._known.popitem(last=False)
                self._characters -= _weight(oldest)


def _is_json(text: str) -> bool:
    """Whether the text is an object or array of JSON; lone surrogates in escapes are allowed."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _weight(clean: str | None) -> int:
    return 100 + len(clean or "")
