"""This module reads and makes the installation's key, and derives the keys that seal rows and identify a
shared store.

The key is 32 random bytes in a regular file that only its owner could read or write. Each table has its own
key. Each record is bound to its table and row, so that no record can replace another. A record that can't be
decrypted, because of another key or a change, counts as absent.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_IS_POSIX = hasattr(os, "geteuid")
"""Only POSIX files have owners and modes."""
_SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def open_private(path: Path, flags: int) -> int:
    """Open a regular file that the user owns, and return its descriptor. Links are refused, and a new file
    gets mode 0600. Raises OSError."""
    descriptor = os.open(path, flags | _SAFE, 0o600)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and (not _IS_POSIX or status.st_uid == os.geteuid()):
        return descriptor
    os.close(descriptor)
    raise OSError("it is no regular file of this user")


def others_may_use(descriptor: int) -> bool:
    """Return whether other users than the owner may read or write a file."""
    return _IS_POSIX and bool(os.fstat(descriptor).st_mode & 0o077)


def make_private(descriptor: int) -> None:
    """Remove all rights of other users than the owner."""
    if _IS_POSIX:
        os.fchmod(descriptor, 0o600)


WARNING_ID = "PENUMBRA_KEY_UNUSABLE"
_BYTES = 32
_log = logging.getLogger(__name__)


class _Unsafe(OSError):
    """An `_Unsafe` is raised for a file of the user that others may have read, or that contains no key."""


def installation_key(path: Path | None) -> bytes:
    """Return the 32 random bytes of this installation. The first call creates the file with mode 0600. A key
    that others could read is replaced, and rows sealed with the old key then count as absent. If there is no
    path, or the file can't be used or has another owner, the key is valid only for this process."""
    if path is None:
        return secrets.token_bytes(_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(path):
            _create(path, replace=False)
        try:
            return _read(path)
        except _Unsafe as error:
            _log.warning("%s: %s: %s; a new key replaces it", WARNING_ID, path, error)
            _create(path, replace=True)
            return _read(path)
    except OSError as error:
        _log.warning("%s: %s: %s; keys are made anew at every start", WARNING_ID, path, error)
        return secrets.token_bytes(_BYTES)


def existing_key(path: Path | None) -> bytes | None:
    """Return the existing key, or None. No file is created or replaced."""
    try:
        return _read(path) if path is not None else None
    except OSError:
        return None


def _read(path: Path) -> bytes:
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        if others_may_use(file.fileno()):
            raise _Unsafe("others could read it")
        key = file.read(_BYTES + 1)
    if len(key) != _BYTES:
        raise _Unsafe("not a key of 32 bytes")
    return key


def _create(path: Path, *, replace: bool) -> None:
    # The file is written under another name and then put into place, so that two first starts read the same
    # key.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(open_private(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY), "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)


NONCE_BYTES = 12
"""Random bytes at the beginning of a sealed record."""


class Seal:
    """A `Seal` encrypts the records of one table with AES-GCM. Several threads may use it."""

    def __init__(self, key: bytes, table: str) -> None:
        self._table = table.encode()
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"penumbra " + self._table)
        self._cipher = AESGCM(derived.derive(key))

    def close(self, row: bytes, record: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, record, self._bound(row))

    def open(self, row: bytes, data: bytes) -> bytes | None:
        """Return the record of a row; None if it was changed, or was sealed for another row or with another
        key."""
        try:
            return self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], self._bound(row))
        except (InvalidTag, ValueError, TypeError):
            return None

    def _bound(self, row: bytes) -> bytes:
        return len(self._table).to_bytes(1, "big") + self._table + row


HOW = "64 hexadecimal digits, or a file with them (`openssl rand -hex 32` makes some)"
_DIGITS = re.compile(r"[0-9a-fA-F]{64}")
_MOST_BYTES = 1_000


class StoreKeyError(ValueError):
    """A `StoreKeyError` is raised if the key is missing or unusable. The message is one line, and quotes
    nothing of the file."""


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """A `SharedPlace` has the address of a shared store and its key."""

    url: str = field(repr=False)
    """The address, which may contain a password."""
    key: bytes = field(repr=False)

    def installation_key(self) -> bytes:
        """Return the key that replaces an installation's own key. All proxies thus make the same hashes."""
        return self.derived("installation")

    def derived(self, purpose: str) -> bytes:
        """Return 32 bytes for a purpose. Every proxy with this key gets the same bytes."""
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"penumbra fleet {purpose}".encode())
        return derived.derive(self.key)


def place(url: str, key: str) -> SharedPlace | None:
    """Return the shared store of the settings; None if there is none. `HOW` describes `key`. Raises
    StoreKeyError."""
    return SharedPlace(url, _key(key)) if url else None


def _key(setting: str) -> bytes:
    if not setting:
        raise StoreKeyError(f"nothing, needed: {HOW}")
    if _DIGITS.fullmatch(setting):
        return bytes.fromhex(setting)
    path = Path(os.path.expanduser(setting))
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise StoreKeyError(f"a file that can't be read ({error.strerror}), needed: {HOW}") from None
    if not _DIGITS.fullmatch(text):
        raise StoreKeyError(f"a file without a key, needed: {HOW}")
    return bytes.fromhex(text)
