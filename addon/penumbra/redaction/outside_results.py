"""Secrets in what was said outside of tool results.

Clients send all of it again in every request, so what was found in a text is remembered; what becomes
of a text depends on the text alone, so it is the same in every request of a conversation.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec import Raw

from penumbra.compress.result import Redacted
from penumbra.wire.document import Document
from penumbra.wire.json_values import encode

_MEMORY_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Outside:
    """What was found outside of tool results."""

    amended: bool
    counts: Mapping[str, int]
    """Secrets in texts not seen before, by rule."""


class OutsideResults:
    """Redacts texts and arguments of requests. Safe between threads; keeps no secret. What was found is
    remembered by who said it and its bytes."""

    def __init__(self, memory: int = _MEMORY_BYTES) -> None:
        """`memory`: bytes of redacted texts that are remembered."""
        self._most = memory
        self._known: OrderedDict[bytes, bytes | None] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def redact(
        self,
        document: Document,
        values: Iterable[Raw],
        redact: Callable[[str, str], Redacted],
        scope: bytes = b"",
    ) -> Outside:
        """Amend the values that hold secrets.

        A string may hold JSON; it holds JSON afterwards too. A container is redacted as the JSON that
        it is, so that the names of its members tell what is secret. Raises RedactionError.
        """
        counts: Counter[str] = Counter()
        amended = False
        for value in values:
            source = document.source(value)
            if (clean := self._clean(document, value, source, redact, counts, scope)) is not None:
                document.amend(value, clean)
                amended = True
        return Outside(amended, dict(sorted(counts.items())))

    def _clean(
        self,
        document: Document,
        value: Raw,
        source: bytes,
        redact: Callable[[str, str], Redacted],
        counts: Counter[str],
        scope: bytes,
    ) -> bytes | None:
        """The value, as JSON, without its secrets; None if it has none."""
        key = hashlib.blake2b(source, key=scope[:64], digest_size=16).digest()
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        is_string = document.is_string(value)
        if not is_string and source[:1] not in (b"{", b"["):
            return None
        text = document.string(value) if is_string else None
        if text is None:
            text = source.decode("utf-8")
        redacted = redact(text, "")
        counts.update(redacted.counts)
        clean = None
        if redacted.text != text:
            new = still_json(text, redacted.text)
            clean = encode(new) if is_string else new.encode("utf-8", "surrogatepass")
        self._remember(key, clean)
        return clean

    def _remember(self, key: bytes, clean: bytes | None) -> None:
        with self._lock:
            if key in self._known:
                return
            self._known[key] = clean
            self._bytes += _weight(clean)
            while self._bytes > self._most and len(self._known) > 1:
                _, oldest = self._known.popitem(last=False)
                self._bytes -= _weight(oldest)


def still_json(text: str, new: str) -> str:
    """What a text becomes, as JSON if the text is."""
    if _is_json(text) and not _is_json(new):
        return encode({"redacted": new}).decode("utf-8")
    return new


def _is_json(text: str) -> bool:
    """Whether the text is an object or array of JSON; lone surrogates in escapes are allowed."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _weight(clean: bytes | None) -> int:
    return 100 + len(clean or b"")
