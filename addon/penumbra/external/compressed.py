"""Answers of strategies, kept for a long time: the same text for the same question is asked once.

The key holds all that an answer depends on, so a changed model or ratio, or another question, never
gets what was made for a different one.
"""

from __future__ import annotations

import hashlib

from penumbra.external.strategy import Strategy, Task
from penumbra.store.table import Schema, Table, pack_text, unpack_text

TTL = 24 * 3_600.0
"""Seconds since the last use."""
SCHEMA = Schema("compressed", pack_text, unpack_text)
Compressed = Table[str]
"""Answers by key. They are added: the first one stays, so that all who ask get the same."""


def key(secret: bytes, strategy: Strategy, task: Task) -> bytes:
    """What the answer to a task is found by; 20 bytes. `secret` is the installation's key."""
    digest = hashlib.blake2b(key=secret[:64], digest_size=20, person=b"penumbra short")
    owner = task.credential.owner.hex() if task.credential else ""
    owner += task.scope.hex()
    parts = (
        strategy.name,
        strategy.identity,
        repr(task.ratio),
        owner,
        task.tool,
        task.intent,
        task.question,
        task.text,
    )
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
