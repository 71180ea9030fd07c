"""What stands in front of all messages, as two hashes: a cached prompt begins with it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from cachetools import LRUCache
from msgspec import Raw

from penumbra.apis.gemini import inner
from penumbra.apis.session import stable
from penumbra.linear import utf8
from penumbra.wire.document import Document

_TOOLS = ("tools", "toolConfig", "tool_config")
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
_STABLE: LRUCache[bytes, bytes] = LRUCache(512)
"""Hashes of texts without what changes, by the hashes of the texts: those are long, and come every turn."""


@dataclass(frozen=True, slots=True)
class PromptHead:
    """Hashes; of the system text, what changes with every request (times, billing headers) does not count."""

    tools: bytes = b""
    system: bytes = b""


def read(document: Document) -> PromptHead:
    """The head of a request of any API."""
    members = {**document.members(document.root), **inner(document)}
    tools, system = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for name in _TOOLS:
        if (value := members.get(name)) is not None:
            tools.update(document.source(value))
    for name in _SYSTEM:
        if (value := members.get(name)) is not None:
            for part in document.items(value) or (value,):
                system.update(_stable(document, part))
    return PromptHead(tools.digest(), system.digest())


def _stable(document: Document, part: Raw) -> bytes:
    source = document.source(part)
    digest = hashlib.blake2b(source, digest_size=16).digest()
    found = _STABLE.get(digest)
    if found is None:
        said = document.string(document.members(part).get("text", part))
        text = stable(source.decode("utf-8", "replace") if said is None else said)
        found = _STABLE[digest] = hashlib.blake2b(utf8(text), digest_size=16).digest()
    return found
