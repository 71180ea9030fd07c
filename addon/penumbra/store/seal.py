"""What is written to disk can be read with the installation's key only.

Each table has a key of its own, made from the installation's; each record is bound to its table and row,
so that no record can be put in another's place. What can't be opened is not there: it was written
with another key, or changed.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12
"""Random ones, with which a sealed record begins."""


class Seal:
    """Encrypts the records of one table with AES-GCM. Safe between threads."""

    def __init__(self, key: bytes, table: str) -> None:
        self._table = table.encode()
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"penumbra " + self._table)
        self._cipher = AESGCM(derived.derive(key))

    def close(self, row: bytes, record: bytes) -> bytes:
        """A record as it is written into a row."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, record, self._bound(row))

    def open(self, row: bytes, data: bytes) -> bytes | None:
        """The record in a row; None if it was not written there with this key."""
        try:
            return self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], self._bound(row))
        except (InvalidTag, ValueError, TypeError):
            return None

    def _bound(self, row: bytes) -> bytes:
        return len(self._table).to_bytes(1, "big") + self._table + row
