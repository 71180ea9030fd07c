"""What the response of an external compressor is found by.

The key holds all that a response depends on, so a changed model or ratio, or another question, never
gets what was made for a different one.
"""

from __future__ import annotations

import hashlib

from penumbra.external.strategy import Strategy, Task


def key(secret: bytes, strategy: Strategy, task: Task) -> bytes:
    """What the response to a task is found by; 20 bytes. `secret` is the installation's key."""
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
