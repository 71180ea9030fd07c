"""The key that all proxies on one shared store have in common, and what is derived from it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

HOW = "64 hexadecimal digits, or a file with them (`openssl rand -hex 32` makes some)"
_DIGITS = re.compile(r"[0-9a-fA-F]{64}")
_MOST_BYTES = 1_000


class StoreKeyError(ValueError):
    """There is no key. One line, without what was read."""


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """Where the store is, and what is kept in it under which key."""

    url: str = field(repr=False)
    """May have a password in it."""
    key: bytes = field(repr=False)

    def installation_key(self) -> bytes:
        """In the place of a machine's own: all proxies hash alike."""
        return self.derived("installation")

    def derived(self, purpose: str) -> bytes:
        """32 bytes for one purpose, the same at every proxy."""
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"penumbra fleet {purpose}".encode())
        return derived.derive(self.key)


def place(url: str, key: str) -> SharedPlace | None:
    """Where an operator's settings put the store; None: nowhere. `key`: see `HOW`. Raises StoreKeyError."""
    return SharedPlace(url, _key(key)) if url else None


def _key(given: str) -> bytes:
    if not given:
        raise StoreKeyError(f"nothing, needed: {HOW}")
    if _DIGITS.fullmatch(given):
        return bytes.fromhex(given)
    path = Path(os.path.expanduser(given))
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise StoreKeyError(f"a file that can't be read ({error.strerror}), needed: {HOW}") from None
    if not _DIGITS.fullmatch(text):
        raise StoreKeyError(f"a file without a key, needed: {HOW}")
    return bytes.fromhex(text)
